"""Discounts near one, where couplings are evaluated by linear equations instead of sweeps."""

import numpy as np
import pytest

from mico.tabular import MDP, METRICS, garnet, make, solve
from mico.tabular.policies import optimal_value
from mico.tabular.solvers import coupling_iteration

EPS = np.finfo(float).eps
MDPS = {
    "garnet": garnet(6, 2, seed=1, discount=0.999).mdp,
    "grid with ties": make("open-grid", height=3, width=3, discount=0.999, slip=0.3).mdp,
    "five states": make("five-state", discount=0.999).mdp,
}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("direct", [0, 6000], ids=["iterative", "direct"])
@pytest.mark.parametrize("mdp", MDPS.values(), ids=MDPS)
@pytest.mark.parametrize("name", ["pi-bisimulation", "bisimulation", "lax-bisimulation"])
def test_solutions_are_fixed_points_of_the_definition(name, mdp, direct, monkeypatch):
    """The operator transports all pairs anew. A bound on its residual over 1 − γ is a bound on the error."""
    monkeypatch.setattr(coupling_iteration, "_DIRECT", direct)
    monkeypatch.setattr(coupling_iteration, "_MANY_SWEEPS", 1.0)
    found = solve(name, mdp, tolerance=1e-7)
    value, error = found.matrix, found.error
    residual = np.abs(METRICS[name].operator(mdp)(value) - value).max()
    assert error <= 1e-7
    assert residual <= 2 * error + 1e-12 * value.max()
    monkeypatch.setattr(coupling_iteration, "_MANY_SWEEPS", 0.0)
    swept = solve(name, mdp, tolerance=1e-7)
    np.testing.assert_allclose(value, swept.matrix, rtol=0, atol=error + swept.error)


@pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning")
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("seed", [141, 148, 278, 318, 460, 552])
def test_two_states_at_discounts_so_near_one_that_sweeps_would_not_end(gap, seed):
    """Between two states mass moves one way only, so the distance solves an equation in one number.

    With these seeds the two players of the game, improved both at once, go round in circles.
    """
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet([0.02, 0.02], size=(2, 2))
    reward, discount = rng.normal(size=(2, 2)), 1 - gap
    mdp = MDP(transition, reward, discount)
    moved = np.abs(transition[0, :, None, 0] - transition[1, :, 0])
    apart = np.abs(reward[0][:, None] - reward[1])
    below, above = 0.0, apart.max() / gap
    for _ in range(200):
        middle = (below + above) / 2
        terms = apart + discount * moved * middle
        larger = max(terms.min(axis=0).max(), terms.min(axis=1).max()) > middle
        below, above = (middle, above) if larger else (below, middle)
    found = solve("lax-bisimulation", mdp, tolerance=1e-8)
    value, error = found.matrix, found.error
    assert abs(value[0, 1] - above) <= error + 1e-12 * above
    assert error <= max(1e-8, possible(2, above, gap))


def possible(entries, largest, gap):
    """A residual of 16 roundings for each entry of a row and four more, and those of the model itself, over 1 − γ."""
    return (16 * (entries + 4) + 16) * EPS * largest / gap


@pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning")
@pytest.mark.parametrize("name", ["bisimulation", "lax-bisimulation"])
@pytest.mark.parametrize("gap", [1e-6, 1e-9])
def test_four_rooms_at_discounts_near_one(gap, name):
    """Every move leads to one state and each state is paid once, so looking ahead step by step comes to an end."""
    mdp = make("four-rooms", discount=1 - gap).mdp
    goes = np.stack([kernel.toarray().argmax(axis=1) for kernel in mdp.kernels], axis=1)  # [S, A]
    apart = np.abs(mdp.reward[:, None, :, None] - mdp.reward[None, :, None, :])  # [S, S, A, A]
    ahead, naive = np.zeros(apart.shape[:2]), None
    while naive is None or (ahead != naive).any():
        naive = ahead
        terms = apart + mdp.discount * naive[goes[:, None, :, None], goes[None, :, None, :]]
        nearest = terms.min(axis=3).max(axis=2), terms.min(axis=2).max(axis=2)
        ahead = terms.diagonal(axis1=2, axis2=3).max(axis=2) if name == "bisimulation" else np.maximum(*nearest)
    found = solve(name, mdp, tolerance=1e-8)
    value, error = found.matrix, found.error
    assert np.abs(value - naive).max() <= error
    assert error <= max(1e-8, possible(1, naive.max(), gap))
    best = optimal_value(mdp)
    assert (np.abs(best[:, None] - best) <= value + error).all()
