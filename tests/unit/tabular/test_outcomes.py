"""Rewards of transitions, lists of outcomes, and the law of the reward."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from mico.tabular import MDP, Outcomes
from strategies import mdps, sparse

KERNEL = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
REWARD = np.array([[1.0, -2.0], [0.0, 4.0]])

storage = pytest.mark.parametrize("stored", ["dense", "sparse"])


def as_stored(array, stored):
    """An array [S, A, S], or one sparse matrix an action."""
    return array if stored == "dense" else [sp.csr_array(array[:, action]) for action in range(array.shape[1])]


@storage
def test_rewards_of_transitions_are_averaged(stored):
    prices = np.random.default_rng(0).normal(size=(2, 2, 2))
    mdp = MDP(as_stored(KERNEL, stored), as_stored(prices, stored), 0.9)
    for x, a in itertools.product(range(2), range(2)):
        assert mdp.reward[x, a] == pytest.approx(sum(KERNEL[x, a, y] * prices[x, a, y] for y in range(2)))


@pytest.mark.parametrize("priced", ["dense", "sparse"])
@storage
def test_every_mix_of_dense_and_sparse_rewards_and_transitions(stored, priced):
    prices = np.array([[[1.0, 0.0], [2.0, 9.0]], [[9.0, 0.0], [3.0, -1.0]]])
    mdp = MDP(as_stored(KERNEL, stored), as_stored(prices, priced), 0.9)
    np.testing.assert_allclose(mdp.reward, [[0.5, 2.0], [0.0, 0.0]])
    expected = [(0, 0, 0, 0.5, 1.0), (0, 0, 1, 0.5, 0.0), (0, 1, 0, 1.0, 2.0)]
    expected += [(1, 0, 1, 1.0, 0.0), (1, 1, 0, 0.25, 3.0), (1, 1, 1, 0.75, -1.0)]
    assert list(zip(*mdp.outcomes(), strict=True)) == expected


@given(sample=mdps())
def test_outcomes_without_prices_pay_the_mean(sample):
    for mdp in (sample.mdp, sparse(sample.mdp)):
        outcomes = mdp.outcomes()
        rebuilt = np.zeros((*mdp.shape, mdp.num_states))
        for x, a, y, p, reward in zip(*outcomes, strict=True):
            rebuilt[x, a, y] += p
            assert reward == sample.mdp.reward[x, a]
        np.testing.assert_allclose(rebuilt, sample.mdp.transition, rtol=0, atol=1e-15)
        again = MDP.from_outcomes(outcomes, *mdp.shape, mdp.discount)
        np.testing.assert_allclose(again.reward, mdp.reward, rtol=1e-13, atol=0)


def test_one_next_state_with_two_rewards():
    columns = np.array([[0, 0, 1, 0.25, 2.0], [0, 0, 1, 0.25, 6.0], [0, 0, 0, 0.5, -1.0], [1, 0, 1, 1.0, 0.0]]).T
    outcomes = Outcomes(*columns[:3].astype(int), *columns[3:])
    mdp = MDP.from_outcomes(outcomes, 2, 1, 0.9)
    np.testing.assert_allclose(mdp.reward, [[1.5], [0]])
    np.testing.assert_allclose(mdp.kernels[0].toarray(), [[0.5, 0.5], [0, 1]])
    levels, weights = mdp.chain(reward="sampled").law
    np.testing.assert_array_equal(levels, [-1, 0, 2, 6])
    np.testing.assert_allclose(weights.toarray(), [[0.5, 0, 0.25, 0.25], [0, 1, 0, 0]])
    gap = mdp.chain(reward="sampled").reward_gap()
    assert gap[0, 1] == pytest.approx(0.5 * 1 + 0.25 * 2 + 0.25 * 6)
    assert gap[0, 0] == pytest.approx(2 * (0.5 * 0.25 * 3 + 0.5 * 0.25 * 7 + 0.25 * 0.25 * 4))
    assert mdp.chain().law is None


def test_the_law_of_rewards_mixes_actions():
    levels, weights = MDP(KERNEL, REWARD, 0.9).chain([[0.25, 0.75], [1, 0]], reward="sampled").law
    np.testing.assert_array_equal(levels, [-2, 0, 1])  # and not 4, which the second action would pay in state 1
    np.testing.assert_allclose(weights.toarray(), [[0.75, 0, 0.25], [0, 1, 0]])


def test_with_discount_keeps_the_rewards_of_transitions():
    prices = np.array([[[1.0, 3.0]], [[0.0, 0.0]]])
    mdp = MDP(np.full((2, 1, 2), 0.5), prices, 0.9).with_discount(0.5)
    assert mdp.discount == 0.5
    np.testing.assert_allclose(mdp.reward, [[2], [0]])
    np.testing.assert_array_equal(mdp.outcomes().reward, [1, 3, 0, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": np.array([0, 2])}, r"state\[1\] = 2 is outside 0..1"),
        ({"action": np.array([-1, 0])}, r"action\[0\] = -1 is outside 0..0"),
        ({"next_state": np.array([0, 5])}, r"next_state\[1\] = 5 is outside 0..1"),
        ({"probability": np.array([1.0, -1.0])}, r"probability\[1\] = -1.0 is negative"),
        ({"probability": np.array([1.0, np.nan])}, r"probability\[1\] = nan is not finite"),
        ({"reward": np.array([np.inf, 0.0])}, r"reward\[0\] = inf is not finite"),
        ({"probability": np.array([1.0, 0.5])}, "transition of state 1, action 0 sums to 0.5, not to 1"),
        ({"state": np.array([0, 0])}, "transition of state 0, action 0 sums to 2, not to 1"),
        ({"reward": np.array([0.0])}, r"outcomes must be vectors of one length, but are .*reward \[1\]"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_outcomes_that_make_no_mdp(change, message):
    both = np.array([0, 1])
    good = Outcomes(both, np.zeros(2, dtype=int), both, np.ones(2), np.zeros(2))
    assert MDP.from_outcomes(good, 2, 1, 0.9).shape == (2, 1)
    with pytest.raises(ValueError, match=message):
        MDP.from_outcomes(good._replace(**change), 2, 1, 0.9)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 1), "num_states must be at least 1, but is 0"),
        ((2, 0), "num_actions must be at least 1, but is 0"),
        ((2.5, 1), "num_states must be a whole number, not 2.5"),
    ],
)
def test_sizes_that_make_no_mdp(size, message):
    both = np.array([0, 1])
    with pytest.raises(ValueError, match=message):
        MDP.from_outcomes(Outcomes(both, np.zeros(2, dtype=int), both, np.ones(2), np.zeros(2)), *size, 0.9)


@pytest.mark.usefixtures("unchecked")
def test_outcomes_with_states_that_are_no_integers():
    both = np.array([0, 1])
    outcomes = Outcomes(both * 1.0, np.zeros(2, dtype=int), both, np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="state must hold integers, not float64"):
        MDP.from_outcomes(outcomes, 2, 1, 0.9)
