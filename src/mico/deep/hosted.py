"""The fleet on environments outside JAX: the same learner and the same state, one step of every run at a time."""

import math
from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, Shaped, UInt8

from mico.deep import learner
from mico.deep.envs import AbstractHostEnv, Episodes, HostOutcome
from mico.deep.fleet import COMPILER_OPTIONS, Happened
from mico.deep.learner import Ended, Episode, Losses, State
from mico.deep.replay import Memory
from mico.deep.settings import Run
from mico.deep.types import Params, Spec, Step


class Hosted:
    """Environments of all runs, stepped together, and the programs that learn and act between their steps.

    What is not needed for the next actions is done while the environments take the next step: a step is remembered,
    unless it is one of those after which the runs learn.
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
        fleet, structure = jax.tree.flatten(self._fleet)
        structures, held = (_Held(*map(apart, state)) for apart in (jax.tree.structure, jax.tree.leaves))
        programs = _programs(structure, structures)
        self._episodes.send(actions)
        for now in range(time, end):
            yield
            rows = jax.device_put(_rows(actions, self._episodes.receive(), now))
            due = (now + 1) % period == 0
            if due:
                held = held._replace(memory=programs.remembered(fleet, held.memory, held.episode, rows))
            if due and learns:
                held, loss = programs.improved(fleet, held, np.int32(now + 1))
                losses.append(loss)
            episode, note = programs.chosen(fleet, held.params, held.episode, rows)
            notes.append(np.asarray(note))
            actions = self._spelt(notes[-1][:, :-3])
            if now + 1 < end:
                self._episodes.send(actions)
            memory = held.memory if due else programs.remembered(fleet, held.memory, held.episode, rows)
            held = held._replace(episode=episode, memory=memory)
        self._actions = actions
        over, *others = np.moveaxis(np.stack(notes)[..., -3:], -1, 0)
        happened = Happened(Ended(over > 0, *others), _stacked(losses) if losses else None)
        return State(*map(jax.tree.unflatten, structures, held)), happened

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
    """A step of one run that was taken: what came of it, the frame to act on next, and when."""

    step: Step
    frame: Shaped[Array, "..."]
    time: Int[Array, ""]


def _rows(actions: Shaped[np.ndarray, "N ..."], outcome: HostOutcome, time: int) -> UInt8[np.ndarray, "N K"]:
    """A step of each run as bytes: one array is on the device sooner than several."""
    count = len(actions)
    ends = np.stack([outcome.reward, outcome.terminal, outcome.timeout], axis=1)
    numbers = np.concatenate([actions.reshape(count, -1), ends], axis=1).astype(np.float32)
    parts = outcome.frame, outcome.next_frame, numbers, np.full((count, 1), time, np.int32)
    return np.concatenate([np.ascontiguousarray(part).reshape(count, -1).view(np.uint8) for part in parts], axis=1)


def _taken(row: UInt8[Array, " K"], stack: Shaped[Array, "S ..."], spec: Spec) -> _Taken:
    """What a row says; the newest frame of the stack is what was seen before."""
    pixels = math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
    frame, next_frame, rest = jnp.split(row, [pixels, 2 * pixels])
    frame, next_frame = (_read(part, spec.dtype).reshape(spec.shape) for part in (frame, next_frame))
    numbers, (time,) = _read(rest[:-4], "float32"), _read(rest[-4:], "int32")
    action = numbers[:-3].reshape(spec.action_shape).astype(spec.action_dtype)
    reward, terminal, timeout = numbers[-3:]
    return _Taken(Step(stack[-1], action, reward, next_frame, terminal > 0, timeout > 0), frame, time)


def _read(part: UInt8[Array, " K"], dtype: str) -> Shaped[Array, " L"]:
    """Numbers that were sent as bytes."""
    size = np.dtype(dtype).itemsize
    return part.astype(dtype) if size == 1 else jax.lax.bitcast_convert_type(part.reshape(-1, size), dtype)


@partial(jax.jit, static_argnames="spec")
def _begin(fleet: Run, frame: Shaped[Array, "N ..."], *, spec: Any) -> State:
    return jax.vmap(lambda run, frame: learner.start(run, spec, None, frame))(fleet, frame)


@jax.jit
def _first_actions(fleet: Run, params: Params, episode: Episode, time: Int[Array, ""]) -> Shaped[Array, "N ..."]:
    return jax.vmap(_action, in_axes=(0, 0, 0, None))(fleet, params, episode, time)


class _Held(NamedTuple):
    """The parts of a state, taken apart: the leaves of each, or its structure."""

    params: Any
    target: Any
    optimiser: Any
    memory: Any
    episode: Any
    bad_step: Any


class _Programs(NamedTuple):
    """Of a step, on lists of leaves: to take modules apart, in Python, would be a good part of what a call takes."""

    chosen: Callable[..., Any]  # of fleet, parameters, episodes and rows: the episodes after the step, and a note
    remembered: Callable[..., Any]  # of fleet, memory (given away), episodes and rows: the memory
    improved: Callable[..., Any]  # of fleet, state (given away) and time: the state and its losses


@cache
def _programs(fleet: Any, parts: _Held) -> _Programs:
    """For fleets and parts of a state of these structures."""
    whole, leaves = jax.tree.unflatten, jax.tree.leaves

    @jax.jit
    def chosen(runs, params, episode, rows):
        args = whole(fleet, runs), whole(parts.params, params), whole(parts.episode, episode)
        after, note = jax.vmap(_chosen)(*args, rows)
        return leaves(after), note

    @partial(jax.jit, donate_argnums=1)
    def remembered(runs, memory, episode, rows):
        args = whole(fleet, runs), whole(parts.memory, memory), whole(parts.episode, episode)
        return leaves(jax.vmap(_remembered)(*args, rows))

    @partial(jax.jit, donate_argnums=1, compiler_options=COMPILER_OPTIONS)
    def improved(runs, state, time):
        update = jax.vmap(learner.update, in_axes=(0, 0, None))
        after, losses = update(whole(fleet, runs), State(*map(whole, parts, state)), time)
        return _Held(*map(leaves, after)), losses

    return _Programs(chosen, remembered, improved)


def _chosen(
    run: Run, params: Params, episode: Episode, row: UInt8[Array, " K"]
) -> tuple[Episode, Float[Array, " numbers"]]:
    """The episode after a step, and all that the host must know: the next action, the end, return and length."""
    taken = _taken(row, episode.stack, run.env.spec)
    episode, ended = learner.advance(episode, taken.step, None, taken.frame)
    note = jnp.ravel(_action(run, params, episode, taken.time + 1)), *ended
    return episode, jnp.hstack([jnp.asarray(number, dtype=float) for number in note])


def _action(run: Run, params: Params, episode: Episode, time: Int[Array, ""]) -> Shaped[Array, "..."]:
    return learner.act(run, params, episode.stack, run.schedule.exploration(time), learner.play_keys(run, time))


def _remembered(run: Run, memory: Memory, episode: Episode, row: UInt8[Array, " K"]) -> Memory:
    taken = _taken(row, episode.stack, run.env.spec)
    steps = jax.tree.map(lambda leaf: leaf[None], taken.step)
    return learner.remembered(run, memory, steps, taken.time)


def _stacked(each: Sequence[Losses]) -> Losses:
    """One row after the other, in host memory."""
    return jax.tree.map(lambda *rows: np.stack(rows), *jax.device_get(each))
