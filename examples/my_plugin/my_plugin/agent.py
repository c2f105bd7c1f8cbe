"""An agent: DQN whose target takes the mellowmax of the next values (Asadi and Littman, 2017) in place of their max."""

from typing import ClassVar

import jax.numpy as jnp
from jax.nn import logsumexp

from mico.deep.agents import AbstractValueAgent
from mico.deep.networks import Head


class MellowDQN(AbstractValueAgent):
    """Mellow DQN: squared TD error to a target with the mellowmax of the next values."""

    omega: float = 10.0
    """Sharpness of the mellowmax: large values come near the max, small ones near the mean."""
    presets: ClassVar = {"table": {"learning_rate": 2e-3}}  # everything else as DQN has it in each preset

    def make_head(self, size, num_actions, network, *, key):
        return Head(size, num_actions, 1, network, key=key)

    def q_values(self, head, phi, key):
        return head(phi)[:, 0]

    def td_loss(self, head, target, phi, transition, key):
        q, next_q = head(phi.online)[:, 0], target(phi.target_next)[:, 0]
        mellowmax = (logsumexp(self.omega * next_q) - jnp.log(next_q.size)) / self.omega
        return (transition.reward + transition.discount * mellowmax - q[transition.action]) ** 2
