"""Which task of the suite, and how it is seen."""

from typing import Literal, NamedTuple

Observation = Literal["pixels", "state"]


class TaskSettings(NamedTuple):
    """A task, as processes tell each other; `max_steps` takes the place of the suite's time limit."""

    domain: str
    task: str
    observation: Observation
    action_repeat: int
    size: int
    camera: int
    max_steps: int | None

    @property
    def name(self) -> str:
        return f"{self.domain}-{self.task}"


class Sizes(NamedTuple):
    """What a task is like: numbers in an action and in a state, cameras, and the largest frame it can draw."""

    action: int
    state: int
    cameras: int
    frame: int
