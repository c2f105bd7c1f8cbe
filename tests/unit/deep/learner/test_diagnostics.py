"""Measures of a batch of representations: by hand, against SciPy, at other scales, and for many runs at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mico.deep.learner.diagnostics import agreement, dead_units, effective_rank

pytestmark = pytest.mark.usefixtures("quick_compilation")


def batches(count=3, size=32, units=128):
    """What a ReLU leaves of random numbers that lie near few directions."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(count, size, 12)) @ rng.normal(size=(count, 12, units)) + rng.normal(
        size=(count, 1, units)
    )
    return np.maximum(mixed, 0)


def by_scipy(phi):
    sigma = np.linalg.svd(phi, compute_uv=False)
    return np.exp(stats.entropy(sigma[sigma > 1e-9 * sigma.max()]))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("shape", [(32, 128), (256, 50)])
def test_effective_rank_of_many_runs_against_scipy(x64, shape):
    phi = batches(3, *shape)
    with jax.enable_x64(x64):
        found = jax.jit(jax.vmap(effective_rank))(jnp.asarray(phi))
        assert found.dtype == (jnp.float64 if x64 else jnp.float32)
        np.testing.assert_allclose(found, [by_scipy(one) for one in phi], rtol=1e-9 if x64 else 2e-3)


def test_effective_rank_by_hand():
    rank = jax.jit(effective_rank)
    assert rank(jnp.eye(4, 6)) == pytest.approx(4, rel=1e-5)
    assert rank(jnp.outer(jnp.arange(1.0, 9), jnp.arange(1.0, 11))) == pytest.approx(1, rel=1e-5)
    two = jnp.diag(jnp.array([3.0, 1.0, 0.0]))
    assert rank(two) == pytest.approx(np.exp(-0.75 * np.log(0.75) - 0.25 * np.log(0.25)), rel=1e-5)
    assert rank(jnp.zeros((4, 6))) == 0


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_effective_rank_does_not_depend_on_the_scale(scale):
    phi = jnp.asarray(batches(1)[0])
    assert effective_rank(scale * phi) == pytest.approx(float(effective_rank(phi)), rel=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_rank_and_leaves_the_other_runs_alone(bad):
    phi = batches(2)
    phi[0, 3, 5] = bad
    found = jax.jit(jax.vmap(effective_rank))(jnp.asarray(phi))
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(by_scipy(phi[1]), rel=2e-3)


def test_dead_units_by_hand():
    phi = jnp.array([[0.0, 1.0, 0.0, -2.0], [0.0, 0.0, 3.0, 2.0]])
    assert dead_units(phi) == 0.25
    assert dead_units(jnp.zeros((3, 5))) == 1


@pytest.mark.parametrize("x64", [False, True])
def test_agreement_of_many_runs_against_scipy_also_with_ties(x64):
    rng = np.random.default_rng(1)
    value = rng.integers(5, size=(3, 20)).astype(float)
    distance = rng.integers(8, size=(3, 20, 20)) + np.abs(value[:, :, None] - value[:, None])
    distance = distance + distance.swapaxes(1, 2)
    above = np.triu_indices(20, 1)
    expected = [
        stats.spearmanr(d[above], np.abs(v[:, None] - v)[above]).statistic for d, v in zip(distance, value, strict=True)
    ]
    with jax.enable_x64(x64):
        found = jax.jit(jax.vmap(agreement))(jnp.asarray(distance), jnp.asarray(value))
        np.testing.assert_allclose(found, expected, rtol=1e-9 if x64 else 1e-4)


def test_agreement_is_one_for_what_orders_pairs_as_values_do_and_nothing_for_constants():
    value = jnp.array([0.0, 1.0, 3.0, 7.0])
    gap = jnp.abs(value[:, None] - value)
    assert agreement(gap**3, value) == pytest.approx(1, rel=1e-5)
    assert agreement(-gap, value) == pytest.approx(-1, rel=1e-5)
    assert np.isnan(agreement(jnp.ones((4, 4)), value))
