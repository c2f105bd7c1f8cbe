"""The control suite in the process of a test, where it draws as in workers."""

from functools import cache

import numpy as np
import pytest

from mico.control_suite.graphics import back_end


@cache
def plain_suite():
    """dm_control's own, which reads how to draw when it is first imported, and writes that for PyOpenGL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPENGL_PLATFORM", "")
        try:
            patch.setenv("MUJOCO_GL", back_end())
        except OSError:
            patch.setenv("MUJOCO_GL", "disabled")
        from dm_control import suite
    return suite


class Naive:
    """A new environment for one episode: actions between these bounds, each for some steps, whose rewards are added."""

    def __init__(self, domain, task, seed, bounds=(-1.0, 1.0), repeat=4):
        self.env = plain_suite().load(domain, task, task_kwargs={"random": int(seed)})
        self.bounds, self.repeat = bounds, repeat
        self.last = self.env.reset()

    def step(self, action):
        low, high = self.bounds
        reward = 0.0
        for _ in range(self.repeat):
            self.last = self.env.step(low + (np.asarray(action, float) + 1) / 2 * (high - low))
            reward += self.last.reward
            if self.last.last():
                break
        return reward

    def pixels(self, size=84, camera=0):
        return self.env.physics.render(height=size, width=size, camera_id=camera)

    def state(self):
        return np.concatenate([np.asarray(part, np.float32).ravel() for part in self.last.observation.values()])
