"""What the learner asks of an agent, and the fields that all agents have."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import optax
from jaxtyping import Array, Float, Key, Shaped

from mico.deep.extensions import ConfigModule
from mico.deep.fields import check_choices, check_minimum, check_range, static_field, traced_field
from mico.deep.networks.encoders import NetworkConfig, RepresentationSizes
from mico.deep.types import ActorLatents, Batch, Params, Spec, Views


class Prediction(NamedTuple):
    """Of one state: values of its actions, or the numbers of what an actor would do; and what is expected of it."""

    action_values: Float[Array, " K"]
    state_value: Float[Array, ""]


class Periodic(NamedTuple):
    """Copy the parameters to the target network every `period` steps."""

    period: int

    def follow(self, target: Params, params: Params) -> Params:
        """Return the target network after an update, as it was."""
        del params
        return target

    def copies_at(self, step: int) -> bool:
        """Whether the target network becomes the online one after so many steps."""
        return step % self.period == 0


class Polyak(NamedTuple):
    """Move the target network towards the parameters with every update: their moving average of this rate."""

    rate: float | Float[Array, "..."]

    def follow(self, target: Params, params: Params) -> Params:
        """Return the target network after an update."""
        return jax.tree.map(lambda old, new: old + self.rate * (new - old), target, params)

    def copies_at(self, step: int) -> bool:
        """Never: it is not copied."""
        del step
        return False


class AbstractAgent(ConfigModule):
    """A head on the representation, what it minimises, and how it acts.

    An agent of another package may have `presets`: values of its fields by the name of a preset, such as
    `{"table": {"learning_rate": 1e-3}}`. All other values are those that the preset has for `preset_like`.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    preset_like: ClassVar[str | None] = None  # dqn, or sac where actions are continuous

    horizon: int = static_field(1, "Steps n of the n-step return that a TD target sums before it bootstraps.")
    discount: float = traced_field(0.99, "Discount factor γ that the agent learns with.")
    learning_rate: float = traced_field(6.25e-5, "Learning rate of Adam.")
    adam_epsilon: float = traced_field(1.5e-4, "Epsilon of Adam, added to the root of the second moment.")
    reward_clip: float | None = traced_field(
        None, "Clip the rewards that are learnt from to ± this, or `none`. Logged returns are never clipped."
    )
    importance: Literal["weighted", "none"] = static_field(
        "weighted", "Importance weights of the TD losses with prioritised replay, or none."
    )
    priorities: Literal["combined", "td"] = static_field(
        "combined",
        "Loss that replay priorities are made of: TD and metric loss (without DBC's, which may be negative), or TD"
        " alone.",
    )

    actions: ClassVar[Literal["discrete", "continuous"]]

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, horizon=1)
        check_range(self, discount=(0.0, 1.0), learning_rate=(0.0, float("inf")))
        check_range(self, adam_epsilon=(1e-30, 1.0))  # a step of Adam's is 0/0 where no gradient ever came
        if self.reward_clip is not None:
            check_range(self, reward_clip=(0.0, float("inf")))

    def check_metric(self, metric: Any) -> None:
        """Refuse a metric loss, or none, that this agent cannot be trained with."""

    @abstractmethod
    def init(self, sizes: RepresentationSizes, spec: Spec, network: NetworkConfig, *, key: Key[Array, ""]) -> Any:
        """The head, before anything is learnt."""

    @abstractmethod
    def act(
        self,
        params: Params,
        observation: Shaped[Array, "..."],
        epsilon: Float[Array, ""],
        keys: Key[Array, "2"],
        *,
        explore: bool = True,
    ) -> Shaped[Array, "..."]:
        """Choose an action as in training, or without `explore` the best one; with probability ε any, either way."""

    @abstractmethod
    def loss(
        self, params: Params, target: Params, views: Views, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, " B"], Float[Array, ""]]:
        """The TD loss of each sample, and what else is minimised."""

    @abstractmethod
    def predict(self, params: Params, observation: Shaped[Array, "..."], key: Key[Array, ""]) -> Prediction:
        """What it makes of one state."""

    def metrics(
        self, params: Params, observations: Shaped[Array, "B ..."], key: Key[Array, ""]
    ) -> dict[str, Float[Array, ""]]:
        """What a row of the log says of a batch beyond what all agents have: numbers by name."""
        del params, observations, key
        return {}

    def target_rule(self, period: int | None) -> Periodic | Polyak:
        """Make the rule of the target network, by the schedule's target_period; None is none."""
        if period is None:
            raise ValueError(f"target_period must be a number of steps with {type(self).__name__}, got none")
        return Periodic(period)

    def actor_latents(self, params: Params, target: Params, views: Views) -> ActorLatents:
        """The actor's own view of a batch."""
        raise ValueError(f"{type(self).__name__} has no actor, which the metric loss asks for")

    def optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, eps=self.adam_epsilon)
