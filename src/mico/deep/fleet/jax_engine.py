"""Some runs as one program: the same moves with a leading axis over runs, in chunks of steps."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from mico.deep.config.run import Run, describe
from mico.deep.envs import AbstractEnv
from mico.deep.fields import flatten
from mico.deep.fleet.batching import diagnose_fleet
from mico.deep.fleet.engine import COMPILER_OPTIONS, AbstractEngine, Ahead, ChunkFn, ChunkMetrics
from mico.deep.learner import acting, update
from mico.deep.learner.state import EnvCarry, EpisodeEnd, TrainState, UpdateMetrics, init_state, play_keys, reset_key
from mico.deep.types import Params, Timestep

_UNROLLED = 8  # steps: a turn of a loop costs an accelerator as much as the step itself
# LLVM's optimisations are a third of a program's compilation on a CPU: one that begins or plays the first steps runs
# too seldom to make up for it. Parameters and logs are the same to the bit, which rows of the log would not be.
_QUICK = {"xla_backend_optimization_level": 1}


def stack(runs: Sequence[Run]) -> Run:
    """Stack runs that differ in seeds and numbers alone along a leading axis."""
    first = jax.tree.structure(runs[0])
    for run in runs:
        if jax.tree.structure(run) != first:
            raise ValueError(f"runs of a fleet differ in seeds and numbers alone, but {_difference(runs[0], run)}")
    return jax.tree.map(lambda *numbers: jnp.stack([jnp.asarray(number) for number in numbers]), *runs)


def _difference(one: Run, other: Run) -> str:
    """The field that keeps two runs out of one fleet: one of a part whose structure differs, a number at last."""
    parts = [
        name for name in vars(one) if jax.tree.structure(getattr(one, name)) != jax.tree.structure(getattr(other, name))
    ]
    old, new = (flatten({name: part for name, part in describe(run).items() if name in parts}) for run in (one, other))
    fields = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    name = min(fields, key=lambda name: isinstance(old.get(name), float) and isinstance(new.get(name), float))
    return f"{name} is {old.get(name)!r} in one and {new.get(name)!r} in another"


class JaxEngine(AbstractEngine):
    """Environments of all runs inside the program that trains them."""

    def __init__(self, runs: Sequence[Run], fleet: Run):
        self.fleet = fleet

    def begin(self) -> TrainState:
        return (_begin_on_cpu if jax.default_backend() == "cpu" else _begin)(self.fleet)

    def shape(self) -> TrainState:
        return jax.eval_shape(_begin, self.fleet)  # JAX takes no compiler options within another program

    def compile_chunk(self, state: TrainState, time: int, length: int, learns: bool) -> ChunkFn:
        given = self.fleet, state, jnp.int32(time)
        program = _program(learns).lower(*given, length=length, learns=learns).compile()
        return lambda stopped: program(*given)

    def lower_ahead(self, kind: Ahead, shape: TrainState, length: int) -> Any | None:
        time = jax.ShapeDtypeStruct((), jnp.int32)
        if kind == "diagnose":
            return diagnose.lower(self.fleet, shape, time)
        return _program(learns=False).lower(self.fleet, shape, time, length=length, learns=False)


def _begin_all(fleet: Run) -> TrainState:
    """Make the state of every run before its first step."""

    def one(run: Run) -> TrainState:
        env, frame = cast(AbstractEnv, run.env).reset(reset_key(run))
        return init_state(run, run.env.spec, env, frame)

    return jax.vmap(one)(fleet)


_begin, _begin_on_cpu = jax.jit(_begin_all), jax.jit(_begin_all, compiler_options=_QUICK)


def _program(learns: bool) -> Any:
    return _train if learns or jax.default_backend() != "cpu" else _act_on_cpu


def _chunk(
    fleet: Run, state: TrainState, time: Int[Array, ""], *, length: int, learns: bool
) -> tuple[TrainState, ChunkMetrics]:
    """Play a chunk of steps from `time` on."""
    period = fleet.schedule.update_period

    def cycle(state: TrainState, at: tuple[Int[Array, " k"], Key[Array, "N k 3"]]) -> tuple[TrainState, Any]:
        times, keys = at

        def one(
            run: Run, state: TrainState, keys: Key[Array, "k 3"]
        ) -> tuple[TrainState, tuple[EpisodeEnd, UpdateMetrics | None]]:
            episode, (steps, ended) = _play_cycle(run, state, times, keys)
            memory = acting.add_to_replay(run, state.memory, steps, times[0])
            state = state._replace(episode=episode, memory=memory)
            state, losses = update.update(run, state, times[-1] + 1) if learns else (state, None)
            return state, (ended, losses)

        return jax.vmap(one)(fleet, state, keys)

    times = (time + jnp.arange(length, dtype=time.dtype)).reshape(-1, period)
    of_run = jax.vmap(jax.vmap(play_keys, in_axes=(None, 0)), in_axes=(None, 0))
    keys = jax.vmap(of_run, in_axes=(0, None), out_axes=1)(fleet, times)  # all at once, not a few a cycle
    state, (ended, losses) = jax.lax.scan(cycle, state, (times, keys))
    by_step = jax.tree.map(lambda leaf: leaf.swapaxes(1, 2).reshape(length, -1), ended)
    return state, ChunkMetrics(by_step, losses)


_jit_chunk = partial(jax.jit, _chunk, donate_argnums=1, static_argnames=("length", "learns"))
_train, _act_on_cpu = _jit_chunk(compiler_options=COMPILER_OPTIONS), _jit_chunk(compiler_options=_QUICK)


def copy_targets(state: TrainState) -> TrainState:
    """Copy the online networks to the target networks."""
    return state._replace(target=_copy(state.params))


@jax.jit
def _copy(params: Params) -> Params:
    """Copy parameters into memory of their own.

    Donating the whole state here lets XLA shift its arrays about, which GPUs got wrong.
    """
    return jax.tree.map(jnp.copy, params)


@jax.jit
def diagnose(fleet: Run, state: TrainState, time: Int[Array, ""]) -> dict[str, Float[Array, " N"]]:
    """Measure the representations of every run."""
    return diagnose_fleet(fleet, state, time)


def _play_cycle(
    run: Run, state: TrainState, times: Int[Array, " k"], keys: Key[Array, "k 3"]
) -> tuple[EnvCarry, tuple[Timestep, EpisodeEnd]]:
    """Play the steps of one run between two updates."""
    epsilon = jax.vmap(run.schedule.exploration)(times)

    def step(
        episode: EnvCarry, now: tuple[Key[Array, "3"], Float[Array, ""]]
    ) -> tuple[EnvCarry, tuple[Timestep, EpisodeEnd]]:
        keys, epsilon = now
        action = acting.act(run, state.params, episode.stack, epsilon, keys)
        env, taken = cast(AbstractEnv, run.env).step(episode.env, action, keys[2])
        taken = taken._replace(observation_frame=episode.stack[-1], action=action)
        episode, ended = acting.advance_episode(episode, taken, env)
        return episode, (taken._replace(reset_frame=None), ended)

    unrolled = 1 if jax.default_backend() == "cpu" else min(run.schedule.update_period, _UNROLLED)
    return jax.lax.scan(step, state.episode, (keys, epsilon), unroll=unrolled)
