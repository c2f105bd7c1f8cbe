"""The SimSR loss against loops in float64 and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import READINGS, both_losses
from mico.deep.metric_losses import SimSR
from mico.deep.metric_losses.pair_loss import PairBatch

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


def naive_distance(x, y):
    return 1 - x @ y / (np.linalg.norm(x) * np.linalg.norm(y))


@pytest.mark.parametrize("reading", READINGS[::5], ids=lambda reading: "-".join(reading.values()))
def test_readings_against_loops(reading):
    found, expected = both_losses(SimSR(**reading), naive_distance)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_as_released_gradients_flow_through_both_arguments_of_all_pairs():
    simsr = SimSR()
    assert (simsr.pairs, simsr.second, simsr.error, simsr.alpha) == ("all", "online", "huber", 0.5)
    assert simsr.horizon == "one-step"


def test_two_transitions_by_hand():
    """Right angle now, opposite later: the target of both mixed pairs is |1 − 3| + .5·2 = 3, that of self-pairs 0."""
    now = jnp.asarray([[2.0, 0.0], [0.0, 3.0]])
    later = jnp.asarray([[5.0, 0.0], [-1.0, 0.0]])
    sides = PairBatch(now, now, later, jnp.asarray([1.0, 3.0]), 0.5)
    assert SimSR(error="squared")(sides, KEY) == pytest.approx((0 + 0 + 2 * (3 - 1) ** 2) / 4)
    assert SimSR()(sides, KEY) == pytest.approx((0 + 0 + 2 * (2 - 0.5)) / 4)


def test_distances_of_zero_vectors():
    x, zero = jnp.asarray([1.0, 2.0]), jnp.zeros(2)
    assert SimSR().measure(zero, zero) == pytest.approx(0)
    assert SimSR().measure(x, zero) == pytest.approx(1)
    np.testing.assert_allclose(SimSR().pairwise(jnp.stack([x, zero]), jnp.stack([-x, zero])), [[2, 1], [1, 0]])


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e15])
def test_lengths_do_not_matter(size):
    x, y = np.asarray(jax.random.normal(KEY, (2, 9)), dtype=float)
    found, gradient = jax.value_and_grad(SimSR().measure)(
        jnp.asarray(size * x, jnp.float32), jnp.asarray(y, jnp.float32)
    )
    unit, other = x / np.linalg.norm(x), y / np.linalg.norm(y)
    assert found == pytest.approx(1 - unit @ other, rel=1e-5)
    exact = -(other - (unit @ other) * unit) / np.linalg.norm(x)
    np.testing.assert_allclose(np.asarray(gradient, dtype=float) * size, exact, rtol=1e-4, atol=1e-6)
