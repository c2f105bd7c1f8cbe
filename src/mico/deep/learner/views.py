"""Representations of a replayed batch by the online and the target network."""

import jax
import jax.numpy as jnp

from mico.deep.config.run import Run
from mico.deep.types import Batch, Features, FirstStep, Params, Sink, Views


def represent_batch(run: Run, params: Params, target: Params, batch: Batch) -> Views:
    """Compute what the agent and its metric loss ask for."""
    needs = run.agent.needs | (frozenset() if run.metric is None else run.metric.needs)
    features = jax.vmap(lambda encoder, observation: encoder.features(observation), in_axes=(None, 0))
    projected = jax.vmap(lambda encoder, features: encoder.project(features), in_axes=(None, 0))
    now, target_later = features(params.encoder, batch.observation), features(target.encoder, batch.next_observation)
    target_now = projected(target.encoder, features(target.encoder, batch.observation))
    views = Views(projected(params.encoder, now), target_now, projected(target.encoder, target_later))
    if "first-step" in needs and batch.first is not None:
        after = views.target_next
        if run.agent.horizon > 1:
            after = projected(target.encoder, features(target.encoder, batch.first.next_observation))
        gamma = jnp.asarray(run.agent.discount, dtype=batch.reward.dtype)
        views = views._replace(first_step=FirstStep(batch.first.reward, after, batch.first.terminal, gamma))
    if "sink" in needs:
        nothing = jnp.zeros_like(batch.observation[0])
        views = views._replace(sink=Sink(params.encoder(nothing), target.encoder(nothing)))
    if needs & {"features", "online-next", "actor"}:
        later = jax.lax.stop_gradient(features(params.encoder, batch.next_observation))
        online_next = jax.lax.stop_gradient(projected(params.encoder, later))
        both = Features(now, later, target_later)
        views = views._replace(features=both, online_next=online_next)
        if "actor" in needs:
            views = views._replace(actor=run.agent.actor_latents(params, target, both))
    return views
