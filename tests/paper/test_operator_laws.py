"""Which kinds of distance the operators keep, and what reduces a partial metric to a metric."""

import numpy as np
import pytest
from hypothesis import given

from mico.tabular import METRICS, lukaszyk_karmowski
from mico.tabular.diagnostics import check_axioms
from mico.tabular.metrics import mico
from strategies import mdps


def diffuse_metric(rng, size):
    """Shortest paths, and self-distances up to twice the way to the nearest neighbour."""
    d = rng.random((size, size))
    d = np.minimum(d, d.T)
    np.fill_diagonal(d, 0)
    for z in range(size):
        d = np.minimum(d, d[:, [z]] + d[[z], :])
    nearest = np.where(np.eye(size, dtype=bool), np.inf, d).min(axis=1)
    return d + np.diag(rng.random(size) * 2 * np.minimum(nearest, 1.0))


@given(sample=mdps(states=(2, 3, 5, 8)))
def test_lukaszyk_karmowski_keeps_a_diffuse_metric_diffuse(sample):
    d = diffuse_metric(sample.rng, sample.mdp.num_states)
    assert check_axioms(d).is_diffuse_metric
    laws = sample.rng.dirichlet(np.full(len(d), 0.5), size=6)
    lifted = np.array([[lukaszyk_karmowski(mu, nu, d) for nu in laws] for mu in laws])
    assert check_axioms(lifted).is_diffuse_metric


@given(sample=mdps(states=(2, 3, 5, 8)))
def test_the_mico_operator_keeps_diffuse_metrics_and_is_a_lukaszyk_karmowski_distance(sample):
    """T d = D + γ·LK(d)."""
    chain = sample.mdp.chain(sample.policy)
    d = sample.scale * diffuse_metric(sample.rng, chain.num_states)
    new, rows = METRICS["mico"].operator(chain)(d), chain.dense_transition()
    assert check_axioms(new, tolerance=1e-9 * sample.scale).is_diffuse_metric
    for x, y in np.ndindex(d.shape):
        expected = abs(chain.reward[x] - chain.reward[y]) + chain.discount * lukaszyk_karmowski(rows[x], rows[y], d)
        assert new[x, y] == pytest.approx(expected, abs=1e-12 * sample.scale)


@pytest.mark.parametrize("name", ["pi-bisimulation", "bisimulation", "lax-bisimulation"])
@given(sample=mdps(states=(2, 3, 5)))
def test_bisimulation_operators_keep_pseudometrics(name, sample):
    d = sample.scale * diffuse_metric(sample.rng, sample.mdp.num_states)
    np.fill_diagonal(d, 0)
    policy = sample.policy if METRICS[name].on == "policy" else None
    assert check_axioms(METRICS[name].operator(sample.mdp, policy)(d), tolerance=1e-9 * sample.scale).is_pseudometric


@given(sample=mdps(states=(2, 3, 5, 8)))
def test_a_partial_metric_reduces_to_a_metric(sample):
    """max(a_x, a_y) is a partial metric; less half of both self-distances it is |a_x − a_y|/2."""
    numbers = sample.rng.permutation(np.arange(1.0, 1 + sample.mdp.num_states))
    partial = np.maximum(numbers[:, None], numbers[None, :])
    assert check_axioms(partial).is_partial_metric
    assert not check_axioms(partial).is_pseudometric
    np.testing.assert_allclose(mico.reduced(partial), np.abs(numbers[:, None] - numbers[None, :]) / 2)
    assert check_axioms(mico.reduced(partial)).is_metric
