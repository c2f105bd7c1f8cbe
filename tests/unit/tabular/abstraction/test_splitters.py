"""The compiled refinement against the rounds by NumPy, which `test_bisimilarity` holds to naive loops."""

import itertools

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mico.tabular.abstraction import _splitters, bisimilarity
from mico.tabular.abstraction.bisimilarity import bisimulation_relation, policy_bisimulation_relation
from mico.tabular.abstraction.partition import Partition, quotient
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP

SEEDS = st.integers(0, 2**32 - 1)


def by_rounds(mdp, tolerance):
    kernels = sp.vstack([sp.csr_array(kernel) for kernel in mdp.kernels], format="csr")
    return Partition.from_labels(bisimilarity._refine(kernels, mdp.relative, tolerance))


def by_splitters(mdp, tolerance):
    kernels = [sp.csr_array(kernel) for kernel in mdp.kernels]
    return Partition.from_labels(_splitters.refine(kernels, mdp.relative, tolerance))


def chain_of(rows, reward):
    return Chain(sp.csr_array(rows), np.asarray(reward, dtype=float), 0.9)


def coarse(rng, states, actions, steps, levels):
    """Rewards in eighths and probabilities in `steps`-ths: few distinct values, many of them a step apart."""
    counts = rng.multinomial(steps, rng.dirichlet(np.full(states, 0.1)), size=(states, actions))
    return MDP(counts / steps, rng.integers(levels, size=(states, actions)) / 8, 0.9)


def lumped(rng, states, copies, actions, levels):
    """Copies of the states of a random MDP in any order, among which probabilities are split at random."""
    base = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
    reward = rng.integers(levels, size=(states, actions)).astype(float)
    origin = rng.permutation(np.repeat(np.arange(states), copies))
    share = rng.random((origin.size, actions, origin.size))
    for state in range(states):
        share[:, :, origin == state] /= share[:, :, origin == state].sum(axis=2, keepdims=True)
    return MDP(base[origin][:, :, origin] * share, reward[origin], 0.9), Partition.from_labels(origin)


@settings(max_examples=300)
@given(
    SEEDS,
    st.integers(2, 60),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4, 8, 64]),
    st.sampled_from([1, 2, 3, 24]),
    st.sampled_from([0.0, 1e-9, 1 / 64, 0.125, 0.25, 0.375]),
)
def test_same_classes_as_by_rounds(seed, states, actions, steps, levels, tolerance):
    mdp = coarse(np.random.default_rng(seed), states, actions, steps, levels)
    assert by_splitters(mdp, tolerance) == by_rounds(mdp, tolerance)


@settings(max_examples=150)
@given(SEEDS, st.integers(2, 12), st.integers(1, 6), st.integers(1, 3), st.sampled_from([1e-10, 1e-9, 1e-7]))
def test_lumped_models_by_rounds(seed, states, copies, actions, tolerance):
    """With two rewards only, most states are told apart by where they move to."""
    mdp, origin = lumped(np.random.default_rng(seed), states, copies, actions, levels=2)
    found = by_splitters(mdp, tolerance)
    assert found == by_rounds(mdp, tolerance)
    assert found.num_classes <= origin.num_classes


