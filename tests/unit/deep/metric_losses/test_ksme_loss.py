"""The KSMe loss against loops in float64, by hand, and against exact MICo distances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import READINGS, both_losses
from mico.deep.metric_losses import KSMe
from mico.deep.metric_losses.pair_loss import PairBatch

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


@pytest.mark.parametrize("reading", READINGS[::5], ids=lambda reading: "-".join(reading.values()))
def test_readings_against_loops(reading):
    found, expected = both_losses(KSMe(**reading), np.dot, lambda gap: 1 - gap / 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_two_transitions_by_hand():
    """Targets are 1 + .5·4 and 1 + .5·1 on the diagonal, 1 − ½·2 + .5·(−2) = −1 off it; products now 4, 9 and 0."""
    now = jnp.asarray([[2.0, 0.0], [0.0, 3.0]])
    later = jnp.asarray([[2.0, 0.0], [-1.0, 0.0]])
    sides = PairBatch(now, now, later, jnp.asarray([1.0, -1.0]), 0.5)
    assert KSMe(error="squared")(sides, KEY) == pytest.approx((1 + 7.5**2 + 2) / 4)
    assert KSMe()(sides, KEY) == pytest.approx((0.5 + 7 + 2 * 0.5) / 4)


def test_the_exact_kernel_of_a_deterministic_chain_has_no_loss():
    r"""$k = \frac1{1-\gamma} - \frac12 U$, whose squared distance $k_{xx} + k_{yy} - 2 k_{xy}$ is $\Pi U$."""
    rng = np.random.default_rng(0)
    after, reward, discount = np.asarray([1, 2, 3, 4, 0, 2]), rng.uniform(-1, 1, 6), 0.8
    mico = np.zeros((6, 6))
    for _ in range(200):
        mico = np.abs(reward[:, None] - reward) + discount * mico[after][:, after]
    values, vectors = np.linalg.eigh(1 / (1 - discount) - mico / 2)
    assert values.min() > -1e-9
    rows = vectors * np.sqrt(np.maximum(values, 0))
    reduced = mico - (np.diag(mico)[:, None] + np.diag(mico)) / 2
    np.testing.assert_allclose(((rows[:, None] - rows) ** 2).sum(axis=-1), reduced, atol=1e-9)
    rows, reward = jnp.asarray(rows, jnp.float32), jnp.asarray(reward, jnp.float32)
    sides = PairBatch(rows, rows, rows[after], reward, discount)
    assert KSMe(error="squared")(sides, KEY) < 1e-10
    assert KSMe(error="squared")(sides._replace(target_next=rows), KEY) > 1e-3
