"""One task of the DeepMind Control suite (Tassa et al., 2018); no other file imports dm_control."""

import math
from typing import Any, final

import numpy as np
from absl import logging
from dm_control import suite
from dm_control.mujoco.engine import Camera, Physics
from jaxtyping import Float, Shaped

from mico.control_suite.settings import Sizes, TaskSettings

_UNLIMITED = 1e10  # how the suite writes an action without bounds
_ENDLESS = 1_000  # control steps of tasks without a time limit: as many as those of all others
_DRAWN = ("lqr",)  # domains whose model itself is drawn at random, when it is loaded

logging.set_verbosity(logging.ERROR)  # or models greet on stderr


@final
class Task:
    """A task whose actions last several control steps; what follows a reset depends on its seed alone."""

    def __init__(self, settings: TaskSettings):
        self._settings = settings
        self._load(0)

    def reset(self, seed: int) -> None:
        """A new episode, the same to the last bit as that of a new environment with this seed."""
        if self._settings.domain in _DRAWN:
            self.close()
            self._load(seed)
        else:
            self._env.task.random.seed(seed)
        self._seen, self._steps, self._over = self._env.reset(), 0, False

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[float, bool, bool]:
        """Repeat an action for `action_repeat` control steps, or up to the end of the episode.

        Returns:
            The sum of their rewards, whether the episode ended, and whether it was truncated instead.
        """
        if self._over:
            raise RuntimeError("the episode is over: a reset must come before the next action")
        # The suite raises at a number that is not finite, and with one broken run its whole fleet would stop.
        sound = np.nan_to_num(action, nan=0.0, posinf=1.0, neginf=-1.0)
        reward, scaled = 0.0, self._middle + self._half * sound
        for _ in range(self._settings.action_repeat):
            self._seen = self._env.step(scaled)
            reward += self._seen.reward
            if self._seen.last():
                break
        self._steps += 1
        terminal = bool(self._seen.last() and self._seen.discount == 0)
        self._over = self._seen.last() or self._steps >= self._max_steps
        return reward, terminal, self._over and not terminal

    def frame(self) -> Shaped[np.ndarray, "..."]:
        """What is seen now: an image, or the numbers of the state one after the other."""
        return _flat(self._seen.observation) if self._camera is None else self._camera.render().copy()

    def close(self) -> None:
        """Frees the OpenGL context."""
        self._env.physics.free()

    def _load(self, seed: int) -> None:
        domain, task, observation, repeat, size, camera, max_steps = self._settings
        limit = {} if max_steps is None else {"time_limit": math.inf}
        self._env = suite.load(domain, task, task_kwargs={"random": seed, **limit})
        self._max_steps = max_steps or math.ceil(_ENDLESS / repeat)
        self._middle, self._half = _scale(self._env.action_spec())
        self._over, self._camera = True, None
        if observation == "pixels":
            self._camera = Camera(self._env.physics, size, size, camera)
        else:
            _forgo_opengl(self._env.physics)


def tasks() -> list[tuple[str, str]]:
    """Domain and task of all."""
    return list(suite.ALL_TASKS)


def sizes(domain: str, task: str) -> Sizes:
    """Of a task, found out without OpenGL."""
    env = suite.load(domain, task)
    _forgo_opengl(env.physics)
    state, model = _flat(env.reset().observation), env.physics.model
    drawn = model.vis.global_
    return Sizes(env.action_spec().shape[0], state.size, model.ncam, min(drawn.offwidth, drawn.offheight))


def draw_nothing() -> None:
    """A frame of an empty world, which fails without OpenGL."""
    Physics.from_xml_string("<mujoco/>").render(8, 8)


def _forgo_opengl(physics: Any) -> None:
    """Some tasks upload their ground whether or not anything is drawn, and make a context for it."""
    physics._make_rendering_contexts = lambda: None


def _scale(bounds: Any) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    """The middle and half the width of where actions lie; [-1, 1] for those without bounds."""
    low = np.where(bounds.minimum <= -_UNLIMITED, -1.0, bounds.minimum)
    high = np.where(bounds.maximum >= _UNLIMITED, 1.0, bounds.maximum)
    return (low + high) / 2, (high - low) / 2


def _flat(observation: Any) -> Float[np.ndarray, " S"]:
    return np.concatenate([np.ravel(part) for part in observation.values()]).astype(np.float32)