@given(SEEDS, st.sampled_from([1e-3, 3e-3, 1e-2, 3e-2]))
def test_long_chains_of_near_values(seed, tolerance):
    """Forty states whose probabilities are spread over [0, 1]: the gaps are now above, now below the tolerance."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((42, 42))
    rows[:40, 40] = np.round(rng.random(40), 3)
    rows[np.arange(40), rng.integers(40, size=40)] += 1 - rows[:40, 40]
    rows[40, 41] = rows[41, 41] = 1.0
    mdp = MDP([sp.csr_array(rows)], np.r_[np.zeros(40), 1.0, 2.0][:, None], 0.9)
    assert by_splitters(mdp, tolerance) == by_rounds(mdp, tolerance)


@given(SEEDS)
def test_no_class_of_the_result_has_a_wide_gap(seed):
    rng = np.random.default_rng(seed)
    mdp = MDP(rng.dirichlet(np.full(30, 0.2), size=(30, 2)), rng.random((30, 2)), 0.9)
    tolerance = 0.2
    found = by_splitters(mdp, tolerance)
    for a, kernel in enumerate(mdp.kernels):
        features = np.column_stack([mdp.reward[:, a], kernel @ found.membership.toarray()])
        for number in range(found.num_classes):
            gaps = np.diff(np.sort(features[found.members(number)], axis=0), axis=0)
            assert (gaps <= tolerance + 1e-12).all()


def test_the_largest_part_is_looked_at_where_small_differences_add_up():
    """x and y move into {u, v} and into {w} with .1 more and .1 less, and into {v} with .2 less than each other.

    {u, v, w} is one class first, into which both move alike; {w} and {v}, by whose rewards they leave it, are the
    smaller parts. The largest is {u}, and it alone parts x and y at a tolerance of .15.
    """
    x, y, u1, u2, u3, w1, w2, v1, k, g = range(10)
    rows = np.zeros((10, 10))
    rows[x, [u1, w1, v1]] = 0.2, 0.4, 0.4
    rows[y, [u2, w2, v1]] = 0.4, 0.3, 0.3
    rows[[u1, u2, u3, w1, w2, v1, k, g], [k, k, k, g, g, x, k, g]] = 1.0
    mdp = MDP([sp.csr_array(rows)], [[0.0], [0.0], *[[1.0]] * 6, [2.0], [3.0]], 0.9)
    found = by_splitters(mdp, 0.15)
    assert found.block.tolist() == [0, 1, 2, 2, 2, 3, 3, 4, 5, 6]
    assert found == by_rounds(mdp, 0.15)


def test_gaps_are_those_of_the_class_at_the_beginning_of_the_round():
    """x, y and z move into {e1, e2} with 0, .2 and .1, which z bridges, whether or not it has been cut off before.

    After the round e1 and e2 are classes of their own, into which x and y move with 0 and .1: less than the tolerance.
    """
    x, y, z, d, e1, e2, f1, f2, g = range(9)
    rows = np.zeros((9, 9))
    rows[x, [f1, f2, g]] = 0.1, 0.1, 0.8
    rows[y, [e1, e2, g]] = 0.1, 0.1, 0.8
    rows[z, [e1, e2, f1, f2, d, g]] = 0.05, 0.05, 0.05, 0.05, 0.5, 0.3
    rows[[d, e1, f1], d] = rows[[e2, f2, g], g] = 1.0
    reward = np.array([0.0, 0, 0, 1, 2, 2, 3, 3, 4])
    rng = np.random.default_rng(0)
    for _ in range(20):  # the order of the states is that of the splitters
        order = rng.permutation(9)
        mdp = MDP([sp.csr_array(rows[np.ix_(order, order)])], reward[order, None], 0.9)
        expected = Partition.from_labels(np.array([0, 0, 1, 2, 3, 4, 5, 6, 7])[order])
        assert by_splitters(mdp, 0.15) == by_rounds(mdp, 0.15) == expected


def test_a_corridor_has_as_many_rounds_as_states():
    """A sweep over all states in each of 200,000 rounds would take hours."""
    size = 200_000
    ahead = np.minimum(np.arange(size) + 1, size - 1)
    rows = sp.csr_array((np.ones(size), (np.arange(size), ahead)))
    found = policy_bisimulation_relation(chain_of(rows, np.arange(size) == size - 1), tolerance=1e-9)
    assert found.num_classes == size


def test_an_open_grid_folds_along_its_diagonal():
    size = 60
    cell = np.arange(size * size).reshape(size, size)
    padded = np.pad(cell, 1, mode="edge")
    moves = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
    target = np.concatenate([move.ravel() for move in moves])
    rows = sp.csr_array((np.full(target.size, 0.25), (np.tile(cell.ravel(), 4), target)))
    chain = chain_of(rows, cell.ravel() == 0)
    found = policy_bisimulation_relation(chain, tolerance=1e-9)
    assert found == Partition.from_labels(np.minimum(cell, cell.T).ravel())
    small = quotient(chain, found)
    np.testing.assert_allclose(found.lift(small.value()), chain.value(), atol=1e-9)


def test_actions_are_told_apart_in_large_models():
    """Of a ring the mirror image swaps the two actions: without labels half as many classes."""
    size = 3_000
    step = np.arange(size)
    ahead, back = (sp.csr_array((np.ones(size), (step, np.roll(step, shift)))) for shift in (-1, 1))
    mdp = MDP([ahead, back], np.repeat((step == 0)[:, None], 2, axis=1), 0.9)
    assert bisimulation_relation(mdp, tolerance=1e-9).num_classes == size
    assert policy_bisimulation_relation(mdp, tolerance=1e-9).num_classes == size // 2 + 1


def test_sums_that_differ_by_rounding_alone_at_tolerance_zero():
    """x and y move into {u1, u2, u3} with .1 + .2 + .3 and with .3 + .2 + .1, which differ in the last bit."""
    rows = np.zeros((7, 7))
    rows[0, 2:6] = 0.1, 0.2, 0.3, 0.4
    rows[1, 2:6] = 0.3, 0.2, 0.1, 0.4
    rows[2:, 6] = 1.0
    mdp = MDP([sp.csr_array(rows)], np.array([0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 3.0])[:, None], 0.9)
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert by_splitters(mdp, 0.0) == by_rounds(mdp, 0.0)
    assert by_splitters(mdp, 1e-15).block.tolist() == [0, 0, 1, 1, 1, 2, 3]


def test_rows_whose_sums_differ_in_the_last_bit_at_tolerance_zero():
    rows = np.eye(6)
    rows[:2] = [0, 0, 0.5, 0, 0, 0.5], [0, 0, 0.5, 2.0**-52, 0, 0.5]
    reward = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 2.0])[:, None]  # the largest class is the one with reward 1
    found = Partition.from_labels(_splitters.refine([sp.csr_array(rows)], reward, 0.0))
    assert found == Partition.from_labels(bisimilarity._refine(sp.csr_array(rows), reward, 0.0))
    assert found.block.tolist() == [0, 1, 2, 2, 2, 3]


def test_exact_sums_are_recognised():
    def survey(rows):
        kernel = sp.csr_array(rows)
        return _splitters._survey(kernel.indptr, kernel.data)

    assert survey([[0.25, 0.75], [0.0, 1.0]]) == (0.0, 0.0)
    assert survey([[0.25, 0.75], [0.0, 1.0 + 2.0**-52]]) == (2.0**-52, 0.0)
    spread, rounding = survey([[0.1, 0.9], [0.0, 1.0]])
    assert spread < 2e-16 < rounding < 1e-14


def test_many_distinct_values_are_sorted():
    rng = np.random.default_rng(1)
    for distinct, size in itertools.product((2, 50, 10**9), (1, 2, 15, 16, 17, 33, 2000)):
        value = rng.integers(distinct, size=2000).astype(float)
        member = rng.permutation(2000)[:size].astype(np.int32)
        expected = np.sort(value[member])
        found = member.copy()
        states = np.zeros(2000, dtype=_splitters._STATE)
        states["value"] = value
        lists = np.empty(2000), np.empty((64, 2), dtype=np.int64)
        _splitters._sort(found, states, (found, found, found, found, *lists))
        assert sorted(found) == sorted(member)
        np.testing.assert_array_equal(value[found], expected)
