"""Episodes of a trained run: one in each of many environments side by side, so that short ones do not count twice."""

from functools import partial
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.envs import AbstractEnv, AbstractHostEnv, Episodes
from mico.deep.learner import acting
from mico.deep.replay import frame_stack
from mico.deep.types import Params


@runtime_checkable
class TrainedRun(Protocol):
    """A run and its parameters, as `Trained` has them."""

    settings: Run
    params: Params


CHUNK = 250  # steps between looks at whether all episodes have ended


def evaluate(
    trained: TrainedRun, *, episodes: int, seed: int, epsilon: float = 0.001, max_steps: int = 27_000
) -> Float[np.ndarray, " E"]:
    """The return of each episode, ε-greedy; an episode longer than `max_steps` is cut there."""
    for name, count in (("episodes", episodes), ("max_steps", max_steps)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, but is {count}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2³¹), but is {seed}")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must lie in [0, 1], but is {epsilon}")
    play = _simulated if isinstance(trained.settings.env, AbstractEnv) else _hosted
    begin, go = jax.random.split(jax.random.key(seed))
    return play(trained, episodes, begin, (jnp.asarray(epsilon, dtype=float), go), max_steps)


_Chance = tuple[Float[Array, ""], Key[Array, ""]]  # ε, and the key of everything after the first frames


class _Walk(NamedTuple):
    env: Any
    stack: Shaped[Array, "E S ..."]
    returned: Float[Array, " E"]
    over: Bool[Array, " E"]


def _simulated(
    trained: TrainedRun, episodes: int, begin: Key[Array, ""], chance: _Chance, max_steps: int
) -> Float[np.ndarray, " E"]:
    run, (epsilon, key) = trained.settings, chance
    walk = _begun(run, begin, episodes)
    for time in range(0, max_steps, CHUNK):
        length = min(CHUNK, max_steps - time)
        walk = _walked(run, trained.params, walk, (epsilon, jax.random.fold_in(key, time)), length)
        if walk.over.all():
            break
    return np.asarray(walk.returned)


@partial(jax.jit, static_argnames="episodes")
def _begun(run: Run, key: Key[Array, ""], episodes: int) -> _Walk:
    env, frame = jax.vmap(cast(AbstractEnv, run.env).reset)(jax.random.split(key, episodes))
    stack = jax.vmap(frame_stack.start_stack, in_axes=(0, None))(frame, run.replay.stack)
    return _Walk(env, stack, jnp.zeros(episodes), jnp.zeros(episodes, dtype=bool))


@partial(jax.jit, static_argnames="length")
def _walked(run: Run, params: Params, walk: _Walk, chance: _Chance, length: int) -> _Walk:
    epsilon, key = chance

    def one(walk: _Walk, key: Key[Array, ""]) -> _Walk:
        keys = jax.random.split(key, 3)
        action = acting.act(run, params, walk.stack, epsilon, keys, explore=False)
        outcome = cast(AbstractEnv, run.env).step(walk.env, action, keys[2])
        returned = walk.returned + jnp.where(walk.over, 0.0, outcome.reward)
        over = walk.over | outcome.terminal | outcome.timeout
        return _Walk(outcome.state, frame_stack.push(walk.stack, outcome.frame), returned, over)

    def every(walk: _Walk, key: Key[Array, ""]) -> tuple[_Walk, None]:
        return jax.vmap(one)(walk, jax.random.split(key, walk.over.size)), None

    return jax.lax.scan(every, walk, jax.random.split(key, length))[0]


def _hosted(
    trained: TrainedRun, episodes: int, begin: Key[Array, ""], chance: _Chance, max_steps: int
) -> Float[np.ndarray, " E"]:
    """As many at once as the environment is worth having, and then the others: each as it would be among all."""
    env = cast(AbstractHostEnv, trained.settings.env)
    seeds = np.asarray(jax.random.randint(begin, (episodes,), 0, 2**31 - 1))
    rounds = np.array_split(np.arange(episodes), -(-episodes // (env.most_at_once or episodes)))
    return np.concatenate([_round(trained, seeds, which, chance, max_steps) for which in rounds])


def _round(
    trained: TrainedRun, seeds: Int[np.ndarray, " E"], which: Int[np.ndarray, " N"], chance: _Chance, max_steps: int
) -> Float[np.ndarray, " N"]:
    run, (epsilon, key) = trained.settings, chance
    envs = Episodes(cast(AbstractHostEnv, run.env).make(which.size), seeds[which])
    try:
        stack = jax.vmap(frame_stack.start_stack, in_axes=(0, None))(jnp.asarray(envs.start()), run.replay.stack)
        returned, over = np.zeros(which.size), np.zeros(which.size, dtype=bool)
        for time in range(max_steps):
            keys = jax.random.split(jax.random.fold_in(key, time), (seeds.size, 3))[which]
            actions = _chosen(run, trained.params, stack, epsilon, keys)
            outcome = envs.step(np.asarray(actions))
            returned += np.where(over, 0.0, outcome.reward)
            over |= outcome.terminal | outcome.timeout
            if over.all():
                break
            stack = _pushed(stack, outcome.frame)
    finally:
        envs.close()
    return returned


@jax.jit
def _chosen(
    run: Run, params: Params, stack: Shaped[Array, "E S ..."], epsilon: Float[Array, ""], keys: Key[Array, "E 3"]
) -> Shaped[Array, "E ..."]:
    return jax.vmap(lambda stack, keys: acting.act(run, params, stack, epsilon, keys, explore=False))(stack, keys)


_pushed = jax.jit(jax.vmap(frame_stack.push))
