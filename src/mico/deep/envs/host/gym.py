"""Any Gymnasium environment with discrete actions or bounded vectors, stepped outside JAX."""

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast, final

import equinox as eqx
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Int, Shaped, UInt8

from mico._checks import install_hint
from mico._plugins import check_env_module
from mico._suggestions import near
from mico.deep.envs.host.episodes import AbstractHostEnv, AbstractHostEnvs
from mico.deep.fields import check_minimum, static_field
from mico.deep.types import Spec, Timestep


@final
class Gym(AbstractHostEnv):
    """A registered Gymnasium environment; `max_steps` takes the place of the time limit that it is registered with.

    Bytes, which images are made of, stay uint8, other numbers become float32, and a discrete observation one-hot. The
    numbers of an action that is a vector lie in [-1, 1], which stands for the space's own bounds.
    """

    id: str = eqx.field(static=True)
    max_steps: int | None = static_field(
        None, "Steps after which an episode is truncated; `none` is the limit it is registered with."
    )
    shown: Spec = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        if self.max_steps is not None:
            check_minimum(self, max_steps=1)
        env = _made(self.id, self.max_steps)
        self.shown = _spec(self.id, env)
        env.close()

    @property
    def name(self) -> str:
        return f"gym/{self.id}"

    def settings(self) -> dict[str, Any]:
        return {"max_steps": self.max_steps}

    @property
    def spec(self) -> Spec:
        return self.shown

    def make(self, num_envs: int) -> "GymEnvs":
        return GymEnvs([_made(self.id, self.max_steps) for _ in range(num_envs)], self.spec)

    @property
    def is_rendered(self) -> bool:
        """Whether the environment can draw itself as an image."""
        with closing(_made(self.id, self.max_steps)) as env:
            return "rgb_array" in env.metadata.get("render_modes", ())

    def make_rendered(self) -> "GymEnvs":
        """One of it that can draw itself."""
        for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
            os.environ.setdefault(driver, "dummy")  # pygame draws into memory: it needs neither a screen nor sound
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        return GymEnvs([_made(self.id, self.max_steps, render_mode="rgb_array")], self.spec)


@final
class GymEnvs(AbstractHostEnvs):
    """Gymnasium environments, stepped one after the other."""

    def __init__(self, envs: list[gymnasium.Env], spec: Spec):
        self._envs, self.spec, self.num_envs = envs, spec, len(envs)
        self._to_action = [_action_decoder(env.action_space) for env in envs]
        self._to_frame = [_frame_encoder(env.observation_space) for env in envs]
        self._sent = np.zeros((self.num_envs, *spec.action_shape), spec.action_dtype)

    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        frames = self._blank()
        for index in np.flatnonzero(which):
            seed = None if seeds[index] < 0 else int(seeds[index])
            frames[index] = self._to_frame[index](self._envs[index].reset(seed=seed)[0])
        return frames

    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        self._sent = actions

    def receive(self) -> Timestep:
        frames, rewards = self._blank(), np.zeros(self.num_envs, np.float32)
        terminal, truncated = np.zeros((2, self.num_envs), dtype=bool)
        for index, env in enumerate(self._envs):
            action = self._to_action[index](self._sent[index])
            observation, rewards[index], terminal[index], truncated[index], _ = env.step(action)
            frames[index] = self._to_frame[index](observation)
        return Timestep(rewards, frames, terminal, truncated & ~terminal)

    def render(self) -> UInt8[np.ndarray, "H W 3"]:
        """The first environment as it draws itself.

        Raises:
            ModuleNotFoundError: If it needs a package that is not installed.
            ValueError: If it cannot be drawn on this machine.
        """
        name = getattr(self._envs[0].spec, "id", "the environment")
        try:
            image = self._envs[0].render()
        except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
            raise ModuleNotFoundError(
                f"drawing {name} needs a package: {error}; try {install_hint('video')}"
            ) from error
        except Exception as error:  # an environment's own drawing may fail in its own ways, such as without OpenGL
            raise ValueError(f"{name} cannot be drawn here: {error}") from error
        found = np.asarray(image)
        if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8:
            raise ValueError(f"{name} cannot be drawn: render() gave {found.dtype} of shape {list(found.shape)}")
        return found

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _blank(self) -> Shaped[np.ndarray, "N ..."]:
        return np.zeros((self.num_envs, *self.spec.shape), self.spec.dtype)


def _made(env_id: str, max_steps: int | None, **more: Any) -> gymnasium.Env:
    check_env_module(env_id)
    try:
        return gymnasium.make(env_id, max_episode_steps=max_steps, disable_env_checker=True, **more)
    except gymnasium.error.UnregisteredEnv:
        known = near(env_id, gymnasium.registry)
        raise ValueError(f"id {env_id!r} is no Gymnasium environment: did you mean {known}?") from None
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"id {env_id!r} cannot be made: {error}") from None


def _spec(env_id: str, env: gymnasium.Env) -> Spec:
    actions, observations = env.action_space, env.observation_space
    if isinstance(actions, Discrete):
        counts = int(actions.n), 0
    elif isinstance(actions, Box) and actions.is_bounded() and len(actions.shape) == 1:
        counts = 0, actions.shape[0]
    else:
        raise ValueError(f"id {env_id!r} needs actions that are discrete or bounded vectors, but has {actions}")
    if isinstance(observations, Discrete):
        return Spec((int(observations.n),), "bool", *counts)
    if isinstance(observations, Box):
        dtype = "uint8" if observations.dtype == np.uint8 else "float32"
        return Spec(observations.shape, dtype, *counts)
    raise ValueError(f"id {env_id!r} needs observations of Box or Discrete, but has {observations}")


def _action_decoder(space: gymnasium.Space) -> Callable[[Any], Any]:
    """Make a function that turns our actions into those of a space; what it needs of the space is looked up once."""
    if isinstance(space, Discrete):
        start = int(space.start)
        return lambda action: start + int(action)
    low, high = (bound.astype(float) for bound in (cast(Box, space).low, cast(Box, space).high))
    return lambda action: (low + (high - low) * (action.astype(float) + 1) / 2).clip(low, high).astype(space.dtype)


def _frame_encoder(space: gymnasium.Space) -> Callable[[Any], Any]:
    """Make a function that turns observations of a space into frames."""
    if isinstance(space, Discrete):
        places = np.arange(space.start, space.start + space.n)
        return lambda observation: places == observation
    return lambda observation: observation
