"""Diagnostics of a run's representation on a replayed batch, for its log."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.learner import representation_metrics
from mico.deep.learner.keys import DIAGNOSTICS, stream_key
from mico.deep.learner.state import TrainState
from mico.deep.metric_losses.mico import angle
from mico.deep.networks.kernels.select import with_fast_convolutions
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params


def diagnose(run: Run, state: TrainState, step: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
    """Measure the representations of a replayed batch: values, norms, angles, learnt distances and their agreement."""
    return diagnose_batch(run, state.params, sample_observations(run, state.memory, step), step)


def sample_observations(run: Run, replay: ReplayState, step: Int[Array, ""]) -> Shaped[Array, "B ..."]:
    """Draw the observations of a replayed batch."""
    batch_key, _ = _keys(run, step)
    batch, _ = run.replay.sample(replay, step, run.window, batch_key)
    return batch.observation


def diagnose_batch(
    run: Run, params: Params, observations: Shaped[Array, "B ..."], step: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    """Measure the representations of given observations."""
    _, value_key = _keys(run, step)
    params = params._replace(encoder=with_fast_convolutions(run.network, run.env.spec.shape, params.encoder))
    phi = jax.vmap(params.encoder)(observations)
    value = jax.vmap(lambda one: run.agent.predict(params, one, value_key).state_value)(observations)
    different = ~jnp.eye(phi.shape[0], dtype=bool)
    distance = run.measure.pairwise(phi, phi)
    theta = jnp.mean(jax.vmap(jax.vmap(angle, (None, 0)), (0, None))(phi, phi), where=different)
    return run.agent.metrics(params, observations, value_key) | {
        "q": value.mean(),
        "distance": jnp.mean(distance, where=different),
        "reduced_distance": run.measure.angle_weight * theta,
        "norm": jnp.linalg.norm(phi, axis=-1).mean(),
        "angle": theta,
        "effective_rank": representation_metrics.effective_rank(phi),
        "dead_units": representation_metrics.dead_units(phi),
        "agreement": representation_metrics.agreement(distance, value),
    }


def _keys(run: Run, step: Int[Array, ""]) -> Key[Array, "2"]:
    """Derive the keys of the batch and of the values."""
    return jax.random.split(stream_key(run, DIAGNOSTICS, step))
