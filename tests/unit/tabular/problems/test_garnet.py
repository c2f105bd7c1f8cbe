import numpy as np
import pytest
from scipy import stats

from mico.tabular.problems import garnet

ROWS = 3000  # actions: each is another independent row of every state
UNLIKELY = 1e-4


@pytest.mark.parametrize(("branching", "most"), [("printed", 6), ("n-1", 5)])
def test_branching_is_uniform(branching, most):
    mdp = garnet(6, ROWS, seed=1, branching=branching).mdp
    sizes = (mdp.transition > 0).sum(axis=2).ravel()
    assert sizes.min() == 1
    assert sizes.max() == most
    assert stats.chisquare(np.bincount(sizes)[1:]).pvalue > UNLIKELY


def test_next_states_are_drawn_evenly():
    support = garnet(4, ROWS, seed=2).mdp.transition.reshape(-1, 4) > 0
    pairs = support[support.sum(axis=1) == 2]
    assert stats.chisquare(np.unique(pairs, axis=0, return_counts=True)[1]).pvalue > UNLIKELY  # 6 pairs of 4 states
    assert len(np.unique(pairs, axis=0)) == 6


def test_two_weights_are_normalised_uniform_numbers():
    """For independent uniform u, v the law of u/(u+v) is t/(2(1−t)) up to ½, and symmetric about it."""
    rows = garnet(3, ROWS, seed=3).mdp.transition.reshape(-1, 3)
    rows = rows[(rows > 0).sum(axis=1) == 2]
    first = rows[np.arange(len(rows)), (rows > 0).argmax(axis=1)]

    def law(t):
        small = np.minimum(t, 1 - t)
        below = small / (2 * (1 - small))
        return np.where(t <= 0.5, below, 1 - below)

    assert stats.kstest(first, law).pvalue > UNLIKELY


def test_rewards_are_uniform():
    assert stats.kstest(garnet(5, ROWS, seed=4).mdp.reward.ravel(), "uniform").pvalue > UNLIKELY


@pytest.mark.parametrize("branching", ["printed", "n-1"])
def test_one_state_stays(branching):
    np.testing.assert_array_equal(garnet(1, 2, seed=0, branching=branching).mdp.transition, np.ones((1, 2, 1)))


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((0, 2), {}, "num_states must be at least 1, but is 0"),
        ((2, -1), {}, "num_actions must be at least 1, but is -1"),
        ((2, 2), {"seed": -3}, "seed .* -3"),
        ((2, 2), {"discount": 1.0}, "discount .* 1.0"),
    ],
)
def test_refuses(sizes, options, message):
    with pytest.raises(ValueError, match=message):
        garnet(*sizes, **{"seed": 0, **options})
