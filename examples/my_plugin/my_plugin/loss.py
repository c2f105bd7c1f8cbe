"""A metric loss: the L1 distance of representations learns a bisimulation metric of the policy."""

import jax.numpy as jnp

from mico.deep.metric_losses import AbstractPairLoss


class L1(AbstractPairLoss):
    """L1: the distance of two states is the L1 norm of the difference of their representations."""

    scale: float = 1.0
    """Factor of the norm."""

    def pairwise(self, x, y):
        return self.scale * jnp.abs(x[:, None] - y).sum(axis=-1)
