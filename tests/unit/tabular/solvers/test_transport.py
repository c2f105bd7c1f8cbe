"""Optimal transport and the metrics that rest on it: against linear programs, matchings and plain iteration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

import references
from mico.tabular import METRICS, Chain, garnet, lukaszyk_karmowski, make, solve, wasserstein
from mico.tabular.solvers.transport import independent, kantorovich, optimal_plan, transport_cost
from strategies import seeds, transition_rows

SHAPES = [(1, 1), (1, 5), (4, 1), (2, 2), (3, 5), (7, 4), (8, 8)]


def masses(rng, shape, kind):
    """Two positive vectors of total 1: any, with many equal parts, or with some next to nothing."""
    for size in shape:
        parts = {
            "any": rng.random(size) + 1e-3,
            "equal": np.ones(size),
            "degenerate": 1.0 + rng.integers(0, 2, size=size),
            "tiny": 10.0 ** -rng.integers(0, 14, size=size),
        }[kind]
        yield parts / parts.sum()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["any", "equal", "degenerate", "tiny"])
def test_a_plan_is_a_coupling_of_least_cost_that_its_potentials_prove(shape, kind):
    rng = np.random.default_rng(sum(shape))
    for _ in range(3):
        mass, other = masses(rng, shape, kind)
        cost = rng.random(shape)
        coupling, f, g = optimal_plan(mass, other, cost)
        assert coupling.min() >= 0
        np.testing.assert_allclose(coupling.sum(axis=1), mass, rtol=0, atol=1e-14)
        np.testing.assert_allclose(coupling.sum(axis=0), other, rtol=0, atol=1e-14)
        assert (f[:, None] + g[None, :] <= cost + 1e-12).all()
        assert f @ mass + g @ other == pytest.approx((coupling * cost).sum(), abs=1e-12)
        assert (coupling * cost).sum() == pytest.approx(references.transport_cost(mass, other, cost), abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["any", "equal", "degenerate", "tiny"])
@pytest.mark.parametrize("offset", [-2.0, 0.0, 5.0])
def test_least_cost_by_a_linear_program(shape, kind, offset):
    rng = np.random.default_rng(sum(shape))
    mass, other = masses(rng, shape, kind)
    cost = rng.random(shape) + offset
    assert transport_cost(mass, other, cost) == pytest.approx(references.transport_cost(mass, other, cost), abs=1e-9)


@given(seed=seeds, shape=st.sampled_from(SHAPES))
def test_ties_among_the_costs(seed, shape):
    rng = np.random.default_rng(seed)
    mass, other = masses(rng, shape, "equal")
    cost = rng.integers(0, 3, size=shape).astype(float)
    parts = int(np.lcm(*shape))
    exact = references.transport_cost_of_parts(mass, other, cost, parts)
    assert transport_cost(mass, other, cost) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1e-15, 1e-12, 1e-9, 1e-3, 1e3, 1e9, 1e100])
def test_costs_of_any_size(scale):
    rng = np.random.default_rng(0)
    for _ in range(30):
        mass, other = masses(rng, (6, 6), "equal")
        cost = rng.random((6, 6))
        exact = references.transport_cost_of_parts(mass, other, cost, 6)
        assert transport_cost(mass, other, scale * cost) / scale == pytest.approx(exact, rel=1e-12)
        assert wasserstein(mass, other, scale * cost) / scale == pytest.approx(exact, rel=1e-12)
        assert kantorovich(scale * cost, np.full((6, 6), 1 / 6))[0, 1] / scale == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("total", [1e-12, 1e-6, 3.0, 1e6])
def test_masses_of_any_total(total):
    rng = np.random.default_rng(1)
    mass, other = masses(rng, (5, 7), "any")
    cost = rng.random((5, 7))
    exact = references.transport_cost(mass, other, cost)
    assert transport_cost(total * mass, total * other, cost) / total == pytest.approx(exact, abs=1e-9)
    coupling = optimal_plan(total * mass, total * other, cost).coupling / total
    np.testing.assert_allclose(coupling.sum(axis=1), mass, rtol=0, atol=1e-12)
    assert (coupling * cost).sum() == pytest.approx(exact, abs=1e-9)


@given(seed=seeds, size=st.sampled_from((1, 2, 5, 9)), kind=st.sampled_from(("dense", "sparse", "deterministic")))
def test_on_a_line_it_is_scipys_distance(seed, size, kind):
    rng = np.random.default_rng(seed)
    mu, nu = transition_rows(rng, kind, (2, size))
    places = rng.normal(size=size)
    found = wasserstein(mu, nu, np.abs(places[:, None] - places[None, :]))
    assert found == pytest.approx(wasserstein_distance(places, places, mu, nu), abs=1e-12)


def test_distances_of_distributions_by_hand():
    d = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 3.0], [4.0, 3.0, 0.0]])
    mu, nu = [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]
    assert wasserstein(mu, nu, d) == pytest.approx(2.0)  # half a unit from 0 to 2, or 0 to 1 and 1 to 2
    assert lukaszyk_karmowski(mu, nu, d) == pytest.approx((1 + 4 + 0 + 3) / 4)
    assert wasserstein(mu, mu, d) == pytest.approx(0, abs=1e-15)
    assert lukaszyk_karmowski(mu, mu, d) == pytest.approx(0.5)
    assert wasserstein([0, 0, 1], nu, d) == pytest.approx(1.5)


@pytest.mark.parametrize("of_two", [wasserstein, lukaszyk_karmowski])
@pytest.mark.parametrize(
    ("mu", "d", "message"),
    [
        ([0.5, 0.4], np.zeros((2, 2)), "mu of the distribution sums to 0.9"),
        ([1.5, -0.5], np.zeros((2, 2)), "mu of the distribution, at state 1, is -0.5: negative"),
        ([1.0], np.zeros((2, 2)), r"mu has shape \[1\], but d asks for \[2\]"),
        ([1.0, 0.0], np.zeros((2, 3)), r"d must have shape \[S, S\], but has \[2, 3\]"),
        ([1.0, 0.0], np.array([[0, np.nan], [0, 0]]), r"d\[0, 1\] = nan is not finite"),
    ],
)
def test_distributions_and_distances_that_are_refused(of_two, mu, d, message):
    with pytest.raises(ValueError, match=message):
        of_two(np.array(mu), np.array([0.5, 0.5]), d)


@given(seed=seeds, kind=st.sampled_from(("dense", "sparse", "deterministic", "parts")))
def test_lifts_of_all_pairs(seed, kind):
    """From costs that are negative and not symmetric."""
    rng = np.random.default_rng(seed)
    rows, d = transition_rows(rng, kind, (4, 4)), rng.normal(size=(4, 4))
    best, alone = kantorovich(d, rows), independent(d, rows)
    for x, y in itertools.product(range(4), repeat=2):
        expected = sum(rows[x, i] * rows[y, j] * d[i, j] for i in range(4) for j in range(4))
        assert alone[x, y] == pytest.approx(expected, abs=1e-12)
        assert best[x, y] <= alone[x, y] + 1e-12
        if kind == "parts":
            expected = references.transport_cost_of_parts(rows[x], rows[y], d, 4)
            assert best[x, y] == pytest.approx(expected, abs=1e-12)


def four_neighbours(chain):
    """Value iteration by matchings: every row of a uniform walk on a grid has four equal parts."""
    successors = [
        np.repeat(np.arange(chain.num_states), np.rint(4 * row).astype(int)) for row in chain.dense_transition()
    ]
    orders = np.array(list(itertools.permutations(range(4))))
    left = np.array(successors)[:, None, None, :]  # [S, 1, 1, 4]
    right = np.array(successors)[:, orders].transpose(1, 0, 2)[:, None]  # [24, 1, S, 4]
    d = np.zeros((chain.num_states,) * 2)
    while True:
        best = np.full_like(d, np.inf)
        for n in range(len(orders)):
            best = np.minimum(best, d[left[:, 0], right[n]].mean(axis=2))
        new = chain.reward_gap() + chain.discount * best
        if np.abs(new - d).max() <= 1e-9 * (1 - chain.discount):
            return new
        d = new


@pytest.mark.parametrize("name", ["four-rooms", "mirrored-rooms", "dayan"])
def test_grids_with_many_ties(name):
    chain = make(name).mdp.chain()
    exact = four_neighbours(chain)
    for tolerance in (1e-1, 1e-4, 1e-9):
        found = solve("pi-bisimulation", chain, tolerance=tolerance)
        value, error = found.matrix, found.error
        assert error <= tolerance
        assert np.abs(value - exact).max() <= error + 1e-8


@pytest.mark.parametrize("dynamics", ["absorbing", "continuing"])
def test_deterministic_moves_need_no_transport(dynamics):
    """Bisimulation of a grid by max over its moves."""
    mdp = make("mirrored-rooms", dynamics=dynamics).mdp
    following = np.array([kernel.toarray().argmax(axis=1) for kernel in mdp.kernels])
    d = np.zeros((mdp.num_states,) * 2)
    for _ in range(300):
        d = np.max(
            [
                np.abs(mdp.reward[:, a, None] - mdp.reward[None, :, a]) + 0.9 * d[np.ix_(to, to)]
                for a, to in enumerate(following)
            ],
            axis=0,
        )
    np.testing.assert_allclose(solve("bisimulation", mdp).matrix, d, rtol=0, atol=2e-8)


@pytest.mark.parametrize("name", ["pi-bisimulation", "bisimulation", "lax-bisimulation"])
def test_a_larger_garnet_is_a_fixed_point(name):
    """One step of the definition, by exact transport of all pairs, hardly moves the solution."""
    mdp = garnet(14, 2, seed=8).mdp
    found = solve(name, mdp)
    value, error = found.matrix, found.error
    assert np.abs(METRICS[name].operator(mdp)(value) - value).max() <= 2 * error + 1e-12


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-6, 1e6])
@pytest.mark.usefixtures("patience")
def test_degenerate_couplings_at_any_size_of_rewards(scale):
    """Rows of four equal parts make degenerate couplings; what is relative must not be taken as absolute."""
    for seed in (13, 33, 60, 66, 68):
        rng = np.random.default_rng(seed)
        chain = Chain(rng.multinomial(4, np.full(5, 0.2), size=5) / 4, rng.random(5), 0.9)
        exact = solve("pi-bisimulation", chain, tolerance=1e-9).matrix
        scaled = Chain(chain.transition, scale * chain.reward, 0.9)
        found = solve("pi-bisimulation", scaled, tolerance=1e-9 * scale)
        value, error = found.matrix, found.error
        assert np.abs(value / scale - exact).max() <= error / scale + 1e-9


def test_nearly_equal_rows():
    """Probabilities that differ by rounding move next to nothing."""
    row = np.array([0.1, 0.2, 0.3, 0.4])
    for noise in (1e-16, 1e-15, 3e-15, 1e-13, 1e-10):
        for shift in ([1, -1, 0, 0], [3, -1, -1, -1], [-3, 1, 1, 1], [1, 1, -1, -1]):
            rows = np.array([row, row + noise * np.array(shift), np.eye(4)[2], np.eye(4)[3]])
            chain = Chain(rows, [0.0, 0.0, 1.0, 2.0], 0.9)
            found = solve("pi-bisimulation", chain)
            value, error = found.matrix, found.error
            assert value[0, 1] <= 20 * 4 * noise + error
            assert value[2, 3] == pytest.approx(10, abs=1e-7)
            assert np.isfinite(value).all()
