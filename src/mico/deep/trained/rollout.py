"""A trained run at play, with all that there is to see: frames, representations, values, actions and rewards."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped, UInt8

from mico.deep.config.run import Run
from mico.deep.envs import AbstractEnv, AbstractHostEnv, Episodes
from mico.deep.learner import acting
from mico.deep.replay import frame_stack
from mico.deep.trained.evaluate import CHUNK
from mico.deep.trained.render import shrunk
from mico.deep.trained.trained import Trained
from mico.deep.types import Params


class Seen(NamedTuple):
    """Each step of some episodes: what was seen, how it was represented and valued, what was done and what it paid.

    Values are of the actions; where these are vectors, the numbers of what the actor would do stand in their place.
    """

    frame: Shaped[np.ndarray, "T ..."]
    observation: Shaped[np.ndarray, "T ..."]
    representation: Float[np.ndarray, "T D"]
    values: Float[np.ndarray, "T A"]
    worth: Float[np.ndarray, " T"]
    action: Shaped[np.ndarray, "T ..."]
    reward: Float[np.ndarray, " T"]
    ended: Bool[np.ndarray, " T"]
    rendered: UInt8[np.ndarray, "T H W 3"] | None = None


def play(
    trained: Trained, *, steps: int, episodes: int | None, seed: int, epsilon: float, rendered: int | None = None
) -> Seen:
    """Play some episodes of a trained run; the first is that of `evaluate` for the same seed.

    Args:
        trained: The run.
        steps: Steps to play at most.
        episodes: Episodes after which to stop; None plays all of the steps.
        seed: Random seed of the environment and of the actions.
        epsilon: Probability of a random action.
        rendered: Where a Gymnasium environment draws itself, the longer side of its images in pixels; None draws none.

    Returns:
        What was seen at each step.
    """
    for name, count in (("steps", steps), ("episodes", episodes)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, but is {count}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2³¹), but is {seed}")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must lie in [0, 1], but is {epsilon}")
    run, begin, go = trained.settings, *jax.random.split(jax.random.key(seed))
    env = run.env
    world = _Inside(env, begin) if isinstance(env, AbstractEnv) else _Outside(env, begin, rendered)
    try:
        return _played(trained, world, (jnp.asarray(epsilon, dtype=float), go), steps, episodes)
    finally:
        world.close()


def distinct(seen: Seen) -> Seen:
    """One step for each observation, the first that had it."""
    first: dict[bytes, int] = {}
    for index, observation in enumerate(seen.observation):
        first.setdefault(observation.tobytes(), index)
    which = list(first.values())
    columns: Any = (None if rows is None else rows[which] for rows in seen)
    return Seen(*columns)


def returned(seen: Seen) -> Float[np.ndarray, " T"]:
    """The return of the episode up to each step and with it."""
    total = seen.reward.astype(float).cumsum()
    starts = np.flatnonzero(np.append(True, seen.ended[:-1]))
    before = total[starts] - seen.reward[starts]
    return total - before[np.append(0, seen.ended[:-1].cumsum())]


class _After(NamedTuple):
    """A step led to this frame, or to the first one of the next episode."""

    frame: Shaped[np.ndarray, "..."]
    reward: float
    ended: bool


class _Inside:
    """An environment inside JAX, with the draws that `evaluate` makes for the first of its episodes."""

    def __init__(self, env: AbstractEnv, begin: Key[Array, ""]):
        self._env = env
        self._state, first = jax.jit(lambda env, key: env.reset(jax.random.split(key, 1)[0]))(env, begin)
        self.first = np.asarray(first)

    def keys(self, go: Key[Array, ""], time: int) -> Key[Array, "3"]:
        return _scanned_keys(jax.random.fold_in(go, time - time % CHUNK), time % CHUNK)

    def step(self, action: Shaped[Array, "..."], key: Key[Array, ""]) -> _After:
        outcome = _stepped(self._env, self._state, action, key)
        self._state = outcome.state
        return _After(np.asarray(outcome.frame), float(outcome.reward), bool(outcome.terminal | outcome.timeout))

    def image(self) -> None:
        """It is drawn from its frames."""

    def close(self) -> None:
        pass


class _Outside:
    """An environment outside JAX, in the same way; one of Gymnasium may draw itself."""

    def __init__(self, env: AbstractHostEnv, begin: Key[Array, ""], rendered: int | None):
        self._drawn = env.make_rendered() if rendered and env.is_rendered else None
        self._side = rendered or 0
        self._envs = Episodes(self._drawn or env.make(1), np.asarray(jax.random.randint(begin, (1,), 0, 2**31 - 1)))
        self.first = self._envs.start()[0]

    def keys(self, go: Key[Array, ""], time: int) -> Key[Array, "3"]:
        return jax.random.split(jax.random.fold_in(go, time), (1, 3))[0]

    def step(self, action: Shaped[Array, "..."], key: Key[Array, ""]) -> _After:
        del key
        outcome = self._envs.step(np.asarray(action)[None])
        ended = bool(outcome.terminal[0] | outcome.timeout[0])
        return _After(outcome.frame[0].copy(), float(outcome.reward[0]), ended)

    def image(self) -> UInt8[np.ndarray, "H W 3"] | None:
        """As the environment draws itself now, shrunk where it is larger than asked for."""
        return None if self._drawn is None else shrunk(self._drawn.render(), self._side)

    def close(self) -> None:
        self._envs.close()


@jax.jit
def _scanned_keys(chunk: Key[Array, ""], place: Int[Array, ""] | int) -> Key[Array, "3"]:
    return jax.random.split(jax.random.split(jax.random.split(chunk, CHUNK)[place], 1)[0], 3)


@jax.jit
def _stepped(env: AbstractEnv, state: Any, action: Shaped[Array, "..."], key: Key[Array, ""]) -> Any:
    return env.step(state, action, key)


class _Look(NamedTuple):
    observation: Shaped[Array, "..."]
    representation: Float[Array, " D"]
    values: Float[Array, " A"]
    worth: Float[Array, ""]
    action: Shaped[Array, "..."]


@jax.jit
def _look(
    run: Run, params: Params, stack: Shaped[Array, "S ..."], epsilon: Float[Array, ""], keys: Key[Array, "3"]
) -> _Look:
    """What the run makes of a stack of frames, and does, as `acting.act` without exploration does."""
    observation = frame_stack.stack_frames(stack)
    prediction = run.agent.predict(params, observation, keys[0])
    action = acting.act(run, params, stack, epsilon, keys, explore=False)
    return _Look(observation, params.encoder(observation), *prediction, action)


_fresh = jax.jit(frame_stack.start_stack, static_argnums=1)
_pushed = jax.jit(frame_stack.push)


def _played(
    trained: Trained,
    world: _Inside | _Outside,
    chance: tuple[Float[Array, ""], Key[Array, ""]],
    steps: int,
    episodes: int | None,
) -> Seen:
    run, (epsilon, go) = trained.settings, chance
    frame, stack, found, over = world.first, _fresh(world.first, run.replay.stack), [], 0
    images = []
    for time in range(steps):
        images.append(world.image())
        keys = world.keys(go, time)
        look = _look(run, trained.params, stack, epsilon, keys)
        after, reward, ended = world.step(look.action, keys[2])
        found.append((frame, *jax.device_get(look), reward, ended))
        stack = _fresh(after, run.replay.stack) if ended else _pushed(stack, after)
        frame, over = after, over + ended
        if over == episodes:
            break
    columns = [np.stack(column) for column in zip(*found, strict=True)]
    rendered = None if images[0] is None else np.stack(images)
    return Seen(*columns)._replace(rendered=rendered)
