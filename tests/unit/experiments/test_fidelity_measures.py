"""Measures of agreement against naive loops, SciPy and cases by hand."""

import numpy as np
import pytest
from scipy import stats

from mico.experiments.fidelity_measures import Sample, agreement, neighbours_kept, sample
from mico.tabular import factored_mico, make, solve


@pytest.fixture
def looked():
    return Sample(np.array([3, 0, 7]), np.array([5, 3, 1, 0, 2, 8, 7]), 4)


def drawn(seed, ties):
    rng = np.random.default_rng(seed)
    found, exact = rng.random((2, 3, 7))
    return found, np.round(exact * 4) / 4 if ties else exact


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_errors_are_those_of_pairs_of_two_states(looked, seed, ties):
    found, exact = drawn(seed, ties)
    pairs = [(i, j) for i in range(3) for j in range(4) if looked.states[i] != looked.others[j]]
    assert len(pairs) == 10
    one, other = ([block[pair] for pair in pairs] for block in (found, exact))
    measured = agreement(found, exact, looked, count=2, tolerance=1e-9)
    assert measured["rank"] == pytest.approx(stats.spearmanr(one, other).statistic)
    off = np.sqrt(sum((a - b) ** 2 for a, b in zip(one, other)) / sum(b**2 for b in other))
    assert measured["error"] == pytest.approx(off)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_kept_by_brute_force(looked, seed, ties):
    found, exact = drawn(seed, ties)
    right = 0
    for i in range(3):
        there = [j for j in range(7) if looked.others[j] != looked.states[i]]
        near = sorted(there, key=lambda j: found[i, j])[:2]
        limit = sorted(exact[i, j] for j in there)[1]
        right += sum(exact[i, j] <= limit for j in near)
    assert agreement(found, exact, looked, count=2, tolerance=1e-9)["kept"] == pytest.approx(right / 6)


def test_what_is_equally_near_is_as_good():
    exact = np.array([[0.0, 1.0, 1.0 + 1e-8, 2.0]])
    found = np.array([[0.0, 3.0, 1.0, 2.0]])
    assert neighbours_kept(found, exact, count=2, tolerance=1e-6) == 1.0
    assert neighbours_kept(found, exact, count=2, tolerance=1e-9) == 0.5
    assert neighbours_kept(found, exact, count=3, tolerance=1e-9) == pytest.approx(2 / 3)


def test_differences_below_the_tolerance_are_ties(looked):
    """Noise below the tolerance on equal distances has no ranks; a constant distance tells nothing."""
    rng = np.random.default_rng(0)
    exact = np.repeat([[1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0]], 3, axis=0)
    ways = {"count": 2, "tolerance": 1e-3}
    noisy = agreement(exact, exact + 1e-5 * rng.normal(size=exact.shape), looked, **ways)
    assert noisy["rank"] == pytest.approx(1.0)
    assert agreement(np.ones((3, 7)), exact, looked, **ways)["rank"] == 0.0


def test_the_exact_distance_agrees_with_itself_whatever_its_unit(looked):
    _, exact = drawn(0, ties=False)
    ways = {"count": 2, "tolerance": 1e-9}
    assert agreement(exact, exact, looked, **ways) == {"rank": pytest.approx(1), "kept": 1.0, "error": 0.0}
    tripled = agreement(3 * exact, exact, looked, **ways)
    assert tripled == {"rank": pytest.approx(1), "kept": 1.0, "error": pytest.approx(2.0)}


@pytest.mark.parametrize("metric", ["mico", "reduced-mico"])
def test_exact_blocks_are_those_of_the_dense_solution(metric):
    mdp = make("sparse-garnet", seed=0, num_states=9).mdp
    looked = sample(9, states=4, others=6, pairs=8, seed=1)
    dense = solve(metric, mdp, "uniform").matrix
    block = looked.exact(factored_mico(mdp.chain(), tolerance=1e-8).factors, metric)
    for i, x in enumerate(looked.states):
        for j, y in enumerate(looked.others):
            assert block[i, j] == pytest.approx(dense[x, y], abs=1e-7)


@pytest.mark.parametrize(
    ("size", "asked", "got"), [(1000, (10, 200, 501), (10, 200, 51)), (50, (100, 200, 20_000), (50, 50, 50))]
)
def test_samples_are_of_different_states(size, asked, got):
    states, others, pairs = asked
    looked = sample(size, states=states, others=others, pairs=pairs, seed=0)
    assert (len(set(looked.states)), len(set(looked.others)), looked.ranked) == got
    assert max(looked.states.max(), looked.others.max()) < size
    assert not np.array_equal(looked.states[:10], looked.others[:10])
