"""The fleet on environments outside JAX: the same learner and the same state, one step of every run at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped, UInt8

from mico.deep.config.run import Run
from mico.deep.envs import AbstractHostEnv, Episodes
from mico.deep.fleet import host_programs, pinned_io
from mico.deep.fleet.engine import AbstractEngine, ChunkFn, ChunkMetrics
from mico.deep.fleet.host_programs import StateLeaves, layout
from mico.deep.learner.state import TrainState

_LONGEST_BLOCK = 32  # steps that enter the replay at once
_CLOCK = 256  # times whose keys are derived at once


class HostEngine(AbstractEngine):
    """Environments of all runs, stepped together, and programs that act, fill the replay and learn between steps."""

    def __init__(self, runs: Sequence[Run], fleet: Run):
        self.fleet = fleet
        self._spec = runs[0].env.spec
        self._period = fleet.schedule.update_period
        self._block = max(steps for steps in range(1, _LONGEST_BLOCK + 1) if self._period % steps == 0)
        self._episodes = Episodes(
            cast(AbstractHostEnv, runs[0].env).make(len(runs)), np.array([run.seed for run in runs])
        )
        self._actions: Shaped[np.ndarray, "N ..."] | None = None  # chosen, but not yet taken
        self._device = jax.tree.leaves(fleet)[0].sharding
        self._clock_start, self._clock = 0, self._make_clock(0)
        self._buffer = pinned_io.StepBuffer(len(runs), self._block, self._spec, self._clock.shape[-1], self._device)

    def begin(self) -> TrainState:
        state = host_programs.begin(self.fleet, self._episodes.start(), spec=self._spec)
        # As the programs of steps leave it: otherwise `diagnose` is compiled twice.
        return jax.device_put(state, self._device)

    def compile_chunk(self, state: TrainState, time: int, length: int, learns: bool) -> ChunkFn:
        if self._actions is None:
            first = host_programs.first_actions(self.fleet, state.params, state.episode, jnp.int32(time))
            self._actions = pinned_io.cast_actions(np.asarray(first), self._spec)
        like, held = StateLeaves(*map(layout, state)), StateLeaves(*map(jax.tree.leaves, state))
        programs, times = self._programs(like, learns), range(time, time + length)

        def play(stopped: Callable[[], bool]) -> tuple[TrainState, ChunkMetrics]:
            after, results, losses = self._steps(programs, held, times, stopped)
            if programs.learn is not None:
                losses = [pinned_io.decode_losses(results[at]) for at in range(self._period - 1, length, self._period)]
            metrics = pinned_io.decode_chunk(results, losses if learns else None)
            return TrainState(*(part.unflatten(leaves) for part, leaves in zip(like, after))), metrics

        return play

    def _programs(self, like: StateLeaves, learns: bool) -> "_Programs":
        precision = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        rows = self._buffer.newest.shape, self._buffer.block.shape
        args = layout(self.fleet), like, rows, self._device, precision
        acts_meanwhile = self.fleet.schedule.acting == "while-learning"
        needed = {"learn"} if learns and not acts_meanwhile else {"append"}
        needed |= {"update"} if learns and acts_meanwhile else set()
        needed |= {"append"} if self._block < self._period else set()
        needed |= {"act"} if "learn" not in needed or self._period > 1 else set()
        return _Programs(**{kind: host_programs.program(kind, *args) for kind in sorted(needed)})

    def _steps(
        self, programs: "_Programs", held: StateLeaves, times: range, stopped: Callable[[], bool]
    ) -> tuple[StateLeaves, list[Float[np.ndarray, "N numbers"]], list[Float[np.ndarray, "N losses"]]]:
        """Play steps at these times; the state then, the results of each, and the losses of updates made meanwhile."""
        act, append, learn, update = programs
        fleet, buffer = jax.tree.leaves(self.fleet), self._buffer
        newest, block = buffer.newest, buffer.block
        results, made, losses, read = [], [], None, None
        self._send(stopped)
        for now in times:
            step, slot = self._episodes.receive(), now % self._block
            if read is not None:  # only then may the block be written again
                read.block_until_ready()
                read = None
            buffer.write(step, self._clock_at(now + 1), slot)
            due = (now + 1) % self._period == 0
            if learn is not None and due:
                held, told = learn(fleet, held, newest, block)
            else:
                episode, told = cast(Any, act)(fleet, held.params, held.episode, newest)
                held = held._replace(episode=episode)
            results.append(pinned_io.fetch(told))
            self._actions = pinned_io.decode_actions(results[-1], self._spec)
            if losses is not None:  # of an update that is done, for the last result came after it
                made.append(pinned_io.fetch(losses))
                losses = None
            if now < times[-1]:
                self._send(stopped)
            if append is not None and slot == self._block - 1 and not (learn is not None and due):
                memory, read = append(fleet, held.memory, newest, block)  # while the environments play
                held = held._replace(memory=memory)
            if update is not None and due:
                held, losses = update(fleet, held, np.int32(now))
        if read is not None:
            read.block_until_ready()
        return held, results, made if losses is None else [*made, pinned_io.fetch(losses)]

    def _send(self, stopped: Callable[[], bool]) -> None:
        """Have the environments take the actions that were chosen."""
        if stopped():
            raise InterruptedError("another part of the fleet has stopped")
        self._episodes.send(cast(np.ndarray, self._actions))

    def _clock_at(self, time: int) -> UInt8[np.ndarray, "N bytes"]:
        """The time and the keys of a step, as programs read them."""
        if not 0 <= time - self._clock_start < _CLOCK:
            self._clock_start = time - time % _CLOCK
            self._clock = self._make_clock(self._clock_start)
        return self._clock[time - self._clock_start]

    def _make_clock(self, start: int) -> UInt8[np.ndarray, "T N bytes"]:
        times = np.arange(start, start + _CLOCK, dtype=np.int32)
        return pinned_io.encode_clock(times, np.asarray(host_programs.play_key_words(self.fleet, jnp.asarray(times))))

    def snapshot(self) -> dict[str, Any]:
        """Seeds and actions of the environments, and the actions to take next."""
        return self._episodes.snapshot() | {"next": None if self._actions is None else self._actions.tolist()}

    def restore(self, snapshot: dict[str, Any], stopped: Callable[[], bool]) -> None:
        """Play the episodes of a snapshot up to where they were."""
        self._episodes.restore(snapshot, stopped)
        following = snapshot["next"]
        self._actions = None if following is None else pinned_io.cast_actions(np.array(following), self._spec)

    def close(self) -> None:
        self._episodes.close()


class _Programs(NamedTuple):
    """As `host_programs` describes them: to act after learning there is `learn`, to act meanwhile `update`."""

    act: Callable[..., Any] | None = None
    append: Callable[..., Any] | None = None
    learn: Callable[..., Any] | None = None
    update: Callable[..., Any] | None = None
