"""What value agents share: a head for discrete actions, its TD loss for one transition, and exploration."""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.agents.agent import AbstractAgent, Prediction
from mico.deep.networks.encoders import NetworkConfig, RepresentationSizes
from mico.deep.types import Batch, Params, Representations, Spec, Views


class Transition(NamedTuple):
    r"""What a TD loss needs of one window: $a$, $\sum_k \gamma^k r_k$, and $\gamma^m$, or 0 after a terminal."""

    action: Int[Array, ""]
    reward: Float[Array, ""]
    discount: Float[Array, ""]


class AbstractValueAgent(AbstractAgent):
    """A head on the representation, its TD loss for one transition, and its action values; acts ε-greedily."""

    actions = "discrete"

    @abstractmethod
    def make_head(self, size: int, num_actions: int, network: NetworkConfig, *, key: Key[Array, ""]) -> Any:
        """What turns a representation of this size into predictions."""

    @abstractmethod
    def q_values(self, head: Any, phi: Float[Array, " D"], key: Key[Array, ""]) -> Float[Array, " A"]:
        """The value of each action in one state."""

    @abstractmethod
    def td_loss(
        self, head: Any, target: Any, phi: Representations, transition: Transition, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """The loss of one transition."""

    def init(self, sizes: RepresentationSizes, spec: Spec, network: NetworkConfig, *, key: Key[Array, ""]) -> Any:
        return self.make_head(sizes.phi, spec.num_actions, network, key=key)

    def act(
        self,
        params: Params,
        observation: Shaped[Array, "..."],
        epsilon: Float[Array, ""],
        keys: Key[Array, "2"],
        *,
        explore: bool = True,
    ) -> Int[Array, ""]:
        """Choose the action of the highest value, or with probability ε any; they explore by ε alone."""
        return greedy(self.q_values(params.head, params.encoder(observation), keys[0]), epsilon, keys[1])

    def loss(
        self, params: Params, target: Params, views: Views, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, " B"], Float[Array, ""]]:
        states = Representations(views.online, views.target, views.target_next)
        transitions = Transition(batch.action, batch.reward, batch.discount)
        each = jax.vmap(self.td_loss, in_axes=(None, None, 0, 0, 0))
        keys = jax.random.split(key, batch.reward.size)
        return each(params.head, target.head, states, transitions, keys), jnp.zeros(())

    def predict(self, params: Params, observation: Shaped[Array, "..."], key: Key[Array, ""]) -> Prediction:
        q = self.q_values(params.head, params.encoder(observation), key)
        return Prediction(q, q.max())


def greedy(q: Float[Array, " A"], epsilon: Float[Array, ""], key: Key[Array, ""]) -> Int[Array, ""]:
    """The best action, or with probability ε any."""
    explore, any_action = jax.random.uniform(key, (2,))
    random = jnp.minimum((any_action * q.size).astype(int), q.size - 1)
    return jnp.where(explore < epsilon, random, jnp.argmax(q))
