"""DQN (Mnih et al., 2015)."""

from typing import Literal

from mico.deep.agents import td
from mico.deep.agents.value_agent import AbstractValueAgent
from mico.deep.fields import static_field
from mico.deep.networks.heads import Head


class DQN(AbstractValueAgent):
    """DQN (Mnih et al., 2015), with Adam as in Dopamine; the squared error, or Huber's as in the paper's appendix."""

    error: Literal["squared", "huber"] = static_field(
        "squared", "Loss of a TD error: squared, or Huber as in the MICo paper's appendix."
    )

    def make_head(self, size, num_actions, network, *, key):
        return Head(size, num_actions, 1, network, key=key)

    def q_values(self, head, phi, key):
        return head(phi)[:, 0]

    def td_loss(self, head, target, phi, transition, key):
        q, q_next = head(phi.online)[:, 0], target(phi.target_next)[:, 0]
        return td.q_learning(q, *transition, q_next, self.error)
