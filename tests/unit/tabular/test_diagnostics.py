"""Axioms and the bound on values: by hand, by loops and by laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov
from scipy.spatial.distance import cdist

from mico.tabular import make, solve
from mico.tabular.diagnostics import AXIOMS, KINDS, check_axioms, value_bound

SEEDS = st.integers(0, 2**32 - 1)
METRIC = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.5], [2.0, 1.5, 0.0]])


def changed(entries):
    """A metric on three points with some entries replaced, both ways round."""
    d = METRIC.copy()
    for (x, y), value in entries.items():
        d[x, y] = d[y, x] = value
    return d


def failing(d):
    return {name for name, violation in check_axioms(d).axioms.items() if not violation.holds}


def test_a_metric_is_of_every_kind():
    report = check_axioms(METRIC)
    assert failing(METRIC) == set()
    assert report.is_metric
    assert report.is_pseudometric
    assert report.is_partial_metric
    assert report.is_diffuse_metric


def test_negative_distance():
    d = -1.0 * (1 - np.eye(2))
    violation = check_axioms(d).axioms["non-negativity"]
    assert (violation.excess, violation.states) == (1.0, (0, 1))
    assert not check_axioms(d).is_diffuse_metric


def test_asymmetry():
    d = METRIC.copy()
    d[2, 1] = 1.75
    report = check_axioms(d)
    assert report.axioms["symmetry"].excess == 0.25
    assert set(report.axioms["symmetry"].states) == {1, 2}
    assert failing(d) == {"symmetry"}
    assert report.kinds == ()


def test_self_distance_leaves_a_partial_metric():
    d = changed({(1, 1): 0.5})
    report = check_axioms(d)
    assert (report.axioms["zero-self-distance"].excess, report.axioms["zero-self-distance"].states) == (0.5, (1,))
    assert failing(d) == {"zero-self-distance"}
    assert report.kinds == ("partial-metric", "diffuse-metric")


def test_two_states_at_distance_zero_leave_a_pseudometric():
    d = changed({(0, 1): 0.0, (0, 2): 1.5})
    report = check_axioms(d)
    for name in ("identity-of-indiscernibles", "separation"):
        assert report.axioms[name].excess == 0.0
        assert set(report.axioms[name].states) == {0, 1}
    assert failing(d) == {"identity-of-indiscernibles", "separation"}
    assert report.kinds == ("pseudometric", "diffuse-metric")


def test_triangle():
    d = changed({(0, 2): 3.0})
    report = check_axioms(d)
    assert report.axioms["triangle"].excess == 0.5
    assert report.axioms["triangle"].states in {(0, 2, 1), (2, 0, 1)}
    assert failing(d) == {"triangle", "modified-triangle"}
    assert report.kinds == ()


def test_large_self_distance():
    d = changed({(0, 0): 1.25})
    report = check_axioms(d)
    assert (report.axioms["small-self-distance"].excess, report.axioms["small-self-distance"].states) == (0.25, (0, 1))
    assert report.is_diffuse_metric
    assert not report.is_partial_metric


def test_separation_needs_all_three_to_agree():
    same = np.ones((2, 2))
    assert not check_axioms(same).axioms["separation"].holds
    assert check_axioms(same).axioms["identity-of-indiscernibles"].holds
    apart = np.array([[1.0, 1.0], [1.0, 0.75]])
    assert check_axioms(apart).axioms["separation"].excess == -0.25
    assert check_axioms(apart).is_partial_metric


def test_lukaszyk_karmowski_is_diffuse_but_not_partial():
    d = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0.5, 0.5, 0.5]])
    report = check_axioms(d)
    assert report.kinds == ("diffuse-metric",)
    assert report.axioms["modified-triangle"].excess == 0.5
    assert report.axioms["modified-triangle"].states in {(0, 1, 2), (1, 0, 2)}


def test_reduced_mico_breaks_the_triangle_inequality():
    upper = np.array([[0, 2.25, 2.25, 3.25], [0, 0, 0, 10], [0, 0, 0, 10], [0, 0, 0, 0]])
    worst = check_axioms(upper + upper.T).axioms["triangle"]
    assert worst.excess == 4.5
    assert worst.states[2] == 0


@given(SEEDS)
def test_euclidean_distances_are_a_metric(seed):
    points = np.random.default_rng(seed).normal(size=(12, 3))
    assert check_axioms(cdist(points, points)).is_metric


@given(SEEDS)
def test_squared_euclidean_distances_break_the_triangle_at_the_worst_triple(seed):
    points = np.random.default_rng(seed).normal(size=(8, 2))
    d = cdist(points, points, "sqeuclidean")
    naive = {(x, y, z): d[x, y] - d[x, z] - d[z, y] for x, y, z in itertools.product(range(8), repeat=3)}
    report = check_axioms(d)
    worst = report.axioms["triangle"]
    assert worst.excess == pytest.approx(max(naive.values()), abs=1e-12)
    assert naive[worst.states] == pytest.approx(worst.excess, abs=1e-12)
    assert worst.excess > 0
    assert failing(d) == {"triangle", "modified-triangle"}


@given(SEEDS)
def test_every_worst_case_by_naive_loops(seed):
    d = np.random.default_rng(seed).normal(size=(5, 5))
    pairs, triples = list(itertools.product(range(5), repeat=2)), list(itertools.product(range(5), repeat=3))
    expected = {
        "non-negativity": {(x, y): -d[x, y] for x, y in pairs},
        "symmetry": {(x, y): abs(d[x, y] - d[y, x]) for x, y in pairs},
        "zero-self-distance": {(x,): abs(d[x, x]) for x in range(5)},
        "identity-of-indiscernibles": {(x, y): -abs(d[x, y]) for x, y in pairs if x != y},
        "triangle": {(x, y, z): d[x, y] - d[x, z] - d[z, y] for x, y, z in triples},
        "small-self-distance": {(x, y): d[x, x] - d[x, y] for x, y in pairs},
        "modified-triangle": {(x, y, z): d[x, y] - d[x, z] - d[z, y] + d[z, z] for x, y, z in triples},
        "separation": {(x, y): -np.ptp([d[x, x], d[y, y], d[x, y]]) for x, y in pairs if x != y},
    }
    found = check_axioms(d).axioms
    assert set(found) == set(expected) == set(AXIOMS)
    for name, values in expected.items():
        assert found[name].excess == pytest.approx(max(values.values()), abs=1e-12)
        assert values[found[name].states] == pytest.approx(found[name].excess, abs=1e-12)


@given(SEEDS)
def test_a_partial_metric_less_its_self_distances_is_a_metric(seed):
    low, length = np.random.default_rng(seed).random((2, 7))
    high = low + length
    hull = np.maximum(high[:, None], high) - np.minimum(low[:, None], low)  # Matthews' distance of intervals
    assert check_axioms(hull).is_partial_metric
    assert not check_axioms(hull).is_pseudometric
    own = np.diag(hull)
    assert check_axioms(hull - (own[:, None] + own) / 2).is_metric


@given(SEEDS, st.sampled_from([0.0, 0.5, 0.95]))
def test_mico_is_diffuse(seed, discount):
    rng = np.random.default_rng(seed)
    transition, reward = rng.dirichlet(np.ones(5), size=5), rng.random(5)
    gap = np.abs(reward[:, None] - reward)
    report = check_axioms(solve_discrete_lyapunov(np.sqrt(discount) * transition, gap), tolerance=1e-9)
    assert report.is_diffuse_metric
    assert report.is_pseudometric == (discount == 0)


def test_tolerance_decides():
    d = changed({(0, 2): 2.5 + 1e-6})
    assert check_axioms(d, tolerance=1e-5).is_metric
    assert not check_axioms(d, tolerance=1e-7).is_metric
    close = changed({(0, 1): 1e-6})
    assert check_axioms(close, tolerance=1e-7).axioms["identity-of-indiscernibles"].holds
    assert not check_axioms(close, tolerance=1e-5).axioms["identity-of-indiscernibles"].holds


def test_one_state():
    assert check_axioms([[0.0]]).kinds == tuple(KINDS)
    assert check_axioms([[2.0]]).kinds == ("partial-metric", "diffuse-metric")


def test_report_reads():
    lines = str(check_axioms(changed({(0, 2): 3.0}))).splitlines()
    assert lines[0] == "kinds: none (tolerance 1e-09)"
    assert len(lines) == 1 + len(AXIOMS)
    (line,) = (line for line in lines if " triangle:" in line)
    assert line == "fails  triangle: d(x,y) <= d(x,z) + d(z,y); worst +0.5 at x=0, y=2, z=1"


def test_kinds_name_axioms():
    assert {name for names in KINDS.values() for name in names} == set(AXIOMS)


@pytest.mark.parametrize(
    ("d", "message"),
    [
        (np.zeros((2, 3)), r"d must have shape \[S, S\], but has \[2, 3\]"),
        (np.zeros(4), r"d must have shape \[S, S\], but has \[4\]"),
        (np.zeros((0, 0)), "d is empty"),
        ([[0.0, np.nan], [1.0, 0.0]], r"d\[0, 1\] = nan is not finite"),
        ([[0.0, 1.0], [np.inf, 0.0]], r"d\[1, 0\] = inf is not finite"),
        ("metric", "d must be an array of real numbers"),
    ],
)
def test_bad_distances(d, message):
    with pytest.raises(ValueError, match=message):
        check_axioms(d)


@pytest.mark.parametrize("tolerance", [-1e-9, np.nan, np.inf])
def test_bad_tolerance(tolerance):
    with pytest.raises(ValueError, match="tolerance must be finite and not negative"):
        check_axioms(METRIC, tolerance=tolerance)


@pytest.mark.parametrize(
    ("metric", "broken", "mean_gap"),
    [("mico", 0.0, 360 / 341 / 4), ("reduced-mico", 0.5, (40 / 31 - 20 / 11) / 2)],
)
def test_the_papers_two_states(metric, broken, mean_gap):
    """U exceeds the gap 20/11 by nothing and U(x, x) = 360/341; ΠU = 40/31 is below it for two of the four pairs."""
    mdp = make("two-state").mdp
    solution = solve(metric, mdp)
    found = value_bound(solution.matrix, mdp.chain().value(), error=solution.error)
    assert found == pytest.approx((broken, mean_gap), abs=1e-9)


@given(seed=st.integers(0, 10**6))
def test_equals_loops_over_pairs(seed):
    rng = np.random.default_rng(seed)
    d, value = rng.random((5, 5)), rng.random(5)
    gaps = [d[x, y] - abs(value[x] - value[y]) for x in range(5) for y in range(5)]
    found = value_bound(d, value, error=0.1)
    assert found.broken == sum(gap < -0.1 - 1e-9 for gap in gaps) / 25
    assert found.mean_gap == pytest.approx(sum(gaps) / 25)


def test_the_error_of_the_distance_is_no_broken_bound():
    value, d = [0.0, 1.0], [[0.0, 0.9], [0.9, 0.0]]
    assert value_bound(d, value).broken == 0.5
    assert value_bound(d, value, error=0.11).broken == 0.0
