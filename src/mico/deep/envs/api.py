"""What the agents' loop asks of an environment that lives inside JAX."""

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Key, PyTree, Shaped, UInt8

from mico.deep.envs import naming
from mico.deep.extensions import ConfigModule
from mico.deep.types import Spec, Timestep


class AbstractEnvSettings(ConfigModule):
    """The settings of an environment, inside or outside JAX, as fields.

    `preset` names the preset that trainings in it take if they name none. An environment whose constructor has a first
    parameter without a default is a family: that parameter is the member, as in "minatar/breakout".
    """

    in_jax: ClassVar[bool]
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
    def max_parallel(self) -> int | None:
        """The largest number of environments that is worth having side by side; None is any number."""
        return None

    @property
    def min_runs_to_split(self) -> int | None:
        """Runs from which a fleet on a host environment is two shards; None never splits.

        One shard then plays while the device learns for the other.
        """
        return None

    def draw(self, frames: Shaped[np.ndarray, "T ..."]) -> UInt8[np.ndarray, "T H W 3"] | None:
        """Draw frames as images for `mico watch`, or return None: planes, bytes and bits are then drawn as such."""
        return None

    @property
    def is_rendered(self) -> bool:
        """Whether the environment can draw itself; `make_rendered` then makes one that has `render`."""
        return False

    def make_rendered(self) -> Any:
        """Make one environment that can draw itself: `AbstractHostEnvs` with a method `render`."""
        raise ValueError(f"{self.name} cannot draw itself")

    @property
    @abc.abstractmethod
    def spec(self) -> Spec:
        """What it shows and what actions it takes."""


class AbstractEnv(AbstractEnvSettings):
    """One environment as pure functions; its fields are its settings."""

    in_jax = True

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, Shaped[Array, "..."]]:
        """A new episode: its state and its first frame."""

    @abc.abstractmethod
    def step(self, state: PyTree, action: Shaped[Array, "..."], key: Key[Array, ""]) -> tuple[PyTree, Timestep]:
        """Take an action, and reset where the episode ends with it; types must not depend on x64.

        Returns:
            The state to act in next, and the step with its `reset_frame`; the frame before the action may be left out.
        """
