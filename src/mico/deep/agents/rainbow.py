"""Rainbow as in Dopamine (Hessel et al., 2018; Bellemare et al., 2017)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep.agents import td
from mico.deep.agents.value_agent import AbstractValueAgent, Transition
from mico.deep.fields import check_minimum, check_range, static_field, traced_field
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.heads import Head
from mico.deep.types import Representations


class Rainbow(AbstractValueAgent):
    """C51 with n-step returns, made for a prioritised replay (Dopamine's Rainbow): no dueling, noise or double Q."""

    horizon: int = static_field(3, "Steps n of the n-step return that a TD target sums before it bootstraps.")
    num_atoms: int = static_field(51, "Atoms of the return distribution.")
    support: float = traced_field(10.0, "Largest return that the atoms represent: they are evenly spaced in ± this.")

    def __check_init__(self) -> None:
        check_minimum(self, num_atoms=2)
        check_range(self, support=(1e-6, float("inf")))

    def atoms(self) -> Float[Array, " K"]:
        return self.support * jnp.linspace(-1.0, 1.0, self.num_atoms)

    def make_head(self, size: int, num_actions: int, network: NetworkConfig, *, key: Key[Array, ""]) -> Head:
        return Head(size, num_actions, self.num_atoms, network, key=key)

    def q_values(self, head: Head, phi: Float[Array, " D"], key: Key[Array, ""]) -> Float[Array, " A"]:
        return jax.nn.softmax(head(phi)) @ self.atoms()

    def td_loss(
        self, head: Head, target: Head, phi: Representations, transition: Transition, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        return td.categorical(head(phi.online), *transition, target(phi.target_next), self.atoms())
