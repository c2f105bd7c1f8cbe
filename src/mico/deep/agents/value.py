"""What value agents share: fields, exploration, and how the priorities of a replay follow from losses."""

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from mico.deep.fields import check_choices, check_least, check_range, fixed, number
from mico.deep.networks import Network
from mico.deep.types import Views


class Transition(NamedTuple):
    r"""What a TD loss needs of one window: $a$, $\sum_k \gamma^k r_k$, and $\gamma^m$, or 0 after a terminal."""

    action: Int[Array, ""]
    reward: Float[Array, ""]
    discount: Float[Array, ""]


class AbstractValueAgent(eqx.Module):
    """A head on the representation, its TD loss for one transition, and its action values; acts ε-greedily."""

    horizon: int = fixed(1, "steps of a return before it bootstraps")
    discount: float = number(0.99, "of a reward one step later")
    learning_rate: float = number(6.25e-5, "Adam's step size")
    adam_epsilon: float = number(1.5e-4, "Adam's ε, outside the root")
    reward_clip: float | None = number(None, "rewards learnt from are cut to ± this; scores never are")
    importance: Literal["weighted", "none"] = fixed("weighted", "prioritised replay's weights on the TD losses")
    priorities: Literal["combined", "td"] = fixed(
        "combined", "replay priorities: of TD and metric loss, or of TD alone"
    )

    def __check_init__(self) -> None:
        check_choices(self)
        check_least(self, horizon=1)
        check_range(self, discount=(0.0, 1.0), learning_rate=(0.0, float("inf")), adam_epsilon=(0.0, 1.0))
        if self.reward_clip is not None:
            check_range(self, reward_clip=(0.0, float("inf")))

    @abstractmethod
    def make_head(self, size: int, num_actions: int, network: Network, *, key: Key[Array, ""]) -> Any:
        """What turns a representation of this size into predictions."""

    @abstractmethod
    def q_values(self, head: Any, phi: Float[Array, " D"], key: Key[Array, ""]) -> Float[Array, " A"]:
        """The value of each action in one state."""

    @abstractmethod
    def td_loss(
        self, head: Any, target: Any, phi: Views, transition: Transition, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """The loss of one transition."""

    def sample_keys(self, key: Key[Array, ""], size: int) -> Key[Array, " B"]:
        """One key for the TD loss of each sample."""
        return jax.random.split(key, size)

    def optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate, eps=self.adam_epsilon)

    def priority_losses(
        self, td: Float[Array, " B"], weight: Float[Array, " B"], alpha: Float[Array, ""], metric: Float[Array, ""]
    ) -> Float[Array, " B"]:
        r"""$(1-\alpha)\,w_i\,\mathrm{td}_i + \alpha\,\mathcal L_{metric}$, or the TD losses alone."""
        return td if self.priorities == "td" else (1 - alpha) * weight * td + alpha * metric


def greedy(q: Float[Array, " A"], epsilon: Float[Array, ""], key: Key[Array, ""]) -> Int[Array, ""]:
    """The best action, or with probability ε any."""
    explore, any_action = jax.random.uniform(key, (2,))
    random = jnp.minimum((any_action * q.size).astype(int), q.size - 1)
    return jnp.where(explore < epsilon, random, jnp.argmax(q))
