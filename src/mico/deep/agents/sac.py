"""Soft actor-critic (Haarnoja et al., 2018), on a representation that the critics train."""

import math
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from mico.deep.agents.agent import AbstractAgent, Polyak, Prediction
from mico.deep.fields import check_range, static_field, traced_field
from mico.deep.networks.layers import Perceptron, Projection
from mico.deep.types import ActorLatents, Params

LogStd = Literal["bounded", "unbounded"]
_LOG_DEVIATIONS = (-10.0, 2.0)  # where they are bounded


class TanhGaussian(NamedTuple):
    """A normal law of each number of an action, before a tanh."""

    mean: Float[Array, "*B A"]
    log_deviation: Float[Array, "*B A"]

    def sample(self, key: Key[Array, ""]) -> tuple[Float[Array, "*B A"], Float[Array, "*B"]]:
        r"""$a = \tanh u$ and $\log \pi(a) = \log N(u) - \sum_i \log(1 - \tanh^2 u_i)$."""
        noise = jax.random.normal(key, self.mean.shape)
        raw = self.mean + jnp.exp(self.log_deviation) * noise
        density = -(noise**2 + math.log(2 * math.pi)) / 2 - self.log_deviation
        slope = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))  # log(1 - tanh²), also where that rounds to 0
        return jnp.tanh(raw), (density - slope).sum(axis=-1)


class ActorCritic(eqx.Module):
    """The actor with a projection of its own, two critics, and the logarithm of the temperature."""

    projection: Projection | None
    actor: Perceptron
    critics: tuple[Perceptron, Perceptron]
    log_temperature: Float[Array, ""]
    log_std: LogStd = eqx.field(static=True)

    def latent(self, features: Float[Array, " F"]) -> Float[Array, " D"]:
        """What the actor sees; nothing that it learns reaches the encoder's layers."""
        features = jax.lax.stop_gradient(features)
        return features.astype(float) if self.projection is None else self.projection(features)

    def policy(self, latent: Float[Array, "*B D"]) -> TanhGaussian:
        mean, log_deviation = jnp.split(self.actor(latent), 2, axis=-1)
        bounds = _LOG_DEVIATIONS if self.log_std == "bounded" else (None, None)
        return TanhGaussian(mean, jnp.clip(log_deviation, *bounds))

    def values(self, latent: Float[Array, "*B D"], action: Float[Array, "*B A"]) -> Float[Array, "critics ..."]:
        """Of an action, by either critic."""
        both = jnp.concatenate([latent, action], axis=-1)
        return jnp.stack([critic(both)[..., 0] for critic in self.critics])


