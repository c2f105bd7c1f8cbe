"""MDPs and chains: what is accepted, what is refused and with which words, and the numbers that follow."""

import itertools

import jaxtyping
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from strategies import mdps, sparse

from mico.tabular import MDP, Chain, Outcomes

KERNEL = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
REWARD = np.array([[1.0, -2.0], [0.0, 4.0]])

storage = pytest.mark.parametrize("stored", ["dense", "sparse"])


def kernel(changes, stored="sparse"):
    """The kernel with some entries replaced, as an array or as one sparse matrix an action."""
    changed = KERNEL.copy()
    for spot, number in changes.items():
        changed[spot] = number
    return changed if stored == "dense" else [sp.csr_array(changed[:, action]) for action in range(2)]


@pytest.fixture
def unchecked():
    """Without the types that are checked while the tests run, as users have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@storage
def test_shapes(stored):
    mdp = MDP(kernel({}, stored), REWARD, 0.9)
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
    with pytest.raises(ValueError, match="sums to 0.99999"):
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
        ([["a", "b"], ["c", "d"]], "policy must be an array of numbers"),
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


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_value_of_a_large_sparse_chain(scale):
    """A random walk on a ring that drifts, with one reward; by sweeps from zero."""
    size, discount = 30_000, 0.95
    here = np.arange(size)
    columns = np.concatenate([(here + 1) % size, (here + 2) % size, here // 2])
    weight = np.repeat([0.5, 0.3, 0.2], size)
    walk = sp.csr_array((weight, (np.tile(here, 3), columns)), shape=(size, size))
    reward = scale * np.sin(here)
    value = np.zeros(size)
    for _ in range(700):
        value = reward + discount * (walk @ value)
    np.testing.assert_allclose(Chain(walk, reward, discount).value(), value, rtol=0, atol=1e-10 * scale)


@storage
def test_rewards_of_transitions_are_averaged(stored):
    prices = np.random.default_rng(0).normal(size=(2, 2, 2))
    given_prices = prices if stored == "dense" else [sp.csr_array(prices[:, action]) for action in range(2)]
    mdp = MDP(kernel({}, stored), given_prices, 0.9)
    for x, a in itertools.product(range(2), range(2)):
        assert mdp.reward[x, a] == pytest.approx(sum(KERNEL[x, a, y] * prices[x, a, y] for y in range(2)))


@pytest.mark.parametrize("priced", ["dense", "sparse"])
@storage
def test_every_mix_of_dense_and_sparse_rewards_and_transitions(stored, priced):
    prices = np.array([[[1.0, 0.0], [2.0, 9.0]], [[9.0, 0.0], [3.0, -1.0]]])
    given_prices = prices if priced == "dense" else [sp.csr_array(prices[:, action]) for action in range(2)]
    mdp = MDP(kernel({}, stored), given_prices, 0.9)
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
    np.testing.assert_array_equal(levels, [-2, 0, 1, 4])
    np.testing.assert_allclose(weights.toarray(), [[0.75, 0, 0.25, 0], [0, 1, 0, 0]])


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
def test_outcomes_with_states_that_are_no_integers():
    both = np.array([0, 1])
    outcomes = Outcomes(both * 1.0, np.zeros(2, dtype=int), both, np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match="state must hold integers, not float64"):
        MDP.from_outcomes(outcomes, 2, 1, 0.9)


@storage
def test_arrays_are_read_only_copies(stored):
    transition, reward = kernel({}, stored), REWARD.copy()
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
