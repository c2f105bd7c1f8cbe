"""What the agents' loop asks of an environment that lives inside JAX."""

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Key, PyTree, Shaped, UInt8

from mico.deep.envs import naming
from mico.deep.extensions import ConfigModule
from mico.deep.types import Spec, Timestep


class AbstractEnv(ConfigModule):
    """One environment as pure functions; its fields are its settings.

    `preset` names the preset that trainings in it take if they name none. An environment whose constructor has a first
    parameter without a default is a family: that parameter is the member, as in "minatar/breakout".
    """

    preset: ClassVar[str] = "vector"
    members: ClassVar[tuple[str, ...]] = ()  # of a family, to list and to suggest

    @property
    def name(self) -> str:
        """The name that `environment` takes, such as "minatar/breakout"; by default the registered name."""
        return naming.registered_name(self)

    def settings(self) -> dict[str, Any]:
        """What `environment` takes beside the name to make it again; by default all fields."""
        return naming.settings(self)

    @property
    def action_names(self) -> tuple[str, ...]:
        """A name for each action, or for each number of an action that is a vector."""
        return naming.numbered_actions(self.spec)

    @property
    def most_at_once(self) -> int | None:
        """How many side by side are worth having; None: any number."""
        return None

    def draw(self, frames: Shaped[np.ndarray, "T ..."]) -> UInt8[np.ndarray, "T H W 3"] | None:
        """Draw frames as images for `mico watch`, or return None: planes, bytes and bits are then drawn as such."""
        return None

    @property
    @abc.abstractmethod
    def spec(self) -> Spec:
        """What it shows and what actions it takes."""

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, Shaped[Array, "..."]]:
        """A new episode: its state and its first frame."""

    @abc.abstractmethod
    def step(self, state: PyTree, action: Shaped[Array, "..."], key: Key[Array, ""]) -> tuple[PyTree, Timestep]:
        """Take an action, and reset where the episode ends with it; types must not depend on x64.

        Returns:
            The state to act in next, and the step with its `reset_frame`; the frame before the action may be left out.
        """
