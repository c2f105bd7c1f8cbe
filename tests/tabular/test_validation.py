"""What is refused as an MDP, a chain or a policy, dense and sparse, and the words that say what and where."""

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import MDP, Chain

KERNEL = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
REWARD = np.array([[1.0, -2.0], [0.0, 4.0]])

storage = pytest.mark.parametrize("stored", ["dense", "sparse"])


def kernel(changes, stored="sparse"):
    """The kernel with some entries replaced, as an array or as one sparse matrix an action."""
    changed = KERNEL.copy()
    for spot, number in changes.items():
        changed[spot] = number
    return changed if stored == "dense" else [sp.csr_array(changed[:, action]) for action in range(2)]


@storage
@pytest.mark.parametrize(
    ("spot", "number", "message"),
    [
        ((1, 0, 0), 0.25, "transition of state 1, action 0 sums to 1.25, not to 1"),
        ((0, 1, 0), 0.0, "transition of state 0, action 1 sums to 0, not to 1"),
        ((1, 1, 0), -0.25, r"transition of state 1, action 1, at state 0, is -0.25: negative"),
        ((0, 0, 1), np.nan, "transition of state 0, action 0, at state 1, is nan: not finite"),
        ((1, 0, 1), np.inf, "transition of state 1, action 0, at state 1, is inf: not finite"),
    ],
)
def test_rows_that_are_no_distributions(stored, spot, number, message):
    with pytest.raises(ValueError, match=message):
        MDP(kernel({spot: number}, stored), REWARD, 0.9)


@pytest.mark.parametrize("matrix", [np.array, sp.csr_array, sp.csc_array, sp.coo_matrix])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 0], [0.5, 0.4]], "transition of state 1 sums to 0.9, not to 1"),
        ([[1, 0], [1.5, -0.5]], "transition of state 1, at state 1, is -0.5: negative"),
        ([[1, np.nan], [0, 1]], "transition of state 0, at state 1, is nan: not finite"),
        ([[1, 0], [-np.inf, 1]], "transition of state 1, at state 0, is -inf: not finite"),
        ([[1, 0, 0], [0, 1, 0]], r"transition must have shape \[S, S\], but has \[2, 3\]"),
    ],
)
def test_chains_that_are_none(matrix, rows, message):
    with pytest.raises(ValueError, match=message):
        Chain(matrix(rows), [0.0, 0.0], 0.9)


def test_a_sum_that_is_off_by_rounding_is_put_right():
    third = np.round(1 / 3, 7)
    for rows in (np.full((3, 3), third), sp.csr_array(np.full((3, 3), third))):
        chain = Chain(rows, np.zeros(3), 0.9)
        np.testing.assert_allclose(chain.dense_transition().sum(axis=1), 1, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"sums to 0\.99999"):
        Chain(np.full((3, 3), 0.33333), np.zeros(3), 0.9)


def test_duplicate_and_explicit_zero_entries_of_a_sparse_matrix():
    entries = sp.coo_array(([0.5, 0.25, 0.25, 1.0, 0.0], ([0, 0, 0, 1, 1], [0, 1, 1, 1, 0])), shape=(2, 2))
    chain = Chain(entries, [1.0, 2.0], 0.5)
    np.testing.assert_array_equal(chain.dense_transition(), [[0.5, 0.5], [0, 1]])
    assert chain.transition.nnz == 3


@pytest.mark.parametrize("discount", [-0.1, 1.0, 1.5, np.nan, np.inf, -np.inf])
def test_discounts_out_of_range(discount):
    for build in (lambda: MDP(KERNEL, REWARD, discount), lambda: Chain(np.eye(2), [0, 0], discount)):
        with pytest.raises(ValueError, match=rf"discount must lie in \[0, 1\), but is {discount}"):
            build()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("discount", [None, "much", [0.9, 0.9], 0.5 + 0.5j])
def test_discounts_that_are_no_numbers(discount):
    for build in (lambda: MDP(KERNEL, REWARD, discount), lambda: Chain(np.eye(2), [0, 0], discount)):
        with pytest.raises(ValueError, match=r"discount must be a number in \[0, 1\), not"):
            build()


