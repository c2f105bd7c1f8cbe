"""QR-DQN (Dabney et al., 2018)."""

from typing import Literal

import jax.numpy as jnp

from mico.deep import td
from mico.deep.agents.value import AbstractValueAgent
from mico.deep.fields import check_least, check_range, fixed, number
from mico.deep.networks import Head


class QRDQN(AbstractValueAgent):
    """QR-DQN (Dabney et al., 2018): quantile regression on a fixed grid of fractions."""

    horizon: int = fixed(3, "steps of a return before it bootstraps")
    learning_rate: float = number(5e-5, "Adam's step size")
    adam_epsilon: float = number(3.125e-4, "Adam's ε, outside the root")
    importance: Literal["weighted", "none"] = fixed("none", "prioritised replay's weights on the TD losses")
    num_quantiles: int = fixed(200, "fractions on an even grid")
    kappa: float = number(1.0, "where Huber's error turns linear; 0 is |u|")

    def __check_init__(self) -> None:
        check_least(self, num_quantiles=1)
        check_range(self, kappa=(0.0, float("inf")))

    def make_head(self, size, num_actions, network, *, key):
        return Head(size, num_actions, self.num_quantiles, network, key=key)

    def q_values(self, head, phi, key):
        return head(phi).mean(axis=-1)

    def td_loss(self, head, target, phi, transition, key):
        fractions = (jnp.arange(self.num_quantiles) + 0.5) / self.num_quantiles
        z_next = target(phi.target_next)
        goal = td.quantile_target(transition.reward, transition.discount, z_next, z_next.mean(axis=-1))
        return td.quantile_huber(td.taken(head(phi.online), transition.action), fractions, goal, self.kappa)
