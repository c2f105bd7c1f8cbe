"""The programs of a step of environments outside JAX, compiled: to remember it, to learn and to act."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt8

from mico.deep.config.run import Run
from mico.deep.fleet import pinned_io
from mico.deep.fleet.batching import update_fleet
from mico.deep.fleet.jax_engine import COMPILER_OPTIONS
from mico.deep.learner import acting
from mico.deep.learner.state import EnvCarry, TrainState, UpdateMetrics, init_state, play_keys
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params, Timestep


class Apart(NamedTuple):
    """What a tree of arrays is like: its structure, and the shape and type of each leaf."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any], ...]

    def whole(self, leaves: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.structure, leaves)

    def abstract(self, device: Any) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(shape, dtype, sharding=device) for shape, dtype in self.leaves]


def apart(tree: Any) -> Apart:
    leaves, structure = jax.tree.flatten(tree)
    return Apart(structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves))


class Held(NamedTuple):
    """The parts of a state, taken apart: the leaves of each, or what it is like."""

    params: Any
    target: Any
    optimiser: Any
    memory: Any
    episode: Any
    bad_step: Any


@cache
def program(
    kind: Literal["play", "learn", "update"],
    fleet: Apart,
    state: Held,
    rows: tuple[int, int],
    device: Any,
    precision: Any,
) -> Callable[..., Any]:
    """A program for runs like these, which also depends on JAX's `precision` of products where it is compiled.

    It works on lists of leaves: to take modules apart, in Python, would be a good part of what a call takes. What
    changes is given away and left in the same place: a GPU then has a graph of kernels to repeat as it is.

    play: fleet, parameters, memory and episodes (both given away) and rows → memory, episodes and notes;
    learn: fleet, state (given away) and rows → state and notes: the same with an update in between;
    update: fleet, state (given away) and the time of its last step → state and losses.
    """
    host = pinned_io.on_host(device)
    compiled = partial(jax.jit, compiler_options=COMPILER_OPTIONS)

    @partial(compiled, donate_argnums=(2, 3), out_shardings=(device, device, host))
    def play(runs, params, memory, episode, rows):
        args = fleet.whole(runs), state.params.whole(params), state.memory.whole(memory), state.episode.whole(episode)
        memory, episode, notes = jax.vmap(_played)(*args, jax.device_put(rows, device))
        return jax.tree.leaves(memory), jax.tree.leaves(episode), jax.device_put(notes, host)

    @partial(compiled, donate_argnums=1, out_shardings=(device, host))
    def learn(runs, held, rows):
        before = TrainState(*(part.whole(leaves) for part, leaves in zip(state, held)))
        after, notes = _learnt(fleet.whole(runs), before, jax.device_put(rows, device))
        return Held(*map(jax.tree.leaves, after)), jax.device_put(notes, host)

    @partial(compiled, donate_argnums=1, out_shardings=(device, host))
    def update(runs, held, time):
        before = TrainState(*(part.whole(leaves) for part, leaves in zip(state, held)))
        after, losses = update_fleet(fleet.whole(runs), before, time + 1)
        return Held(*map(jax.tree.leaves, after)), jax.device_put(pinned_io.noted(losses), host)

    runs, held = fleet.abstract(device), Held(*(part.abstract(device) for part in state))
    sent = jax.ShapeDtypeStruct(rows, np.uint8, sharding=host)
    if kind == "update":
        return update.lower(runs, held, jax.ShapeDtypeStruct((), np.int32, sharding=device)).compile()
    if kind == "learn":
        return learn.lower(runs, held, sent).compile()
    return play.lower(runs, held.params, held.memory, held.episode, sent).compile()


@partial(jax.jit, static_argnames="spec")
def begin(fleet: Run, frame: Shaped[Array, "N ..."], *, spec: Any) -> TrainState:
    return jax.vmap(lambda run, frame: init_state(run, spec, None, frame))(fleet, frame)


@jax.jit
def first_actions(fleet: Run, params: Params, episode: EnvCarry, time: Int[Array, ""]) -> Shaped[Array, "N ..."]:
    return jax.vmap(_action, in_axes=(0, 0, 0, None))(fleet, params, episode, time)


def _played(
    run: Run, params: Params, memory: ReplayState, episode: EnvCarry, row: UInt8[Array, " K"]
) -> tuple[ReplayState, EnvCarry, Float[Array, " numbers"]]:
    """A step that was taken is remembered, and the next action is chosen."""
    step, time = pinned_io.taken(row, episode.stack, run.env.spec)
    memory = _remembered(run, memory, step, time)
    return memory, *_chosen(run, params, episode, step, time, None)


def _learnt(fleet: Run, state: TrainState, rows: UInt8[Array, "N K"]) -> tuple[TrainState, Float[Array, "N numbers"]]:
    """Remember the step of every run, update, and choose the next actions."""
    step, time = jax.vmap(partial(pinned_io.taken, spec=fleet.env.spec))(rows, state.episode.stack)
    state = state._replace(memory=jax.vmap(_remembered)(fleet, state.memory, step, time))
    state, losses = update_fleet(fleet, state, time[0] + 1)
    episode, notes = jax.vmap(_chosen)(fleet, state.params, state.episode, step, time, losses)
    return state._replace(episode=episode), notes


def _remembered(run: Run, memory: ReplayState, step: Timestep, time: Int[Array, ""]) -> ReplayState:
    return acting.add_to_replay(run, memory, jax.tree.map(lambda leaf: leaf[None], step), time)


def _chosen(
    run: Run, params: Params, episode: EnvCarry, step: Timestep, time: Int[Array, ""], losses: UpdateMetrics | None
) -> tuple[EnvCarry, Float[Array, " numbers"]]:
    """The episode after a step, and a note for the host."""
    episode, ended = acting.advance_episode(episode, step, None)
    return episode, pinned_io.note(ended, losses, _action(run, params, episode, time + 1))


def _action(run: Run, params: Params, episode: EnvCarry, time: Int[Array, ""]) -> Shaped[Array, "..."]:
    return acting.act(run, params, episode.stack, run.schedule.exploration(time), play_keys(run, time))
