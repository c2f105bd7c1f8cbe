"""IQN (Dabney et al., 2018b) and its head."""

from abc import abstractmethod
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep import td
from mico.deep.agents.value import AbstractValueAgent
from mico.deep.fields import check_least, check_range, fixed, number
from mico.deep.layers import Dense, Precision, number_type
from mico.deep.networks import Head, Network


class QuantileHead(eqx.Module):
    r"""$Z_\tau = \psi(\phi \odot \mathrm{relu}(W \cos(\pi i \tau) + b))$, $i = 1 \dots$"""

    embedding: Dense
    head: Head
    cosines: int = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(self, size: int, num_actions: int, network: Network, cosines: int, *, key: Key[Array, ""]):
        first, second = jax.random.split(key)
        self.embedding = Dense(cosines, size, network.initialiser, key=first)
        self.head = Head(size, num_actions, 1, network, key=second)
        self.cosines, self.precision = cosines, network.precision

    def __call__(self, phi: Float[Array, " D"], tau: Float[Array, " N"]) -> Float[Array, "N A"]:
        waves = jnp.cos(jnp.pi * jnp.arange(1, self.cosines + 1) * tau[:, None])
        phi, waves = (numbers.astype(number_type(self.precision)) for numbers in (phi, waves))
        return self.head(phi * jax.nn.relu(self.embedding(waves)))[:, :, 0]


class AbstractImplicitAgent(AbstractValueAgent):
    """Quantiles at sampled fractions."""

    horizon: int = fixed(3, "steps of a return before it bootstraps")
    learning_rate: float = number(5e-5, "Adam's step size")
    adam_epsilon: float = number(3.125e-4, "Adam's ε, outside the root")
    num_quantiles: int = fixed(64, "fractions at which the prediction is made")
    num_target_quantiles: int = fixed(64, "fractions of its target")
    num_policy_quantiles: int = fixed(32, "fractions whose mean is an action's value")
    num_cosines: int = fixed(64, "features of a fraction")
    kappa: float = number(1.0, "where Huber's error turns linear; 0 is |u|")
    fractions: Literal["each", "shared"] = fixed("each", "drawn for each sample, or once a batch as released")

    def __check_init__(self) -> None:
        check_range(self, kappa=(0.0, float("inf")))
        check_least(self, num_quantiles=1, num_target_quantiles=1, num_policy_quantiles=1, num_cosines=1)

    def make_head(self, size, num_actions, network, *, key):
        return QuantileHead(size, num_actions, network, self.num_cosines, key=key)

    def q_values(self, head, phi, key):
        return head(phi, jax.random.uniform(key, (self.num_policy_quantiles,))).mean(axis=0)

    def sample_keys(self, key, size):
        return jax.random.split(key, size) if self.fractions == "each" else key

    def td_loss(self, head, target, phi, transition, key):
        of_online, of_target, of_policy = jax.random.split(key, 3)
        tau = jax.random.uniform(of_online, (self.num_quantiles,))
        z_next = target(phi.target_next, jax.random.uniform(of_target, (self.num_target_quantiles,))).T
        goal = self.target_quantiles(target, phi, transition, z_next, of_policy)
        return td.quantile_huber(td.taken(head(phi.online, tau).T, transition.action), tau, goal, self.kappa)

    @abstractmethod
    def target_quantiles(self, target, phi, transition, z_next, key) -> Float[Array, " N"]:
        """What the quantiles of the action taken are to become."""


class IQN(AbstractImplicitAgent):
    """IQN (Dabney et al., 2018b): quantile regression at sampled fractions."""

    def target_quantiles(self, target, phi, transition, z_next, key):
        q_next = self.q_values(target, phi.target_next, key)
        return td.quantile_target(transition.reward, transition.discount, z_next, q_next)
