"""IQN (Dabney et al., 2018b) and its head."""

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep.agents import td
from mico.deep.agents.value_agent import AbstractValueAgent, Transition
from mico.deep.fields import check_minimum, check_range, static_field, traced_field
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.heads import Head
from mico.deep.networks.kernels.gated_matmul import gated_product
from mico.deep.networks.layers import Dense, Precision, float_dtype
from mico.deep.types import Batch, Params, Representations, Views


class QuantileHead(eqx.Module):
    r"""$Z_\tau = \psi(\phi \odot \mathrm{relu}(W \cos(\pi i \tau) + b))$, $i = 1 \dots$"""

    embedding: Dense
    head: Head
    cosines: int = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(self, size: int, num_actions: int, network: NetworkConfig, cosines: int, *, key: Key[Array, ""]):
        first, second = jax.random.split(key)
        self.embedding = Dense(cosines, size, network.initialiser, key=first)
        self.head = Head(size, num_actions, 1, network, key=second)
        self.cosines, self.precision = cosines, network.precision

    def __call__(self, phi: Float[Array, "*B D"], tau: Float[Array, " N"]) -> Float[Array, "*B N A"]:
        """The quantiles of one state, or of a batch at the same fractions."""
        waves = jnp.cos(jnp.pi * jnp.arange(1, self.cosines + 1) * tau[:, None])
        phi, waves = (numbers.astype(float_dtype(self.precision)) for numbers in (phi, waves))
        gates, hidden = jax.nn.relu(self.embedding(waves)), self.head.hidden
        if phi.ndim != 2 or hidden is None:
            return self.head(phi[..., None, :] * gates)[..., 0]
        product = gated_product(phi, gates, hidden.weight.astype(phi.dtype))
        return self.head.output(jax.nn.relu(product + hidden.bias.astype(phi.dtype)).astype(float))


class Quantiles(NamedTuple):
    """Online quantiles of x and the target's of x', of one transition or of a batch; and values of actions."""

    now: Float[Array, "*B N A"]
    later: Float[Array, "*B M A"]
    values: Any


class AbstractImplicitAgent(AbstractValueAgent):
    """Quantiles at sampled fractions."""

    horizon: int = static_field(3, "Steps n of the n-step return that a TD target sums before it bootstraps.")
    learning_rate: float = traced_field(5e-5, "Learning rate of Adam.")
    adam_epsilon: float = traced_field(3.125e-4, "Epsilon of Adam, added to the root of the second moment.")
    num_quantiles: int = static_field(64, "Sampled quantile fractions of the prediction.")
    num_target_quantiles: int = static_field(64, "Sampled quantile fractions of the target.")
    num_policy_quantiles: int = static_field(32, "Sampled quantile fractions whose mean is the value of an action.")
    num_cosines: int = static_field(64, "Cosine features that embed a quantile fraction.")
    kappa: float = traced_field(
        1.0, "Error at which the Huber loss of quantiles turns linear; 0 is the absolute error."
    )
    fractions: Literal["each", "shared"] = static_field(
        "each", "Draw quantile fractions for each sample, or once a batch and shared, as in the released code."
    )

    def __check_init__(self) -> None:
        check_range(self, kappa=(0.0, float("inf")))
        check_minimum(self, num_quantiles=1, num_target_quantiles=1, num_policy_quantiles=1, num_cosines=1)

    def make_head(self, size: int, num_actions: int, network: NetworkConfig, *, key: Key[Array, ""]) -> QuantileHead:
        return QuantileHead(size, num_actions, network, self.num_cosines, key=key)

    def q_values(self, head: QuantileHead, phi: Float[Array, "*B D"], key: Key[Array, ""]) -> Float[Array, "*B A"]:
        return head(phi, jax.random.uniform(key, (self.num_policy_quantiles,))).mean(axis=-2)

    def loss(
        self, params: Params, target: Params, views: Views, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, " B"], Float[Array, ""]]:
        if self.fractions == "each":
            return super().loss(params, target, views, batch, key)
        states = Representations(views.online, views.target, views.target_next)
        tau, found = self.quantiles(params.head, target.head, states, key)
        transitions = Transition(batch.action, batch.reward, batch.discount)
        return jax.vmap(self.regression, in_axes=(None, 0, 0))(tau, found, transitions), jnp.zeros(())

    def td_loss(
        self,
        head: QuantileHead,
        target: QuantileHead,
        phi: Representations,
        transition: Transition,
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        return self.regression(*self.quantiles(head, target, phi, key), transition)

    def quantiles(
        self, head: QuantileHead, target: QuantileHead, phi: Representations, key: Key[Array, ""]
    ) -> tuple[Float[Array, " N"], Quantiles]:
        """Fractions and what is predicted there, for one transition or for a batch."""
        of_online, of_target, of_policy = jax.random.split(key, 3)
        tau = jax.random.uniform(of_online, (self.num_quantiles,))
        later = target(phi.target_next, jax.random.uniform(of_target, (self.num_target_quantiles,)))
        return tau, Quantiles(head(phi.online, tau), later, self.target_values(target, phi, of_policy))

    def regression(self, tau: Float[Array, " N"], found: Quantiles, transition: Transition) -> Float[Array, ""]:
        """The loss of one transition, its quantiles given."""
        goal = self.target_quantiles(transition, found.later.T, found.values)
        return td.quantile_huber(td.select_action(found.now.T, transition.action), tau, goal, self.kappa)

    @abstractmethod
    def target_values(self, target: QuantileHead, phi: Representations, key: Key[Array, ""]) -> Any:
        """The values of actions that targets depend on."""

    @abstractmethod
    def target_quantiles(self, transition: Transition, z_next: Float[Array, "A M"], values: Any) -> Float[Array, " M"]:
        """What the quantiles of the action taken are to become."""


class IQN(AbstractImplicitAgent):
    """IQN (Dabney et al., 2018b): quantile regression at sampled fractions."""

    def target_values(self, target: QuantileHead, phi: Representations, key: Key[Array, ""]) -> Float[Array, "*B A"]:
        return self.q_values(target, phi.target_next, key)

    def target_quantiles(
        self, transition: Transition, z_next: Float[Array, "A M"], values: Float[Array, " A"]
    ) -> Float[Array, " M"]:
        return td.quantile_target(transition.reward, transition.discount, z_next, values)
