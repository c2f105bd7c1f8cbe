"""M-IQN (Vieillard, Pietquin and Geist, 2020)."""

import jax
from jaxtyping import Array, Float, Key

from mico.deep.agents import td
from mico.deep.agents.iqn import AbstractImplicitAgent, QuantileHead
from mico.deep.agents.value_agent import Transition
from mico.deep.fields import check_range, traced_field
from mico.deep.types import Representations


class MIQN(AbstractImplicitAgent):
    """M-IQN (Vieillard et al., 2020): IQN whose reward has the scaled log-policy added, and a soft next value."""

    temperature: float = traced_field(0.03, "Temperature τ of the policy softmax(Q / τ).")
    munchausen: float = traced_field(0.9, "Share of the scaled log-policy τ log π(a|s) that is added to the reward.")
    clip: float = traced_field(-1.0, "Lower bound of the scaled log-policy τ log π(a|s).")

    def __check_init__(self) -> None:
        check_range(self, temperature=(1e-6, float("inf")), munchausen=(0.0, 1.0), clip=(float("-inf"), 0.0))

    def target_values(
        self, target: QuantileHead, phi: Representations, key: Key[Array, ""]
    ) -> tuple[Float[Array, "*B A"], Float[Array, "*B A"]]:
        now, then = jax.random.split(key)
        return self.q_values(target, phi.target_next, then), self.q_values(target, phi.target, now)

    def target_quantiles(
        self,
        transition: Transition,
        z_next: Float[Array, "A M"],
        values: tuple[Float[Array, " A"], Float[Array, " A"]],
    ) -> Float[Array, " M"]:
        q_next, q = values
        return td.munchausen_target(
            transition.reward,
            transition.discount,
            z_next,
            q_next,
            q,
            transition.action,
            self.temperature,
            self.munchausen,
            self.clip,
        )
