r"""Heads $\psi$: from a representation to numbers for each action."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from mico.deep.networks.encoders import NetworkConfig
from mico.deep.networks.layers import Dense


class Head(eqx.Module):
    r"""$\psi$: a hidden layer (none if its width is 0) and `outputs` numbers per action, always in full precision."""

    hidden: Dense | None
    output: Dense
    num_actions: int = eqx.field(static=True)

    def __init__(self, size: int, num_actions: int, outputs: int, network: NetworkConfig, *, key: Key[Array, ""]):
        first, second = jax.random.split(key)
        self.hidden = Dense(size, network.hidden, network.initialiser, key=first) if network.hidden else None
        self.output = Dense(network.hidden or size, num_actions * outputs, network.initialiser, key=second)
        self.num_actions = num_actions

    def __call__(self, phi: Float[Array, "... D"]) -> Float[Array, "... A K"]:
        x = phi if self.hidden is None else jax.nn.relu(self.hidden(phi))
        return self.output(x.astype(float)).reshape(*phi.shape[:-1], self.num_actions, -1)
