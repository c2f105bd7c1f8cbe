"""Discounts near one, where couplings are evaluated by linear equations instead of sweeps."""

import numpy as np
import pytest

from mico.tabular import METRICS, distance, garnet, problem
from mico.tabular.metrics import _coupling_iteration

MDPS = {
    "garnet": garnet(6, 2, seed=1, discount=0.999),
    "grid with ties": problem("open-grid", height=3, width=3, discount=0.999, slip=0.3).mdp,
    "five states": problem("five-state", discount=0.999).mdp,
}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("direct", [0, 6000], ids=["iterative", "direct"])
@pytest.mark.parametrize("mdp", MDPS.values(), ids=MDPS)
@pytest.mark.parametrize("name", ["pi-bisimulation", "bisimulation", "lax-bisimulation"])
def test_solutions_are_fixed_points_of_the_definition(name, mdp, direct, monkeypatch):
    """The operator transports all pairs anew. A bound on its residual over 1 − γ is a bound on the error."""
    monkeypatch.setattr(_coupling_iteration, "_DIRECT", direct)
    monkeypatch.setattr(_coupling_iteration, "_MANY_SWEEPS", 1.0)
    value, error, _ = distance(name, mdp, tolerance=1e-7)
    residual = np.abs(METRICS[name].operator(mdp)(value) - value).max()
    assert error <= 1e-7
    assert residual <= 2 * error + 1e-12 * value.max()
    monkeypatch.setattr(_coupling_iteration, "_MANY_SWEEPS", 0.0)
    swept = distance(name, mdp, tolerance=1e-7)
    np.testing.assert_allclose(value, swept.value, rtol=0, atol=error + swept.error)
