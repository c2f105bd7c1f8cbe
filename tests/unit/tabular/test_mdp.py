"""MDPs and chains: what is accepted, what is refused and with which words, and the numbers that follow."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from mico.tabular import MDP, Chain, solve
from mico.tabular import chain as chain_module
from mico.tabular.outcomes import RewardLaw
from strategies import mdps, sparse

KERNEL = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
REWARD = np.array([[1.0, -2.0], [0.0, 4.0]])

storage = pytest.mark.parametrize("stored", ["dense", "sparse"])


def kernel(stored):
    """An array, or one sparse matrix an action."""
    return KERNEL.copy() if stored == "dense" else [sp.csr_array(KERNEL[:, action]) for action in range(2)]


@storage
def test_shapes(stored):
    mdp = MDP(kernel(stored), REWARD, 0.9)
    assert (mdp.num_states, mdp.num_actions, mdp.shape, mdp.discount) == (2, 2, (2, 2), 0.9)
    assert repr(mdp) == "MDP(num_states=2, num_actions=2, discount=0.9)"
    np.testing.assert_array_equal(mdp.reward, REWARD)
    for action, found in enumerate(mdp.kernels):
        np.testing.assert_array_equal(found.toarray() if stored == "sparse" else found, KERNEL[:, action])


def test_states_and_actions_are_not_confused():
    mdp = MDP(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), 0.5)
    assert (mdp.num_states, mdp.num_actions) == (3, 2)
    with pytest.raises(ValueError, match=r"transition must have shape \[S, A, S\], but has \[2, 3, 3\]"):
        MDP(np.full((2, 3, 3), 1 / 3), np.zeros((3, 2)), 0.5)


@given(sample=mdps())
def test_a_policy_makes_a_chain(sample):
    mdp, policy = sample.mdp, sample.policy
    rows, mean = np.zeros((mdp.num_states,) * 2), np.zeros(mdp.num_states)
    for x, a in itertools.product(range(mdp.num_states), range(mdp.num_actions)):
        rows[x] += policy[x, a] * mdp.transition[x, a]
        mean[x] += policy[x, a] * mdp.reward[x, a]
    for chain in (mdp.chain(policy), sparse(mdp).chain(policy)):
        np.testing.assert_allclose(chain.dense_transition(), rows, rtol=0, atol=1e-14)
        np.testing.assert_allclose(chain.reward, mean, rtol=1e-12, atol=1e-14 * np.abs(mdp.reward).max())
    uniform = mdp.chain(np.full(mdp.shape, 1 / mdp.num_actions))
    np.testing.assert_allclose(mdp.chain().dense_transition(), uniform.dense_transition(), rtol=0, atol=1e-15)


@given(sample=mdps())
def test_value_by_iterating(sample):
    chain = sample.mdp.chain(sample.policy)
    value = np.zeros(chain.num_states)
    for _ in range(3000):
        value = chain.reward + chain.discount * chain.dense_transition() @ value
    size = np.abs(chain.reward).max() / (1 - chain.discount)
    for found in (chain.value(), sparse(sample.mdp).chain(sample.policy).value()):
        np.testing.assert_allclose(found, value, rtol=0, atol=1e-11 * size)


@cache
def large_walk(discount):
    """A random walk on a ring that drifts, its rewards, and its values by sweeps from zero."""
    size = 30_000
    here = np.arange(size)
    columns = np.concatenate([(here + 1) % size, (here + 2) % size, here // 2])
    weight = np.repeat([0.5, 0.3, 0.2], size)
    walk = sp.csr_array((weight, (np.tile(here, 3), columns)), shape=(size, size))
    reward, value = np.sin(here), np.zeros(size)
    for _ in range(700):
        value = reward + discount * (walk @ value)
    return walk, reward, value


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_value_of_a_large_sparse_chain(scale):
    """Values grow with the rewards."""
    walk, reward, value = large_walk(0.95)
    found = Chain(walk, scale * reward, 0.95).value()
    np.testing.assert_allclose(found, scale * value, rtol=0, atol=1e-10 * scale)


@storage
def test_arrays_are_read_only_copies(stored):
    transition, reward = kernel(stored), REWARD.copy()
    mdp = MDP(transition, reward, 0.9)
    reward[0, 0] = 7
    (transition[0] if stored == "sparse" else transition)[0, 0] = 0.1
    assert mdp.reward[0, 0] == 1
    assert mdp.kernels[0][0, 0] == 0.5
    chain = mdp.chain()
    kept = [mdp.reward, chain.reward]
    kept += [k.data for k in mdp.kernels] + [chain.transition.data] if stored == "sparse" else [mdp.transition]
    kept += [] if stored == "sparse" else [chain.transition]
    for array in kept:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_chains_are_read_only_copies():
    rows, reward = np.eye(2), np.zeros(2)
    chain = Chain(rows, reward, 0.9)
    rows[0], reward[0] = [0, 1], 5
    np.testing.assert_array_equal(chain.transition, np.eye(2))
    np.testing.assert_array_equal(chain.reward, [0, 0])


def test_action_chains():
    mdp = MDP(KERNEL, REWARD, 0.9)
    for action, chain in enumerate(mdp.action_chains()):
        np.testing.assert_array_equal(chain.transition, KERNEL[:, action])
        np.testing.assert_array_equal(chain.reward, REWARD[:, action])


def test_lists_of_numbers_will_do():
    mdp = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0, 1], [2, 3]], 0)
    assert mdp.discount == 0.0
    np.testing.assert_array_equal(mdp.chain([[1, 0], [0, 1]]).transition, [[1, 0], [1, 0]])


def test_the_gap_of_rewards_of_many_levels():
    """Of two whole numbers below k drawn alike, (k² − 1)/3k; of one and the lowest, (k − 1)/2. No matrix [k, k]."""
    k = 60_001
    weights = sp.csr_array(np.stack([np.full(k, 1 / k), np.eye(1, k)[0]]))
    law = RewardLaw(np.arange(k, dtype=float), weights)
    gap = Chain(np.eye(2), [(k - 1) / 2, 0.0], 0.5, law=law).reward_gap()
    between = (k - 1) / 2
    np.testing.assert_allclose(gap, [[(k**2 - 1) / (3 * k), between], [between, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("part", [1, 7, 10**6])
def test_the_gap_of_rewards_by_loops(part, monkeypatch):
    """However many states are taken at a time."""
    monkeypatch.setattr(chain_module, "_CHUNK", part)
    rng = np.random.default_rng(0)
    levels, weights = np.sort(rng.normal(size=6)), rng.dirichlet(np.full(6, 0.3), size=5)
    gap = Chain(np.eye(5), weights @ levels, 0.5, law=RewardLaw(levels, sp.csr_array(weights))).reward_gap()
    for x, y in np.ndindex(5, 5):
        pairs = (weights[x, i] * weights[y, j] * abs(levels[i] - levels[j]) for i, j in np.ndindex(6, 6))
        assert gap[x, y] == pytest.approx(sum(pairs), abs=1e-14)


def test_the_error_holds_for_laws_that_are_given():
    """Against exact fractions, of the shares as they were given and scaled to sum to 1."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        levels, weights = np.sort(rng.normal(size=2000)), rng.dirichlet(np.full(2000, 0.05), size=2)
        law = RewardLaw(levels, sp.csr_array(weights))
        found = solve("mico", Chain(np.eye(2), weights @ levels, 0.0, law=law), reward="sampled")
        sums = [list(itertools.accumulate(map(Fraction, row))) for row in weights]
        steps = [Fraction(high) - Fraction(low) for low, high in itertools.pairwise(levels)]
        one, other = ([share / row[-1] for share in row[:-1]] for row in sums)
        gap = sum(s * (p * (1 - q) + q * (1 - p)) for s, p, q in zip(steps, one, other, strict=True))
        assert abs(Fraction(found.matrix[0, 1]) - gap) <= Fraction(found.error)
