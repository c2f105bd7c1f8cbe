"""What the learner asks of a metric loss."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from jaxtyping import Array, Float, Key

from mico.deep.extensions import ConfigModule
from mico.deep.types import Batch, Spec, Views


class AbstractMetricLoss(ConfigModule):
    """What is learnt of pairs of states, and the loss by which representations learn it."""

    nearest: ClassVar[Literal["smallest", "largest"]] = "smallest"  # what `pairwise` gives of similar states

    @property
    @abstractmethod
    def loss_weights(self) -> tuple[float | Float[Array, ""], float | Float[Array, ""]]:
        """Weights of the agent's loss and of this one in their sum."""

    @classmethod
    def for_preset(cls, alpha: float, actions: Literal["discrete", "continuous"]) -> "AbstractMetricLoss":
        """Make the loss as a preset sets it.

        Args:
            alpha: The preset's weight of the losses of pairs, which others leave to their own default.
            actions: The kind of the agent's actions.

        Returns:
            The loss.
        """
        del alpha, actions
        return cls()

    def check_agent(self, name: str, actions: Literal["discrete", "continuous"], horizon: int) -> None:
        """Refuse an agent that this loss cannot be trained beside."""

    def priority_term(self, weighted: Float[Array, ""]) -> Float[Array, ""] | float:
        """What the weighted loss of a batch adds to each sample's priority: nothing where it may be negative."""
        del weighted
        return 0.0

    @abstractmethod
    def pairwise(self, x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
        """What is learnt of every x with every y."""

    @property
    def angle_weight(self) -> float | Float[Array, ""]:
        """Weight β of the angle in the reduced distance that the log reports."""
        return 0.1

    def describe_distance(self, distance: Literal["reduced", "learnt"]) -> str:
        """Name what `pairwise` gives, or its reduced form, in the words of a caption."""
        return f"{type(self).__name__}'s {distance} distance"

    def measure(self, x: Float[Array, " D"], y: Float[Array, " D"]) -> Float[Array, ""]:
        """What is learnt of one pair of representations."""
        return self.pairwise(x[None], y[None])[0, 0]

    @abstractmethod
    def init(self, key: Key[Array, ""], size: int, spec: Spec) -> Any:
        """Parameters of its own for representations of this size, or None."""

    @abstractmethod
    def loss(self, params: Any, views: Views, batch: Batch, key: Key[Array, ""]) -> Float[Array, ""]:
        """The loss of a batch as an agent replays it."""
