"""The DeepMind Control suite (Tassa et al., 2018), each environment in a process of its own."""

import os
from typing import Any, final

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Int, Shaped

from mico._suggestions import near
from mico.control_suite.catalogue import catalogue
from mico.control_suite.settings import Observation, TaskSettings
from mico.control_suite.workers import Workers
from mico.deep.envs.host.episodes import AbstractHostEnv, AbstractHostEnvs
from mico.deep.fields import check_choices, check_minimum, check_range, static_field
from mico.deep.types import Spec, Timestep


@final
class Control(AbstractHostEnv):
    """A task such as cheetah-run; its episodes are cut off by a time-out after 1,000 of the suite's own steps.

    An action lasts `action_repeat` of those, whose rewards are added up. Terminal is only what the suite gives a
    discount of 0; `max_steps` takes the place of its time limit.
    """

    preset = "control"

    task: str = eqx.field(static=True)
    observation: Observation = static_field("pixels", "What the agent sees: colour images, or the state as a vector.")
    action_repeat: int = static_field(4, "Steps of the suite that an action is repeated for.")
    size: int = static_field(84, "Width and height of an image in pixels.")
    camera: int = static_field(0, "Number of the task's camera that draws the images.")
    max_steps: int | None = static_field(
        None, "Steps after which an episode is truncated; `none` is the suite's own limit."
    )

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, action_repeat=1, size=1, camera=0)
        if self.max_steps is not None:
            check_minimum(self, max_steps=1)
        tasks = catalogue().tasks
        if self.task not in tasks:
            raise ValueError(f"task {self.task!r} is not in the suite: did you mean {near(self.task, tasks)}?")
        sizes = catalogue().sizes(self.task)
        check_range(self, size=(1.0, float(sizes.frame)), camera=(0.0, sizes.cameras - 1.0))

    @property
    def name(self) -> str:
        return f"control/{self.task}"

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("observation", "action_repeat", "size", "camera", "max_steps")}

    @property
    def spec(self) -> Spec:
        sizes = catalogue().sizes(self.task)
        if self.observation == "state":
            return Spec((sizes.state,), "float32", 0, sizes.action)
        return Spec((self.size, self.size, 3), "uint8", 0, sizes.action)

    @property
    def max_parallel(self) -> int:
        return len(os.sched_getaffinity(0))  # processes, each with a task, and maybe OpenGL, in memory of its own

    @property
    def min_runs_to_split(self) -> int | None:
        return 2 if self.observation == "pixels" else None

    def make(self, num_envs: int) -> "ControlEnvs":
        given = TaskSettings(*catalogue().tasks[self.task], **self.settings())
        return ControlEnvs(Workers(given, num_envs, self.spec.shape, self.spec.dtype), self.spec, num_envs)


@final
class ControlEnvs(AbstractHostEnvs):
    """Tasks side by side; `workers` are the processes that they run in."""

    def __init__(self, workers: Workers, spec: Spec, num_envs: int):
        self.workers, self.spec, self.num_envs = workers, spec, num_envs

    def name_runs(self, seeds: Int[np.ndarray, " N"]) -> None:
        self.workers.seeds = seeds.tolist()

    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        return self.workers.reset(which, seeds)

    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        self.workers.send(actions)

    def receive(self) -> Timestep:
        seen = self.workers.receive()
        return Timestep(seen["reward"], seen["frame"], seen["terminal"], seen["truncated"])

    def close(self) -> None:
        self.workers.close()
