"""What the agents' loop asks of an environment that lives inside JAX."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Key, PyTree, Shaped

from mico.deep.types import Spec


class Outcome(NamedTuple):
    """One step with automatic reset: where the episode ended, `state` and `frame` are those of the next one.

    `next_frame` is the true frame after the step, also at an end; `terminal` and `timeout` are never both true.
    """

    state: PyTree
    frame: Shaped[Array, "..."]
    reward: Float[Array, ""]
    next_frame: Shaped[Array, "..."]
    terminal: Bool[Array, ""]
    timeout: Bool[Array, ""]


class AbstractEnv(eqx.Module):
    """One environment as pure functions; its fields are its settings."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As `environment` takes it: family/member."""

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """What `environment` takes beside the name to make it again."""

    @property
    @abc.abstractmethod
    def spec(self) -> Spec:
        """What it shows and what actions it takes."""

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, Shaped[Array, "..."]]:
        """A new episode: its state and its first frame."""

    @abc.abstractmethod
    def step(self, state: PyTree, action: Shaped[Array, "..."], key: Key[Array, ""]) -> Outcome:
        """The outcome of an action, in types that do not depend on x64."""
