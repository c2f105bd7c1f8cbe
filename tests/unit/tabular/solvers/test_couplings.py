"""Couplings of many pairs: against linear programs and matchings, their bounds by exact arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from ot import emd2

import references
from mico.tabular import garnet, solve
from mico.tabular.solvers import _simplex, couplings
from mico.tabular.solvers.couplings import Couplings
from strategies import seeds

SIZES = [(1, 1), (1, 5), (4, 1), (2, 2), (3, 5), (7, 4), (8, 8), (30, 25)]


@pytest.fixture(params=["compiled", "interpreted"], autouse=True)
def way(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(couplings, "_INTERPRETED", 0 if request.param == "compiled" else np.inf)
        yield request.param


def masses(rng, size, kind):
    parts = {
        "any": rng.random(size) + 1e-3,
        "equal": np.ones(size),
        "degenerate": 1.0 + rng.integers(0, 2, size=size),
        "tiny": 10.0 ** -rng.integers(0, 13, size=size),
    }[kind]
    return parts / parts.sum()


def pair_of(mass, other):
    """Two rows that share no state, so that all their mass moves."""
    rows = np.zeros((2, mass.size + other.size))
    rows[0, : mass.size], rows[1, mass.size :] = mass, other
    return coupled(rows)


def coupled(rows, order=None):
    order = np.arange(rows.shape[1]) if order is None else order
    first, second = np.triu_indices(len(rows), 1)
    return Couplings(sp.csr_array(rows), first, second, order)


def costs(rng, size, levels=None):
    d = rng.random((size, size)) if levels is None else rng.integers(levels, size=(size, size)).astype(float)
    return d + d.T


def plan(found, size, pair=0):
    """What moves between two states, by the rows over pairs x < y."""
    moves = np.zeros((size, size))
    moves[np.triu_indices(size, 1)] = found.matrix().toarray()[pair]
    return moves + moves.T


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["any", "equal", "degenerate", "tiny"])
@pytest.mark.parametrize("levels", [None, 3])
def test_optimal_for_costs_that_change(sizes, kind, levels):
    """From scratch, after small changes and after others: POT solves each anew."""
    rng = np.random.default_rng(sum(sizes))
    mass, other = (masses(rng, size, kind) for size in sizes)
    found, size = pair_of(mass, other), sum(sizes)
    d = costs(rng, size, levels)
    for change in (0.0, 1e-3, 1e-3, 1.0):
        d = d + change * costs(rng, size)
        (low,) = found.improve(d, np.array([0]))
        between = d[: sizes[0], sizes[0] :]
        moves = plan(found, size)[: sizes[0], sizes[0] :]
        assert moves.min() >= 0
        np.testing.assert_allclose(moves.sum(axis=1), mass, rtol=0, atol=1e-14)
        np.testing.assert_allclose(moves.sum(axis=0), other, rtol=0, atol=1e-14)
        assert (moves * between).sum() == pytest.approx(emd2(mass, other * mass.sum() / other.sum(), between), abs=1e-9)
        assert low == pytest.approx((moves * between).sum(), abs=1e-12)
        assert found.bound(d)[0] == low


@given(seeds, st.sampled_from(["any", "equal", "degenerate", "tiny"]))
def test_linear_programs(seed, kind):
    rng = np.random.default_rng(seed)
    mass, other = masses(rng, 4, kind), masses(rng, 3, kind)
    found, d = pair_of(mass, other), costs(rng, 7)
    (low,) = found.improve(d, np.array([0]))
    assert low == pytest.approx(references.transport_cost(mass, other, d[:4, 4:]), abs=1e-9)


def test_two_states_each_by_hand():
    """Of 0 and 1 to 2 and 3: straight costs 1 + 1, crossed 3 + 3; then the reverse."""
    rows = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    d = np.array([[0.0, 2, 1, 3], [2, 0, 3, 1], [1, 3, 0, 2], [3, 1, 2, 0]])
    crossed = coupled(rows, order=np.array([0, 1, 3, 2]))
    assert plan(crossed, 4)[0].tolist() == [0, 0, 0, 0.5]
    assert crossed.matrix() @ d[np.triu_indices(4, 1)] == pytest.approx([3.0])
    assert crossed.improve(d, np.array([0])) == pytest.approx([1.0])
    assert plan(crossed, 4)[:2, 2:].tolist() == [[0.5, 0], [0, 0.5]]
    assert crossed.matrix() @ d[np.triu_indices(4, 1)] == pytest.approx([1.0])


def test_what_two_rows_share_stays_in_place():
    rows = np.array([[0.5, 0.25, 0.25, 0.0], [0.25, 0.25, 0.0, 0.5], [0.5, 0.25, 0.25, 0.0]])
    found = coupled(rows)
    assert found.moved.tolist() == [0.5, 0.0, 0.5]  # of the pairs 01, 02 and 12
    assert found.matrix().toarray().round(12).tolist() == [[0, 0, 0.25, 0, 0, 0.25], [0] * 6, [0, 0, 0.25, 0, 0, 0.25]]
    d = 1.0 - np.eye(4)
    assert found.bound(d) == pytest.approx([0.5, 0.0, 0.5])
    assert found.bound(d)[1] == 0


@given(seeds, st.booleans())
def test_bounds_from_below_hold_to_the_last_bit(seed, optimal):
    """Four equal parts each: a matching, whose cost is a fraction. The first trees are as good as any."""
    rng = np.random.default_rng(seed)
    found, d = pair_of(np.full(4, 0.25), np.full(4, 0.25)), costs(rng, 8)
    low = found.improve(d, np.array([0])) if optimal else found.bound(d)
    exact = min(
        sum(Fraction(d[i, 4 + j]) for i, j in enumerate(order)) / 4 for order in itertools.permutations(range(4))
    )
    assert Fraction(low[0]) <= exact
    if optimal:
        assert float(exact - Fraction(low[0])) < 1e-13


def test_weight_that_moves_without_mass_is_seen():
    rng = np.random.default_rng(0)
    found, d = pair_of(masses(rng, 5, "any"), masses(rng, 4, "any")), costs(rng, 9)
    found.bound(d)
    assert found.defect < 1e-14
    found._trees[5][3] += 0.125  # leaves a state and arrives at another
    found.bound(d)
    assert found.defect == pytest.approx(0.25)


@given(seeds, st.integers(2, 30))
def test_defect_bounds_what_is_not_where_the_rows_have_it(seed, size):
    """Rows that sum to 1 up to rounding, nearly equal ones among them; sums by exact arithmetic."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.5), size=4) * (1 + 1e-15 * rng.integers(-3, 4, size=(4, 1)))
    rows[1] = rows[0] + 1e-15 * rng.random(size) * (rows[0] > 0)
    found = coupled(rows)
    for _ in range(2):
        d = costs(rng, size)
        found.bound(d)
        found.improve(d, np.arange(6))
        for pair, (x, y) in enumerate(itertools.combinations(range(4), 2)):
            gaps = [Fraction(a) - Fraction(b) for a, b in zip(rows[x], rows[y], strict=True)]
            net = [Fraction(0)] * size
            for i, j in zip(*np.triu_indices(size, 1), strict=True):
                weight = Fraction(found.matrix()[pair, i * (2 * size - i - 1) // 2 + j - i - 1])
                leaves, arrives = (i, j) if gaps[i] > gaps[j] else (j, i)
                net[leaves], net[arrives] = net[leaves] + weight, net[arrives] - weight
            missing = sum(abs(gap - moved) for gap, moved in zip(gaps, net, strict=True))
            assert missing <= Fraction(found.defect) + Fraction(size * 2**-52)


def test_threads_find_what_one_finds(monkeypatch):
    rng = np.random.default_rng(0)
    rows, d = rng.dirichlet(np.full(12, 0.3), size=12), costs(rng, 12)
    alone = coupled(rows)
    low = alone.improve(d, np.arange(66))
    monkeypatch.setattr(couplings, "_ALONE", 0)
    monkeypatch.setattr(couplings.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    together = coupled(rows)
    np.testing.assert_array_equal(together.improve(d, np.arange(66)), low)
    np.testing.assert_array_equal(together.matrix().toarray(), alone.matrix().toarray())
    np.testing.assert_array_equal(together.bound(d), alone.bound(d))
    assert together.defect == alone.defect


@pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning")
def test_certificates_hold_where_pivots_end_too_soon(way, monkeypatch):
    """Couplings that are not optimal make a poor answer, and the error says how poor."""
    mdp = garnet(7, 2, seed=3, discount=0.8).mdp
    exact = solve("pi-bisimulation", mdp, tolerance=1e-10).matrix
    if way == "interpreted":
        monkeypatch.setattr(_simplex, "_PIVOTS", 0)
        monkeypatch.setattr("mico.tabular.solvers.coupling_iteration._TRIES", 5)
        found = solve("pi-bisimulation", mdp, tolerance=1e-10)
        apart = np.abs(found.matrix - exact).max()
        assert 1e-6 < apart <= found.error
