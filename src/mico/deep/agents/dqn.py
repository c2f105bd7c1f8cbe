"""DQN (Mnih et al., 2015)."""

from typing import Literal

from jaxtyping import Array, Float, Key

from mico.deep.agents import td
from mico.deep.agents.value_agent import AbstractValueAgent, Transition
from mico.deep.fields import static_field
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.heads import Head
from mico.deep.types import Representations


class DQN(AbstractValueAgent):
    """DQN (Mnih et al., 2015), with Adam as in Dopamine; the squared error, or Huber's as in the paper's appendix."""

    error: Literal["squared", "huber"] = static_field(
        "squared", "Loss of a TD error: squared, or Huber as in the MICo paper's appendix."
    )

    def make_head(self, size: int, num_actions: int, network: NetworkConfig, *, key: Key[Array, ""]) -> Head:
        return Head(size, num_actions, 1, network, key=key)

    def q_values(self, head: Head, phi: Float[Array, " D"], key: Key[Array, ""]) -> Float[Array, " A"]:
        return head(phi)[:, 0]

    def td_loss(
        self, head: Head, target: Head, phi: Representations, transition: Transition, key: Key[Array, ""]
    ) -> Float[Array, ""]:
        q, q_next = head(phi.online)[:, 0], target(phi.target_next)[:, 0]
        return td.q_learning(q, *transition, q_next, self.error)