@storage
@pytest.mark.parametrize("shape", [(2,), (2, 1), (3, 2), (2, 2, 1), (2, 3, 2), (3, 2, 3), (1, 2, 2, 2)])
def test_rewards_of_another_shape(stored, shape):
    with pytest.raises(ValueError, match=r"reward has shape \[.*\], but transition asks for \[2, 2"):
        MDP(kernel({}, stored), np.zeros(shape), 0.9)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite(number):
    reward = REWARD.copy()
    reward[1, 0] = number
    with pytest.raises(ValueError, match=rf"reward\[1, 0\] = {number} is not finite"):
        MDP(KERNEL, reward, 0.9)
    priced = np.zeros((2, 2, 2))
    priced[0, 1, 1] = number
    with pytest.raises(ValueError, match=rf"reward\[0, 1, 1\] = {number} is not finite"):
        MDP(KERNEL, priced, 0.9)
    with pytest.raises(ValueError, match=r"reward.*is not finite"):
        MDP(kernel({}), [sp.csr_array(priced[:, action]) for action in range(2)], 0.9)
    with pytest.raises(ValueError, match=r"reward\[1\] = .* is not finite"):
        Chain(np.eye(2), [0.0, number], 0.9)


@pytest.mark.parametrize("reward", [[[1, 2], [3]], [["a", "b"], ["c", "d"]], None])
def test_rewards_that_are_no_arrays_of_numbers(reward):
    with pytest.raises(ValueError, match="reward"):
        MDP(KERNEL, reward, 0.9)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="reward"):
        MDP(KERNEL, REWARD * (1 + 1j), 0.9)


@pytest.mark.parametrize("transition", [[], np.zeros((0, 2, 0)), np.zeros((2, 0, 2)), [sp.csr_array((0, 0))]])
def test_empty_mdps(transition):
    with pytest.raises(ValueError, match="transition is empty: an MDP needs at least one state and one action"):
        MDP(transition, np.zeros((0, 0)), 0.9)


def test_empty_chains():
    for rows in (np.zeros((0, 0)), sp.csr_array((0, 0))):
        with pytest.raises(ValueError, match="transition is empty: a chain needs at least one state"):
            Chain(rows, [], 0.9)


@pytest.mark.parametrize("transition", [np.ones(2), np.eye(2), np.full((2, 2, 3), 1 / 3), "kernel", [[1, 2], [3]]])
def test_transitions_of_another_shape(transition):
    with pytest.raises(ValueError, match="transition must"):
        MDP(transition, REWARD, 0.9)


def test_sparse_kernels_of_different_sizes():
    with pytest.raises(ValueError, match=r"transition of action 1 has shape \[3, 3\], not \[2, 2\]"):
        MDP([sp.eye_array(2), sp.eye_array(3)], REWARD, 0.9)
    with pytest.raises(ValueError, match=r"transition of action 0 has shape \[2, 3\]"):
        MDP([sp.csr_array((2, 3))], REWARD, 0.9)


@storage
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("greedy", "policy must be 'uniform' or an array .*, not 'greedy'"),
        ([[1, 0]], r"policy has shape \[1, 2\], but the MDP asks for \[2, 2\]"),
        ([[1, 0], [0.5, 0.4]], "policy of state 1 sums to 0.9, not to 1"),
        ([[1.5, -0.5], [0, 1]], "policy of state 0, at action 1, is -0.5: negative"),
        ([[1, 0], [np.nan, 1]], "policy of state 1, at action 0, is nan: not finite"),
        ([["a", "b"], ["c", "d"]], "policy must be an array of real numbers"),
    ],
)
def test_policies_that_are_none(stored, policy, message):
    mdp = MDP(kernel({}, stored), REWARD, 0.9)
    for use in (mdp.chain, mdp.lifted):
        with pytest.raises(ValueError, match=message):
            use(policy)


@pytest.mark.usefixtures("unchecked")
def test_unknown_kind_of_reward():
    with pytest.raises(ValueError, match="reward must be 'mean' or 'sampled', not 'median'"):
        MDP(KERNEL, REWARD, 0.9).chain(reward="median")
