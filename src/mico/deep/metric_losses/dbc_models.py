"""Models of latent dynamics and of rewards, which DBC learns beside its distance."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from mico.deep.networks.layers import Dense, Initialiser
from mico.deep.types import Spec

_DEVIATIONS = (1e-4, 10.0)


class DiagonalGaussian(NamedTuple):
    """Normal laws of next representations; without deviations, just these."""

    mean: Float[Array, "B D"]
    deviation: Float[Array, "B D"] | None

    def sample(self, key: Key[Array, ""]) -> Float[Array, "B D"]:
        if self.deviation is None:
            return self.mean
        return self.mean + self.deviation * jax.random.normal(key, self.mean.shape)

    def nll(self, outcome: Float[Array, "B D"]) -> Float[Array, "B D"]:
        """The negative log-likelihood, up to a constant, of each number; deviations that are not learnt count as 1."""
        if self.deviation is None:
            return (outcome - self.mean) ** 2 / 2
        return ((outcome - self.mean) / self.deviation) ** 2 / 2 + jnp.log(self.deviation)

    def gaps(self, order: jax.Array) -> tuple[Float[Array, "B D"], Float[Array, "B D"]]:
        """Differences of means and of deviations to those of others; without deviations these are 0."""
        mean = self.mean - self.mean[order]
        return mean, jnp.zeros_like(mean) if self.deviation is None else self.deviation - self.deviation[order]


class _Regression(eqx.Module):
    """A dense layer, a layer norm and a ReLU, and an affine output."""

    hidden: Dense
    norm: eqx.nn.LayerNorm
    output: Dense

    def __init__(
        self, inputs: int, hidden: int, outputs: int, initialiser: Initialiser, *, parts: int = 1, key: Key[Array, ""]
    ):
        first, second = jax.random.split(key)
        self.hidden = Dense(inputs, hidden, initialiser, key=first)
        self.norm = eqx.nn.LayerNorm(hidden)
        self.output = Dense(hidden, outputs, initialiser, key=second)
        if parts > 1 and initialiser == "xavier":  # a rule that counts outputs: each part is a layer of its own
            keys = jax.random.split(second, parts)
            weights = [Dense(hidden, outputs // parts, initialiser, key=own).weight for own in keys]
            self.output = eqx.tree_at(lambda layer: layer.weight, self.output, jnp.concatenate(weights))

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        return self.output(jax.nn.relu(self.norm(self.hidden(x))))


class LatentModels(eqx.Module):
    """What comes next, and what a step pays: of a representation and an action, or of the next representation."""

    dynamics: _Regression
    reward: _Regression
    num_actions: int = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        spec: Spec,
        hidden: int,
        initialiser: Initialiser,
        *,
        outputs: int,
        reads: int,
        key: Key[Array, ""],
    ):
        """`outputs` numbers of a next representation: as many as it has, or twice; `reads` are what rewards follow."""
        first, second = jax.random.split(key)
        action = spec.num_actions or math.prod(spec.action_shape)
        self.dynamics = _Regression(size + action, hidden, outputs, initialiser, parts=outputs // size, key=first)
        self.reward = _Regression(reads or size + action, hidden, 1, initialiser, key=second)
        self.num_actions = spec.num_actions

    def joined(self, latent: Float[Array, "B D"], action: Shaped[Array, "B ..."]) -> Float[Array, "B I"]:
        """What the models read of a step; one of several actions is a unit vector."""
        done = jax.nn.one_hot(action, self.num_actions) if self.num_actions else action
        return jnp.concatenate([latent, done], axis=-1)

    def law(self, joined: Float[Array, "B I"], size: int) -> DiagonalGaussian:
        found = jax.vmap(self.dynamics)(joined)
        if found.shape[-1] == size:
            return DiagonalGaussian(found, None)
        mean, raw = jnp.split(found, 2, axis=-1)
        low, high = _DEVIATIONS
        return DiagonalGaussian(mean, low + (high - low) * jax.nn.sigmoid(raw))

    def rewards(self, read: Float[Array, "B I"]) -> Float[Array, " B"]:
        return jax.vmap(self.reward)(read)[:, 0]
