"""The fleet on environments outside JAX: the same learner and the same state, one step of every run at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from mico.deep.config.run import Run
from mico.deep.envs import AbstractHostEnv, Episodes
from mico.deep.fleet import host_programs, pinned_io
from mico.deep.fleet.host_programs import Held, apart
from mico.deep.fleet.jax_engine import Happened, Job
from mico.deep.learner.state import TrainState


class Hosted:
    """Environments of all runs, stepped together, and the programs that remember, learn and act between their steps."""

    def __init__(self, runs: Sequence[Run], fleet: Run):
        self._fleet = fleet
        self._spec = runs[0].env.spec
        self._episodes = Episodes(
            cast(AbstractHostEnv, runs[0].env).make(len(runs)), np.array([run.seed for run in runs])
        )
        self._actions: Shaped[np.ndarray, "N ..."] | None = None  # chosen, but not yet taken
        self._device = jax.tree.leaves(fleet)[0].sharding
        self._rows = pinned_io.Rows(len(runs), self._spec, self._device)

    def shape(self) -> TrainState:
        """The shapes of a state, which take no memory."""
        return jax.eval_shape(self.begin)

    def begin(self) -> TrainState:
        state = host_programs.begin(self._fleet, self._episodes.start(), spec=self._spec)
        return jax.device_put(state, self._device)  # as the programs of steps leave it: else `look` is compiled twice

    def play(self, state: TrainState, time: int, length: int, learns: bool) -> tuple[TrainState, Happened]:
        """A chunk of steps of every run, with an update every period if the chunk `learns`."""
        return self.prepared(state, time, length, learns)(lambda: False)

    def prepared(self, state: TrainState, time: int, length: int, learns: bool) -> Job:
        """Make the job of a chunk, for any thread to run; what depends on JAX's settings in this one is done now."""
        if self._actions is None:
            first = host_programs.first_actions(self._fleet, state.params, state.episode, jnp.int32(time))
            self._actions = pinned_io.spelt(np.asarray(first), self._spec)
        like, held = Held(*map(apart, state)), Held(*map(jax.tree.leaves, state))
        programs, times = self._programs(like, learns), range(time, time + length)

        def job(stopped: Callable[[], bool]) -> tuple[TrainState, Happened]:
            after, notes, made = self._steps(programs, held, times, stopped)
            losses = made if learns else None
            if programs.learn is not None:
                losses = [pinned_io.noted_losses(note) for now, note in zip(times, notes) if self._due(now)]
            happened = pinned_io.happened(notes, losses)
            return TrainState(*(part.whole(leaves) for part, leaves in zip(like, after))), happened

        return job

    def _programs(self, like: Held, learns: bool) -> "_Programs":
        precision = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        args = apart(self._fleet), like, self._rows.array.shape, self._device, precision
        play = host_programs.program("play", *args)
        if not learns:
            return _Programs(play)
        if self._fleet.schedule.acting == "while-learning":
            return _Programs(play, update=host_programs.program("update", *args))
        return _Programs(play, learn=host_programs.program("learn", *args))

    def _steps(
        self, programs: "_Programs", held: Held, times: range, stopped: Callable[[], bool]
    ) -> tuple[Held, list[Float[np.ndarray, "N numbers"]], list[Float[np.ndarray, "N losses"]]]:
        """The state after steps at these times, the notes of each, and the losses of updates that notes do not have."""
        fleet, rows, each, made, losses = jax.tree.leaves(self._fleet), self._rows.array, [], [], None
        self._send(stopped)
        for now in times:
            self._rows.write(self._episodes.receive(), now)
            if programs.learn is not None and self._due(now):
                held, notes = programs.learn(fleet, held, rows)
            else:
                memory, episode, notes = programs.play(fleet, held.params, held.memory, held.episode, rows)
                held = held._replace(memory=memory, episode=episode)
            each.append(pinned_io.awaited(notes))
            self._actions = pinned_io.noted_actions(each[-1], self._spec)
            if now < times[-1]:
                self._send(stopped)
            if losses is not None:  # of an update that is done, for the last note came after it
                made.append(pinned_io.left(losses))
                losses = None
            if programs.update is not None and self._due(now):  # while the environments play
                held, losses = programs.update(fleet, held, np.int32(now))
        return held, each, made if losses is None else [*made, pinned_io.left(losses)]

    def _send(self, stopped: Callable[[], bool]) -> None:
        """Have the environments take the actions that were chosen."""
        if stopped():
            raise InterruptedError("another part of the fleet has stopped")
        self._episodes.send(cast(np.ndarray, self._actions))

    def _due(self, time: int) -> bool:
        """Whether an update follows the step at `time`."""
        return (time + 1) % self._fleet.schedule.update_period == 0

    def snapshot(self) -> dict[str, Any]:
        return self._episodes.snapshot() | {"next": None if self._actions is None else self._actions.tolist()}

    def restore(self, snapshot: dict[str, Any], stopped: Callable[[], bool]) -> None:
        self._episodes.restore(snapshot, stopped)
        following = snapshot["next"]
        self._actions = None if following is None else pinned_io.spelt(np.array(following), self._spec)

    def close(self) -> None:
        self._episodes.close()


class _Programs(NamedTuple):
    """As `host_programs` describes them: to act after learning there is `learn`, to act meanwhile `update`."""

    play: Callable[..., Any]
    learn: Callable[..., Any] | None = None
    update: Callable[..., Any] | None = None
