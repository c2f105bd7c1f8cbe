"""The fleet on environments outside JAX: the same learner and the same state, one step of every run at a time."""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, Shaped

from mico.deep import learner
from mico.deep.envs import AbstractHostEnv, Episodes, HostOutcome
from mico.deep.fleet import COMPILER_OPTIONS, Happened
from mico.deep.learner import Ended, Episode, Losses, State
from mico.deep.replay import Memory
from mico.deep.settings import Run
from mico.deep.types import Params, Spec, Step


class Hosted:
    """Environments of all runs, stepped together, and the programs that learn and act between their steps.

    What is not needed for the next actions, remembering a step, is done while the environments take the next one.
    """

    def __init__(self, runs: Sequence[Run], fleet: Run):
        self._fleet = fleet
        self._spec = runs[0].env.spec
        self._episodes = Episodes(
            cast(AbstractHostEnv, runs[0].env).make(len(runs)), np.array([run.seed for run in runs])
        )
        self._actions: Shaped[np.ndarray, "N ..."] | None = None  # chosen, but not yet taken

    def begin(self) -> State:
        return _begin(self._fleet, self._episodes.start(), spec=self._spec)

    def play(self, state: State, time: int, length: int, learns: bool) -> tuple[State, Happened]:
        """A chunk of steps of every run, with an update every period if the chunk `learns`."""
        return in_turn([self.turns(state, time, length, learns)])[0]

    def turns(
        self, state: State, time: int, length: int, learns: bool
    ) -> Generator[None, None, tuple[State, Happened]]:
        """The same, with a pause for others whenever the environments have been sent off."""
        period, end, notes, losses = self._fleet.schedule.update_period, time + length, [], []
        actions = self._actions
        if actions is None:
            first = _first_actions(self._fleet, state.params, state.episode, jnp.int32(time))
            actions = self._spelt(np.asarray(first))
        self._episodes.send(actions)
        for now in range(time, end):
            yield
            taken = _taken(state.episode, actions, self._episodes.receive(), now)
            due = (now + 1) % period == 0
            if due:
                state = state._replace(memory=_remembered(self._fleet, state.memory, taken))
            if due and learns:
                state, loss = _improved(self._fleet, state, np.int32(now + 1))
                losses.append(loss)
            episode, note = _chosen(self._fleet, state.params, state.episode, taken)
            notes.append(np.asarray(note))
            actions = self._spelt(notes[-1][:, :-3])
            if now + 1 < end:
                self._episodes.send(actions)
            memory = state.memory if due else _remembered(self._fleet, state.memory, taken)
            state = state._replace(episode=episode, memory=memory)
        self._actions = actions
        over, *others = np.moveaxis(np.stack(notes)[..., -3:], -1, 0)
        return state, Happened(Ended(over > 0, *others), _rows(losses) if losses else None)

    def snapshot(self) -> dict[str, Any]:
        return self._episodes.snapshot() | {"next": None if self._actions is None else self._actions.tolist()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._episodes.restore(snapshot)
        self._actions = None if snapshot["next"] is None else self._spelt(np.array(snapshot["next"]))

    def _spelt(self, numbers: Num[np.ndarray, "N ..."]) -> Shaped[np.ndarray, "N ..."]:
        """Actions, of which only the numbers were kept, as the environments take them."""
        return numbers.reshape(-1, *self._spec.action_shape).astype(self._spec.action_dtype)

    def close(self) -> None:
        self._episodes.close()


def in_turn(all_turns: Sequence[Generator[None, None, Any]]) -> list[Any]:
    """What generators return, each having a turn after the other until all have ended."""
    ends: dict[int, Any] = {}
    while len(ends) < len(all_turns):
        for index in range(len(all_turns)):
            try:
                if index not in ends:
                    next(all_turns[index])
            except StopIteration as end:
                ends[index] = end.value
    return [ends[index] for index in range(len(all_turns))]


class _Taken(NamedTuple):
    """A step that was taken: what was seen before it, what came of it, and when."""

    stack: Shaped[Array, "N S ..."]
    frame: Any
    next_frame: Any
    numbers: Any  # of each run the action, the reward, whether it was terminal, and whether time was out
    time: Any

    def step(self, spec: Spec) -> Step:
        """Of one run."""
        reward, terminal, timeout = self.numbers[-3:]
        action = self.numbers[:-3].reshape(spec.action_shape).astype(spec.action_dtype)
        return Step(self.stack[-1], action, reward, self.next_frame, terminal > 0, timeout > 0)


def _taken(episode: Episode, actions: Shaped[np.ndarray, "N ..."], outcome: HostOutcome, time: int) -> _Taken:
    """As the programs take it: handing them NumPy's arrays is the shortest way to the device."""
    ends = np.stack([outcome.reward, outcome.terminal, outcome.timeout], axis=1)
    numbers = np.concatenate([actions.reshape(len(ends), -1), ends], axis=1)
    return _Taken(episode.stack, outcome.frame, outcome.next_frame, numbers, np.int32(time))


_EACH = _Taken._make((0, 0, 0, 0, None))  # the axes of runs


@partial(jax.jit, static_argnames="spec")
def _begin(fleet: Run, frame: Shaped[Array, "N ..."], *, spec: Any) -> State:
    return jax.vmap(lambda run, frame: learner.start(run, spec, None, frame))(fleet, frame)


@jax.jit
def _first_actions(fleet: Run, params: Params, episode: Episode, time: Int[Array, ""]) -> Shaped[Array, "N ..."]:
    return jax.vmap(_action, in_axes=(0, 0, 0, None))(fleet, params, episode, time)


@jax.jit
def _chosen(fleet: Run, params: Params, episode: Episode, taken: _Taken) -> tuple[Episode, Float[Array, "N K"]]:
    """The episodes after a step, and all that the host must know: the next actions, ends, returns and lengths."""

    def one(run: Run, params: Params, episode: Episode, taken: _Taken) -> tuple[Episode, Float[Array, " K"]]:
        episode, ended = learner.advance(episode, taken.step(run.env.spec), None, taken.frame)
        note = jnp.ravel(_action(run, params, episode, taken.time + 1)), *ended
        return episode, jnp.hstack([jnp.asarray(number, dtype=float) for number in note])

    return jax.vmap(one, in_axes=(0, 0, 0, _EACH))(fleet, params, episode, taken)


def _action(run: Run, params: Params, episode: Episode, time: Int[Array, ""]) -> Shaped[Array, "..."]:
    return learner.act(run, params, episode.stack, run.schedule.exploration(time), learner.play_keys(run, time))


@partial(jax.jit, donate_argnums=1)
def _remembered(fleet: Run, memory: Memory, taken: _Taken) -> Memory:
    def one(run: Run, memory: Memory, taken: _Taken) -> Memory:
        steps = jax.tree.map(lambda leaf: leaf[None], taken.step(run.env.spec))
        return learner.remembered(run, memory, steps, taken.time)

    return jax.vmap(one, in_axes=(0, 0, _EACH))(fleet, memory, taken)


@partial(jax.jit, donate_argnums=1, compiler_options=COMPILER_OPTIONS)
def _improved(fleet: Run, state: State, time: Int[Array, ""]) -> tuple[State, Losses]:
    return jax.vmap(learner.update, in_axes=(0, 0, None))(fleet, state, time)


def _rows(each: Sequence[Any]) -> Any:
    """One row after the other, in host memory."""
    return jax.tree.map(lambda *rows: np.stack(rows), *jax.device_get(each))
