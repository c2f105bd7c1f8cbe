"""MDPs and chains: what is accepted, what is refused and with which words, and the numbers that follow."""

import itertools
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from mico.tabular import MDP, Chain
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
