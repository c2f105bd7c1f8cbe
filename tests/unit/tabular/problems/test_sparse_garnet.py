import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from mico.tabular import make

UNLIKELY = 1e-4


def test_each_action_has_so_many_next_states_drawn_evenly():
    mdp = make("sparse-garnet", seed=1, num_states=6, num_actions=500, next_states=2).mdp
    support = np.stack([sp.csr_array(kernel).toarray() > 0 for kernel in mdp.kernels]).reshape(-1, 6)
    assert (support.sum(axis=1) == 2).all()
    pairs, times = np.unique(support, axis=0, return_counts=True)
    assert len(pairs) == 15
    assert stats.chisquare(times).pvalue > UNLIKELY


def test_two_weights_are_normalised_uniform_numbers():
    """For independent uniform u, v, the smaller share s = min(u, v)/(u + v) has P(s < t) = t/(1 − t)."""
    mdp = make("sparse-garnet", seed=2, num_states=20, num_actions=100, next_states=2).mdp
    rows = np.concatenate([sp.csr_array(kernel).toarray() for kernel in mdp.kernels])
    smaller = np.sort(rows, axis=1)[:, -2]
    assert stats.kstest(smaller, lambda t: np.clip(t / (1 - np.minimum(t, 0.9)), 0, 1)).pvalue > UNLIKELY


@pytest.mark.parametrize("levels", [2, 5])
def test_rewards_are_of_the_state_and_of_so_many_levels(levels):
    reward = make("sparse-garnet", seed=3, num_states=2000, levels=levels).mdp.reward
    np.testing.assert_array_equal(reward[:, 0], reward[:, 1])
    values, times = np.unique(reward[:, 0], return_counts=True)
    np.testing.assert_allclose(values, np.linspace(0, 1, levels))
    assert stats.chisquare(times).pvalue > UNLIKELY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_states": 0}, "num_states must be at least 1, but is 0"),
        ({"num_actions": 0}, "num_actions must be at least 1, but is 0"),
        ({"next_states": 0}, "next_states must be at least 1, but is 0"),
        ({"next_states": 101}, "next_states must be at most num_states, 100, but is 101"),
        ({"levels": 1}, "levels must be at least 2, but is 1"),
        ({"seed": -1}, "seed must be at least 0, but is -1"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        make("sparse-garnet", **({"seed": 0} | options))
