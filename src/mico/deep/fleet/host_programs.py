"""The programs of a step of environments outside JAX, compiled: to act, to fill the replay and to learn."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped, UInt8, UInt32

from mico.deep.config.run import Run
from mico.deep.fleet import pinned_io
from mico.deep.fleet.batching import update_fleet
from mico.deep.fleet.engine import COMPILER_OPTIONS
from mico.deep.learner import acting
from mico.deep.learner.state import EnvCarry, TrainState, UpdateMetrics, init_state, play_keys
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params

Kind = Literal["act", "append", "learn", "update"]


class TreeLayout(NamedTuple):
    """The structure of a tree of arrays, and the shape and type of each leaf."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any], ...]

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.structure, leaves)

    def abstract(self, device: Any) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(shape, dtype, sharding=device) for shape, dtype in self.leaves]


def layout(tree: Any) -> TreeLayout:
    """Describe a tree of arrays."""
    leaves, structure = jax.tree.flatten(tree)
    return TreeLayout(structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves))


class StateLeaves(NamedTuple):
    """The leaves of each field of a `TrainState`, or their layouts."""

    params: Any
    target: Any
    optimiser: Any
    memory: Any
    episode: Any
    bad_step: Any


@cache
def program(
    kind: Kind, fleet: TreeLayout, state: StateLeaves, rows: tuple[tuple[int, ...], ...], device: Any, precision: Any
) -> Callable[..., Any]:
    """Compile a program for runs of this layout and rows of these shapes, by JAX's `precision` of products.

    It works on lists of leaves: to flatten Equinox modules, in Python, would be a good part of what a call takes. What
    changes is donated and left in the same place: a GPU then has a graph of kernels to repeat as it is.

    act: fleet, parameters, episodes (donated) and newest steps → episodes and results;
    append: fleet, replays (donated), newest steps and blocks → replays, and the time once the blocks are read;
    learn: fleet, state (donated), newest steps and blocks → state and results: append, update and act;
    update: fleet, state (donated) and the time of its last step → state and losses.
    """
    host = pinned_io.on_host(device)
    compiled = partial(jax.jit, compiler_options=COMPILER_OPTIONS)
    to_state: Callable[[Any], TrainState] = lambda held: TrainState(  # noqa: E731
        *(part.unflatten(leaves) for part, leaves in zip(state, held))
    )

    @partial(compiled, donate_argnums=2, out_shardings=(device, host))
    def act(runs, params, episode, newest):
        args = fleet.unflatten(runs), state.params.unflatten(params), state.episode.unflatten(episode)
        episode, results = jax.vmap(partial(_act, losses=None))(*args, jax.device_put(newest, device))
        return jax.tree.leaves(episode), jax.device_put(results, host)

    @partial(compiled, donate_argnums=1, out_shardings=(device, host))
    def append(runs, memory, newest, block):
        rows = jax.device_put((newest, block), device)
        memory, time = jax.vmap(_append)(fleet.unflatten(runs), state.memory.unflatten(memory), *rows)
        return jax.tree.leaves(memory), jax.device_put(time, host)

    @partial(compiled, donate_argnums=1, out_shardings=(device, host))
    def learn(runs, held, newest, block):
        rows = jax.device_put((newest, block), device)
        after, results = _learn(fleet.unflatten(runs), to_state(held), *rows)
        return StateLeaves(*map(jax.tree.leaves, after)), jax.device_put(results, host)

    @partial(compiled, donate_argnums=1, out_shardings=(device, host))
    def update(runs, held, time):
        after, losses = update_fleet(fleet.unflatten(runs), to_state(held), time + 1)
        return StateLeaves(*map(jax.tree.leaves, after)), jax.device_put(pinned_io.encode_losses(losses), host)

    runs, held = fleet.abstract(device), StateLeaves(*(part.abstract(device) for part in state))
    newest, block = (jax.ShapeDtypeStruct(shape, np.uint8, sharding=host) for shape in rows)
    if kind == "act":
        return act.lower(runs, held.params, held.episode, newest).compile()
    if kind == "append":
        return append.lower(runs, held.memory, newest, block).compile()
    if kind == "learn":
        return learn.lower(runs, held, newest, block).compile()
    return update.lower(runs, held, jax.ShapeDtypeStruct((), np.int32, sharding=device)).compile()


@partial(jax.jit, static_argnames="spec")
def begin(fleet: Run, frame: Shaped[Array, "N ..."], *, spec: Any) -> TrainState:
    """Make the state of every run before its first step, from the first frames."""
    return jax.vmap(lambda run, frame: init_state(run, spec, None, frame))(fleet, frame)


@jax.jit
def first_actions(fleet: Run, params: Params, episode: EnvCarry, time: Int[Array, ""]) -> Shaped[Array, "N ..."]:
    """Choose the actions at `time`, before any step."""
    choose = jax.vmap(lambda run, params, episode: _choose(run, params, episode, time, play_keys(run, time)))
    return choose(fleet, params, episode)


@jax.jit
def play_key_words(fleet: Run, times: Int[Array, " T"]) -> UInt32[Array, "T N words"]:
    """Derive the keys of steps in all runs at once: one by one, each would take longer than its network."""
    of_run = jax.vmap(lambda time: jax.vmap(play_keys, in_axes=(0, None))(fleet, time))
    words = jax.random.key_data(of_run(times))
    return words.reshape(*words.shape[:2], -1)


def _act(
    run: Run, params: Params, episode: EnvCarry, newest: UInt8[Array, " K"], losses: UpdateMetrics | None
) -> tuple[EnvCarry, Float[Array, " numbers"]]:
    """Follow an episode over its newest step and choose the next action; the results are for the host."""
    step, time, keys = pinned_io.decode_newest(newest, run.env.spec)
    episode, ended = acting.advance_episode(episode, step, None)
    return episode, pinned_io.encode_result(ended, losses, _choose(run, params, episode, time, keys))


def _append(
    run: Run, memory: ReplayState, newest: UInt8[Array, " K"], block: UInt8[Array, "T B"]
) -> tuple[ReplayState, Int[Array, ""]]:
    """Add a block of steps, the newest of which is the last, to a replay."""
    _, following, _ = pinned_io.decode_newest(newest, run.env.spec)
    steps = pinned_io.decode_block(block, run.env.spec)
    return acting.add_to_replay(run, memory, steps, following - len(block)), following


def _learn(
    fleet: Run, state: TrainState, newest: UInt8[Array, "N K"], block: UInt8[Array, "N T B"]
) -> tuple[TrainState, Float[Array, "N numbers"]]:
    """Add a block of steps to every replay, update, and act."""
    memory, time = jax.vmap(_append)(fleet, state.memory, newest, block)
    state, losses = update_fleet(fleet, state._replace(memory=memory), time[0])
    episode, results = jax.vmap(_act)(fleet, state.params, state.episode, newest, losses)
    return state._replace(episode=episode), results


def _choose(
    run: Run, params: Params, episode: EnvCarry, time: Int[Array, ""], keys: Key[Array, "3"]
) -> Shaped[Array, "..."]:
    return acting.act(run, params, episode.stack, run.schedule.exploration(time), keys)
