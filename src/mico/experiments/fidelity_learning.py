r"""Encoders that learn $U_\omega$ from transitions whose states are drawn evenly: many seeds as one program."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.elementwise_losses import ELEMENTWISE_LOSSES
from mico.deep.envs import Tabular
from mico.deep.metric_losses import MICo
from mico.deep.metric_losses.mico import PairBatch
from mico.deep.networks.encoders import Encoder, NetworkConfig
from mico.experiments.fidelity_worlds import World
from mico.tabular import MICoFactors, Problem


class Training(NamedTuple):
    """How many networks, how long, by how many states at a time, how wide and how fast, and how often targets move."""

    seeds: int
    steps: int
    batch: int
    width: int
    learning_rate: float
    target_period: int


class Tables(NamedTuple):
    """Tables to sample from: observations, and the outcomes of a state and an action as in `mico.deep.envs.Tabular`."""

    observations: Shaped[Array, "S D"]
    level: Float[Array, "S A K"]
    next_state: Int[Array, "S A K"]


class Drawn(NamedTuple):
    """Transitions of the uniform policy."""

    state: Int[Array, "..."]
    next_state: Int[Array, "..."]


class Sampled(eqx.Module):
    """The MICo loss of what transitions show; each seed has rewards of its own."""

    loss: MICo
    rewards: Float[Array, "N S"]
    discount: float

    def __call__(
        self, online: Encoder, target: Encoder, tables: Tables, drawn: Drawn, seed: Int[Array, ""]
    ) -> Float[Array, ""]:
        x, later = tables.observations[drawn.state], tables.observations[drawn.next_state]
        now, before, after = jax.vmap(online)(x), jax.vmap(target)(x), jax.vmap(target)(later)
        pairs = PairBatch(now, before, after, self.rewards[seed, drawn.state], self.discount)
        return self.loss(pairs, jax.random.key(0))  # which all pairs have no use for


class Fitted(eqx.Module):
    r"""The MICo loss with the exact U as its target, without pairs of a state with itself.

    What comes of it is what the network and the form of $U_\omega$ allow.
    """

    loss: MICo
    value: Float[Array, " S"]
    factors: Float[Array, "S r"]

    @classmethod
    def to(cls, exact: MICoFactors, loss: MICo) -> "Fitted":
        return cls(loss, jnp.asarray(exact.value, jnp.float32), jnp.asarray(exact.psi, jnp.float32))

    def __call__(
        self, online: Encoder, target: Encoder, tables: Tables, drawn: Drawn, seed: Int[Array, ""]
    ) -> Float[Array, ""]:
        del target, seed
        value, factors = self.value[drawn.state], self.factors[drawn.state]
        exact = value[:, None] + value - 2 * factors @ factors.T
        phi = jax.vmap(online)(tables.observations[drawn.state])
        errors = ELEMENTWISE_LOSSES[self.loss.error](exact - self.loss.pairwise(phi, phi))
        return (errors * (1 - jnp.eye(len(value)))).sum() / (len(value) * (len(value) - 1))


def tables_of(world: World) -> Tables:
    listed = Tabular(Problem(world.mdp)).table
    return Tables(jnp.asarray(world.observations), listed.level, listed.next_state)


def untrained(tables: Tables, training: Training, keys: Key[Array, " N"]) -> Encoder:
    """An encoder a key, stacked."""
    network = NetworkConfig("mlp", width=training.width)
    return eqx.filter_vmap(lambda key: network.make(tables.observations.shape[1:], key=key))(keys)


@eqx.filter_jit
def trained(
    objective: Sampled | Fitted, starts: Encoder, tables: Tables, training: Training, keys: Key[Array, "N T"]
) -> Encoder:
    """Train stacked encoders; there is a key for each of them and for each copy of its target."""
    optimiser = optax.adam(training.learning_rate)

    def one(encoder: Encoder, keys: Key[Array, " T"], seed: Int[Array, ""]) -> Encoder:
        weights, form = eqx.partition(encoder, eqx.is_array)

        def error(weights, target, drawn):
            return objective(eqx.combine(weights, form), eqx.combine(target, form), tables, drawn, seed)

        def period(state, key):
            target = state[0]

            def update(state, drawn):
                weights, memory = state
                change, memory = optimiser.update(jax.grad(error)(weights, target, drawn), memory)
                return (optax.apply_updates(weights, change), memory), None

            drawn = transitions(tables, (training.target_period, training.batch), key)
            return lax.scan(update, state, drawn)[0], None

        state = weights, optimiser.init(weights)
        return eqx.combine(lax.scan(period, state, keys)[0][0], form)

    return eqx.filter_vmap(one)(starts, keys, jnp.arange(keys.shape[0]))


def drawing_keys(training: Training, keys: Key[Array, " N"]) -> Key[Array, "N T"]:
    """By which transitions are drawn between copies of the target, of so many steps or just above."""
    count = -(-training.steps // training.target_period)
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1), count))(keys)


def transitions(tables: Tables, shape: tuple[int, ...], key: Key[Array, ""]) -> Drawn:
    """States drawn evenly, and where an action drawn evenly leads from each."""
    num_states, num_actions, _ = tables.level.shape
    bits = jax.random.bits(key, (3, *shape), jnp.uint32)  # one call, for each takes a second to compile
    state, action = (bits[0] % num_states).astype(int), (bits[1] % num_actions).astype(int)
    chance = (bits[2] >> 8).astype(jnp.float32) / 2**24
    outcome = (chance[..., None] >= tables.level[state, action]).sum(axis=-1)
    return Drawn(state, tables.next_state[state, action, outcome])


def represented(encoders: Encoder, tables: Tables, states: Int[np.ndarray, " M"]) -> Float[np.ndarray, "N M D"]:
    """The vectors of some states by each of the encoders."""
    seen = tables.observations[states]
    return np.asarray(eqx.filter_vmap(lambda encoder: jax.vmap(encoder)(seen))(encoders))
