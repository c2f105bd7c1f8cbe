"""Steps of a trained run in its environment: `evaluate` adds up their rewards, `mico watch` shows all of them."""

from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped, UInt8

from mico.deep.config.run import Run
from mico.deep.envs import AbstractEnv, AbstractHostEnv, Episodes
from mico.deep.learner import acting
from mico.deep.replay import frame_stack
from mico.deep.trained.render import shrunk
from mico.deep.types import Params

_CHUNK = 250  # steps that an environment inside JAX plays in one program


@runtime_checkable
class TrainedRun(Protocol):
    """A run and its parameters, as `Trained` has them."""

    settings: Run
    params: Params


class Rollout(NamedTuple):
    """Steps, each with what the agent saw, made of it and did, and what came of that.

    Values are of the actions; of an agent whose actions are vectors, the numbers of its mean action stand in their
    place. `image` is what the environment drew of itself.
    """

    frame: Shaped[np.ndarray, "T ..."]
    observation: Shaped[np.ndarray, "T ..."]
    representation: Float[np.ndarray, "T D"]
    values: Float[np.ndarray, "T A"]
    state_value: Float[np.ndarray, " T"]
    action: Shaped[np.ndarray, "T ..."]
    reward: Float[np.ndarray, " T"]
    ended: Bool[np.ndarray, " T"]
    image: UInt8[np.ndarray, "T H W 3"] | None = None


class Steps(NamedTuple):
    """T steps in each of E environments; `details` has the other fields of `Rollout`, if they were asked for."""

    reward: Shaped[Any, "T E"]
    ended: Shaped[Any, "T E"]
    details: dict[str, Any] | None = None


def rollout(
    trained: TrainedRun,
    *,
    episodes: int,
    seed: int,
    epsilon: float,
    max_steps: int,
    which: Int[np.ndarray, " E"] | None = None,
    details: bool = False,
    image_side: int | None = None,
) -> Generator[Steps, None, None]:
    """Play a trained run in many environments side by side; where an episode ends, the next one begins.

    Args:
        trained: The run.
        episodes: How many environments there are; the first episode of each depends on the seed and its place alone.
        seed: Random seed of environments and actions.
        epsilon: Probability of a random action.
        max_steps: Steps in each environment.
        which: The environments to play, if not all of them.
        details: Whether to compute all that `Rollout` has.
        image_side: The longer side of the images of a host environment that draws itself; None draws none.

    Yields:
        The next steps of all environments.

    Raises:
        ValueError: If a number is out of its range.
    """
    for name, count in (("episodes", episodes), ("max_steps", max_steps)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, but is {count}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2³¹), but is {seed}")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must lie in [0, 1], but is {epsilon}")
    reset_key, step_key = jax.random.split(jax.random.key(seed))
    chance = _Chance(jnp.asarray(epsilon, dtype=float), step_key)
    if trained.settings.env.in_jax:
        return _in_jax(trained, reset_key, chance, episodes, max_steps, details=details)
    which = np.arange(episodes) if which is None else which
    seeds = np.asarray(jax.random.randint(reset_key, (episodes,), 0, 2**31 - 1))
    return _on_host(trained, seeds, which, chance, max_steps, details=details, image_side=image_side)