@final
class SAC(AbstractAgent):
    r"""SAC (Haarnoja et al., 2018): two critics and a stochastic actor, whose entropy a learnt temperature holds up.

    The critics train the representation; the actor projects the encoder's features by itself, without training them.
    """

    learning_rate: float = traced_field(3e-4, "Learning rate of Adam.")
    adam_epsilon: float = traced_field(1e-8, "Epsilon of Adam, added to the root of the second moment.")
    target_rate: float = traced_field(
        0.005, "Rate of the moving average that makes the target network, for each update."
    )
    reward_scale: float = traced_field(
        0.1, "Factor of the rewards in the critics' target; a metric loss sees unscaled rewards."
    )
    entropy: float = traced_field(-0.5, "Target entropy of the policy, for each dimension of an action.")
    initial_temperature: float = traced_field(1.0, "Temperature, the weight of the entropy, before it is learnt.")
    temperature_loss: Literal["log-temperature", "temperature"] = static_field(
        "log-temperature",
        "Factor of the entropy's excess over its target in the temperature's loss: the logarithm of the temperature, as"
        " released, or the temperature.",
    )
    log_std: LogStd = static_field(
        "bounded",
        "Whether the logarithms of the actor's standard deviations are clipped to [-10, 2], or, as released, are not.",
    )
    next_action: Literal["sampled", "mean"] = static_field(
        "sampled",
        "Next action in the critics' target: sampled from the policy, or the mean action of the target policy with the"
        " log-probability of a sample.",
    )
    critics_read: Literal["representation", "actor"] = static_field(
        "representation",
        "Input of the critics: the representation φ, or the actor's projection, which leaves training φ to the metric"
        " loss.",
    )
    actor_projection: Literal["learnt", "fixed"] = static_field(
        "learnt",
        "Whether the actor's projection of the encoder's features is learnt, or stays as it was drawn, as released with"
        " DBC.",
    )

    actions = "continuous"

    def __check_init__(self) -> None:
        everything = (-float("inf"), float("inf"))
        check_range(self, target_rate=(0.0, 1.0), reward_scale=(0.0, float("inf")), entropy=everything)
        check_range(self, initial_temperature=(1e-30, float("inf")))  # its logarithm is learnt

    def check_metric(self, metric: Any) -> None:
        if metric is None and self.critics_read == "actor":
            raise ValueError("critics_read 'actor' leaves φ to a metric loss, but there is none to train it")

    def init(self, sizes, spec, network, *, key):
        keys = jax.random.split(key, 4)
        projection = network.make_projection(sizes.features, key=keys[0]) if network.latent else None
        if projection is None and self.actor_projection == "fixed":
            raise ValueError("actor_projection must be learnt where network.latent is 0, got fixed: there is none")
        hidden = (network.hidden, network.hidden) if network.hidden else ()
        actor, critic = (sizes.phi, *hidden, 2 * spec.action_size), (sizes.phi + spec.action_size, *hidden, 1)
        one, other = (Perceptron(critic, "xavier", key=own) for own in keys[2:])  # as released, unlike the encoder
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature, dtype=float))
        return ActorCritic(
            projection, Perceptron(actor, "xavier", key=keys[1]), (one, other), log_temperature, self.log_std
        )

    def act(self, params, observation, epsilon, keys, *, explore=True):
        policy = self._policy(params, observation)
        action = policy.sample(keys[0])[0] if explore else jnp.tanh(policy.mean)
        return _any_instead(action, epsilon, keys[1])

    def loss(self, params, target, views, batch, key):
        r"""$\tfrac12\sum_k (Q_k(x, a) - y)^2$ of each sample; and the actor's $\mathbb E[\alpha\log\pi - \min_k Q_k]$,
        with the temperature's $\log\alpha\,\mathbb E[-\log\pi - \bar H]$, or $\alpha$ in place of its logarithm.
        """
        of_next, of_actor = jax.random.split(key)
        head = params.head
        aim = jax.lax.stop_gradient(self._target(params, target, views, batch, of_next))
        actor = self._latents(head, views.features)
        latent = actor if self.critics_read == "actor" else views.online
        critic = ((head.values(latent, batch.action) - aim) ** 2).sum(axis=0) / 2
        action, log_chance = head.policy(actor).sample(of_actor)
        temperature, size = jnp.exp(head.log_temperature), batch.action.shape[-1]
        worth = jax.lax.stop_gradient(head).values(jax.lax.stop_gradient(latent), action).min(axis=0)
        policy = (jax.lax.stop_gradient(temperature) * log_chance - worth).mean()
        surprise = jax.lax.stop_gradient(-log_chance).mean()
        factor = head.log_temperature if self.temperature_loss == "log-temperature" else temperature
        return critic, policy + factor * (surprise - self.entropy * size)

    def predict(self, params, observation, key):
        """The mean action, and what the critics say of it."""
        head, features = params.head, params.encoder.features(observation)
        actor = head.latent(features)
        latent = actor if self.critics_read == "actor" else params.encoder.project(features)
        action = jnp.tanh(head.policy(actor).mean)
        return Prediction(action, head.values(latent, action).min(axis=0))

    def metrics(self, params, observations, key):
        """The actor's entropy, by a draw for each state, and the temperature."""
        _, log_chance = jax.vmap(lambda observation: self._policy(params, observation))(observations).sample(key)
        return {"entropy": -log_chance.mean(), "temperature": jnp.exp(params.head.log_temperature)}

    def target_rule(self, period):
        if period is not None:
            raise ValueError(f"target_period must be none with SAC, whose target is a moving average, got {period}")
        return Polyak(self.target_rate)

    def actor_latents(self, params, target, views):
        online = self._latents(params.head, views.features)
        return ActorLatents(online, self._latents(target.head, views.target_features_next))

    def _latents(self, head: ActorCritic, features: Float[Array, "B F"]) -> Float[Array, "B D"]:
        """Project features as the actor does, without a gradient where its projection is fixed."""
        latents = jax.vmap(head.latent)(features)
        return jax.lax.stop_gradient(latents) if self.actor_projection == "fixed" else latents

    def _policy(self, params: Params, observation: Any) -> TanhGaussian:
        return params.head.policy(params.head.latent(params.encoder.features(observation)))

    def _target(self, params, target, views, batch, key) -> Float[Array, " B"]:
        r"""$y = c\,r + \gamma\,(\min_k \bar Q_k(x', a') - \alpha\log\pi(a'|x'))$."""
        by_target = jax.vmap(target.head.latent)(views.target_features_next)
        if self.next_action == "mean":
            policy = target.head.policy(by_target)
            action, (_, log_chance) = jnp.tanh(policy.mean), policy.sample(key)
        else:
            action, log_chance = params.head.policy(jax.vmap(params.head.latent)(views.features_next)).sample(key)
        latent = by_target if self.critics_read == "actor" else views.target_next
        worth = target.head.values(latent, action).min(axis=0) - jnp.exp(params.head.log_temperature) * log_chance
        return self.reward_scale * batch.reward + batch.discount * worth


def _any_instead(action: Float[Array, " A"], epsilon: Float[Array, ""], key: Key[Array, ""]) -> Float[Array, " A"]:
    """Another action with probability ε, each number of it drawn evenly from [-1, 1]."""
    drawn = jax.random.uniform(key, (action.size + 1,), action.dtype)
    return jnp.where(drawn[0] < epsilon, 2 * drawn[1:] - 1, action)
