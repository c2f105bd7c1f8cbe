"""What is refused as an MDP, a chain, a policy or another argument, and the words that say what and where."""

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import (
    MDP,
    Chain,
    Problem,
    from_map,
    garnet,
    load,
    make,
    optimal,
    random_policy,
    save,
    uniform_policy,
)
from mico.tabular.abstraction.bisimilarity import bisimulation_relation
from mico.tabular.abstraction.clustering import epsilon_cover
from mico.tabular.diagnostics import check_axioms, value_bound
from mico.tabular.sampling.online import Schedule, online_mico, online_state_action_mico
from mico.tabular.sampling.simulator import simulate

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


@pytest.mark.parametrize("reward", [[[1, 2], [3]], [["a", "b"], ["c", "d"]], None, [[10**400, 0], [0, 0]]])
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


GIVEN = MDP(KERNEL, REWARD, 0.9)
CHAIN = GIVEN.chain()
POLICY = np.full((2, 2), 0.5)


def online(seed, num_states=2):
    return online_mico(simulate(GIVEN, num_steps=9, seed=0), num_states, 0.9, Schedule(1), seed=seed)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: garnet(2.5, 2, seed=0), "num_states must be a whole number, not 2.5"),
        (lambda: garnet(3, 2, seed=None), "seed must be a whole number, not None"),
        (lambda: make("sparse-garnet", seed=0, levels=2.5), "levels must be a whole number, not 2.5"),
        (lambda: make("small-breakout", height="a"), "height must be a whole number, not 'a'"),
        (lambda: random_policy(GIVEN, seed="a"), "seed must be a whole number, not 'a'"),
        (lambda: simulate(GIVEN, num_steps=3, seed=-1), "seed must be at least 0, but is -1"),
        (lambda: online(seed=-1), "seed must be at least 0, but is -1"),
        (lambda: online(seed=0, num_states=4.5), "num_states must be a whole number, not 4.5"),
        (
            lambda: online_state_action_mico(simulate(GIVEN, num_steps=9, seed=0), POLICY, 0.9, Schedule(1), seed=-1),
            "seed must be at least 0, but is -1",
        ),
        (lambda: online_mico([0, 1], 2, 0.9, Schedule(1), seed=0), "transitions must be Transitions, not list"),
        (lambda: Problem(CHAIN), "mdp must be an MDP, not Chain"),
        (lambda: optimal(CHAIN), "mdp must be a Problem or an MDP, got a Chain"),
        (lambda: uniform_policy(CHAIN), "mdp must be a Problem or an MDP, got a Chain"),
        (lambda: random_policy(CHAIN, seed=0), "mdp must be a Problem or an MDP, got a Chain"),
        (
            lambda: make("four-rooms", foo=1),
            "option must be one that problem 'four-rooms' has, got 'foo': its options are goal",
        ),
        (lambda: make("four-rooms", discuont=0.5), "option must be .* got 'discuont': did you mean discount"),
        (lambda: make("garnet"), "seed must be given for problem 'garnet'. Seed of the random"),
        (lambda: from_map(5, discount=0.9), "text must be a map's text or its lines, not 5"),
        (lambda: from_map(["G.", 5], discount=0.9), r"text must be a map's text or its lines, not \['G.', 5\]"),
        (lambda: load(None), "path must be a path, not NoneType"),
        (lambda: save(None, Problem(GIVEN)), "path must be a path, not NoneType"),
        (lambda: save("it.json", GIVEN), "problem must be a Problem, not MDP"),
        (lambda: check_axioms(POLICY, "a"), "tolerance must be a number, not 'a'"),
        (lambda: bisimulation_relation(GIVEN, tolerance=None), "tolerance must be a number, not None"),
        (lambda: epsilon_cover(POLICY, radius="a"), "radius must be a number, not 'a'"),
        (lambda: epsilon_cover(POLICY, radius=np.array([1.0])), r"radius must be a number, not array\(\[1.\]\)"),
        (lambda: epsilon_cover(POLICY, radius=np.array(1j)), "radius must be a number, not array"),
        (lambda: epsilon_cover(POLICY, radius=np.array(-0.5)), "radius must be finite and not negative, but is -0.5"),
        (lambda: make("map", path=5), "path must be a path, not int"),
        (lambda: value_bound(["a"], [0.0]), "d must be an array of real numbers"),
        (lambda: value_bound(POLICY, [0.0]), r"value must have shape \[2\], got \[1\]"),
    ],
)
def test_arguments_of_another_kind_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", [0, 1, 0.25])
def test_arrays_without_axes_are_numbers(number):
    jax = pytest.importorskip("jax")
    line = np.abs(np.arange(4.0)[:, None] - np.arange(4.0))
    for scalar in (np.array(number), np.float32(number), jax.numpy.float32(number), jax.numpy.asarray(number)):
        assert epsilon_cover(line, radius=scalar).partition == epsilon_cover(line, radius=number).partition
        assert bisimulation_relation(GIVEN, tolerance=scalar) == bisimulation_relation(GIVEN, tolerance=number)
        assert check_axioms(line, scalar) == check_axioms(line, number)
