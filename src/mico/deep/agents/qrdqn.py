"""QR-DQN (Dabney et al., 2018)."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep.agents import td
from mico.deep.agents.value_agent import AbstractValueAgent, Transition
from mico.deep.fields import check_minimum, check_range, static_field, traced_field
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.heads import Head
from mico.deep.types import Representations


class QRDQN(AbstractValueAgent):
    """QR-DQN (Dabney et al., 2018): quantile regression on a fixed grid of fractions."""

    horizon: int = static_field(3, "Steps n of the n-step return that a TD target sums before it bootstraps.")
    learning_rate: float = traced_field(5e-5, "Learning rate of Adam.")
    adam_epsilon: float = traced_field(3.125e-4, "Epsilon of Adam, added to the root of the second moment.")
    importance: Literal["weighted", "none"] = static_field(
        "none", "Importance weights of the TD losses with prioritised replay, or none."
    )
    num_quantiles: int = static_field(200, "Quantiles of the return that are learnt, at evenly spaced fractions.")
    kappa: float = traced_field(
        1.0, "Error at which the Huber loss of quantiles turns linear; 0 is the absolute error."
    )

    def __check_init__(self) -> None:
        check_minimum(self, num_quantiles=1)
        check_range(self, kappa=(0.0, float("inf")))

    def make_head(self, size: int, num_actions: int, network: NetworkConfig, *, key: Key[Array, ""]) -> Head:
        return Head(size, num_actions, self.num_quantiles, network, key=key)

    def q_values(self, head: Head, phi: Float[Array, " D"], key: Key[Array, ""]) -> Float[Array, " A"]:
        return head(phi).mean(axis=-1)

    def td_loss(
        self, head: Head, target: Head, phi: Representations, transition: Transition, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        fractions = (jnp.arange(self.num_quantiles) + 0.5) / self.num_quantiles
        z_next = target(phi.target_next)
        goal = td.quantile_target(transition.reward, transition.discount, z_next, z_next.mean(axis=-1))
        return td.quantile_huber(td.select_action(head(phi.online), transition.action), fractions, goal, self.kappa)