def play(
    trained: TrainedRun,
    *,
    steps: int,
    episodes: int | None,
    seed: int,
    epsilon: float,
    image_side: int | None = None,
) -> Rollout:
    """Play a trained run with all that there is to see; the first episode is that of `evaluate` for the same seed.

    Args:
        trained: The run.
        steps: Steps to play at most.
        episodes: Episodes after which to stop; None plays all of the steps.
        seed: Random seed of the environment and of the actions.
        epsilon: Probability of a random action.
        image_side: The longer side of the images of a host environment that draws itself; None draws none.

    Returns:
        The steps.

    Raises:
        ValueError: If a number is out of its range.
    """
    for name, count in (("steps", steps), ("episodes", episodes)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, but is {count}")
    found, over = [], 0
    every = rollout(
        trained, episodes=1, seed=seed, epsilon=epsilon, max_steps=steps, details=True, image_side=image_side
    )
    for chunk in every:
        ended = chunk.ended[:, 0].cumsum() + over
        length = len(ended) if episodes is None or ended[-1] < episodes else int((ended < episodes).sum()) + 1
        one = {name: column[:length, 0] for name, column in (chunk.details or {}).items()}
        found.append(one | {"reward": chunk.reward[:length, 0], "ended": chunk.ended[:length, 0]})
        over = ended[-1]
        if episodes is not None and over >= episodes:
            break
    every.close()
    return Rollout(**{name: np.concatenate([one[name] for one in found]) for name in found[0]})


def unique_observations(steps: Rollout) -> Rollout:
    """Keep one step for each observation, the first that had it."""
    first: dict[bytes, int] = {}
    for index, observation in enumerate(steps.observation):
        first.setdefault(observation.tobytes(), index)
    which = list(first.values())
    columns: Any = (None if rows is None else rows[which] for rows in steps)
    return Rollout(*columns)


def return_so_far(steps: Rollout) -> Float[np.ndarray, " T"]:
    """Add up the rewards of an episode up to each step, and with it."""
    total = steps.reward.astype(float).cumsum()
    starts = np.flatnonzero(np.append(True, steps.ended[:-1]))
    before = total[starts] - steps.reward[starts]
    return total - before[np.append(0, steps.ended[:-1].cumsum())]


class _Chance(NamedTuple):
    """The probability of a random action, and the key of everything after the first frames."""

    epsilon: Float[Array, ""]
    key: Key[Array, ""]


def _in_jax(
    trained: TrainedRun, key: Key[Array, ""], chance: _Chance, episodes: int, max_steps: int, *, details: bool
) -> Generator[Steps, None, None]:
    run, start = trained.settings, 0
    worlds = _reset(run, key, episodes)
    while start < max_steps:
        length = min(_CHUNK, max_steps - start)
        own = chance._replace(key=jax.random.fold_in(chance.key, start))
        worlds, steps = _play_chunk(run, trained.params, worlds, own, length, details)
        yield jax.tree.map(np.asarray, steps)
        start += length


@partial(jax.jit, static_argnames="episodes")
def _reset(run: Run, key: Key[Array, ""], episodes: int) -> tuple[Any, Shaped[Array, "E S ..."]]:
    env, frame = jax.vmap(cast(AbstractEnv, run.env).reset)(jax.random.split(key, episodes))
    return env, jax.vmap(frame_stack.start_stack, in_axes=(0, None))(frame, run.replay.stack)


@partial(jax.jit, static_argnames=("length", "details"))
def _play_chunk(
    run: Run, params: Params, worlds: tuple[Any, Shaped[Array, "E S ..."]], chance: _Chance, length: int, details: bool
) -> tuple[tuple[Any, Shaped[Array, "E S ..."]], Steps]:
    def step_one(world: tuple[Any, Shaped[Array, "S ..."]], key: Key[Array, ""]) -> tuple[Any, Steps]:
        (env, stack), keys = world, jax.random.split(key, 3)
        seen = _decide(run, params, stack, chance.epsilon, keys, details=details)
        env, step = cast(AbstractEnv, run.env).step(env, seen["action"], keys[2])
        stack = _follow(stack, step.reset_frame, step.ended)
        return (env, stack), Steps(step.reward, step.ended, seen if details else None)

    def step_all(worlds: Any, key: Key[Array, ""]) -> tuple[Any, Steps]:
        return jax.vmap(step_one)(worlds, jax.random.split(key, worlds[1].shape[0]))

    return jax.lax.scan(step_all, worlds, jax.random.split(chance.key, length))


def _on_host(
    trained: TrainedRun,
    seeds: Int[np.ndarray, " N"],
    which: Int[np.ndarray, " E"],
    chance: _Chance,
    max_steps: int,
    *,
    details: bool,
    image_side: int | None,
) -> Generator[Steps, None, None]:
    run, env = trained.settings, cast(AbstractHostEnv, trained.settings.env)
    drawn = env.make_rendered() if image_side and env.is_rendered else None
    envs = Episodes(drawn or env.make(which.size), seeds[which])
    try:
        stack = jax.vmap(frame_stack.start_stack, in_axes=(0, None))(jnp.asarray(envs.start()), run.replay.stack)
        for time in range(max_steps):
            keys = jax.random.split(jax.random.fold_in(chance.key, time), (seeds.size, 3))[which]
            seen = jax.device_get(_decide_all(run, trained.params, stack, chance.epsilon, keys, details))
            if drawn is not None and image_side:
                seen["image"] = shrunk(drawn.render(), image_side)[None]
            step = envs.step(np.asarray(seen["action"]))
            own = {name: column[None] for name, column in seen.items()} if details else None
            yield Steps(step.reward[None], step.ended[None], own)
            stack = _follow_all(stack, step.reset_frame, step.ended)
    finally:
        envs.close()


def _decide(
    run: Run,
    params: Params,
    stack: Shaped[Array, "S ..."],
    epsilon: Float[Array, ""],
    keys: Key[Array, "3"],
    *,
    details: bool,
) -> dict[str, Any]:
    """What the run does, as `acting.act` without exploration chooses it, and all that it makes of what it sees."""
    action = acting.act(run, params, stack, epsilon, keys, explore=False)
    if not details:
        return {"action": action}
    observation = frame_stack.stack_frames(stack)
    prediction = run.agent.predict(params, observation, keys[0])
    return {
        "frame": stack[-1],
        "observation": observation,
        "representation": params.encoder(observation),
        "values": prediction[0],
        "state_value": prediction[1],
        "action": action,
    }


def _follow(stack: Shaped[Array, "S ..."], frame: Shaped[Array, "..."], ended: Bool[Array, ""]) -> Shaped[Array, "..."]:
    """The stack that the next step sees: after the end of an episode, the first frame of the next one."""
    return jnp.where(ended, frame_stack.start_stack(frame, stack.shape[0]), frame_stack.push(stack, frame))


@partial(jax.jit, static_argnames="details")
def _decide_all(
    run: Run,
    params: Params,
    stacks: Shaped[Array, "E S ..."],
    epsilon: Float[Array, ""],
    keys: Key[Array, "E 3"],
    details: bool,
) -> dict[str, Any]:
    decide = partial(_decide, details=details)
    return jax.vmap(lambda stack, keys: decide(run, params, stack, epsilon, keys))(stacks, keys)


_follow_all = jax.jit(jax.vmap(_follow))
