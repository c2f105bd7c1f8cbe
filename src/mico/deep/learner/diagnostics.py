"""Diagnostics of a run's representation on a replayed batch, for its log."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.learner.state import DIAGNOSTICS, TrainState, stream_key
from mico.deep.metric_losses.cosine import inner_products
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
        "effective_rank": effective_rank(phi),
        "dead_units": dead_units(phi),
        "agreement": agreement(distance, value),
    }


def _keys(run: Run, step: Int[Array, ""]) -> Key[Array, "2"]:
    """Derive the keys of the batch and of the values."""
    return jax.random.split(stream_key(run, DIAGNOSTICS, step))


def effective_rank(phi: Float[Array, "B D"]) -> Float[Array, ""]:
    r"""$\exp H(p)$ with $p_i = \sigma_i / \sum_j \sigma_j$ of the singular values (Roy and Vetterli, 2007).

    They are roots of the eigenvalues of the smaller matrix of products, of which those within rounding of 0 count as 0:
    in float32, what is below about a 500th of the largest. 0 if all is zero, NaN if not all is finite.
    """
    rows = phi if phi.shape[0] <= phi.shape[1] else phi.T
    scale = jnp.abs(rows).max()
    scaled = rows / jnp.where(scale > 0, scale, 1.0)
    finite = jnp.isfinite(rows).all()
    gram = jnp.where(finite, inner_products(scaled, scaled), 0.0)
    squares = jnp.linalg.eigvalsh(gram, symmetrize_input=False)  # LAPACK may take forever over what is not finite
    rounding = squares[-1] * len(squares) * jnp.finfo(squares.dtype).eps
    sigma = jnp.sqrt(jnp.where(squares > rounding, squares, 0.0))
    total = sigma.sum()
    share = sigma / jnp.where(total > 0, total, 1.0)
    entropy = -jnp.where(share > 0, share * jnp.log(jnp.where(share > 0, share, 1.0)), 0.0).sum()
    return jnp.where(finite, jnp.where(total > 0, jnp.exp(entropy), 0.0), jnp.nan)


def dead_units(phi: Float[Array, "B D"]) -> Float[Array, ""]:
    """The share of units that are 0 for the whole batch, which tells something of units after a ReLU alone."""
    return (phi == 0).all(axis=0).mean()


def agreement(distance: Float[Array, "B B"], value: Float[Array, " B"]) -> Float[Array, ""]:
    r"""Spearman's rank correlation of $d(x, y)$ and $|V(x) - V(y)|$ over pairs; NaN where one of them is constant."""
    first, second = np.triu_indices(value.size, k=1)
    ranks = (_ranks(distance[first, second]), _ranks(jnp.abs(value[first] - value[second])))
    x, y = (rank - rank.mean() for rank in ranks)
    return (x * y).sum() / jnp.sqrt((x**2).sum() * (y**2).sum())


def _ranks(numbers: Float[Array, " P"]) -> Float[Array, " P"]:
    """From 1, and of equal numbers the mean of their ranks."""
    return jax.scipy.stats.rankdata(numbers).astype(numbers.dtype)
