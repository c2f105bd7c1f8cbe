"""Solutions in Krylov spaces: the error that comes with each is true, and the inner product is one that contracts."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from chains import CHAINS, every_chain
from mico.tabular.solvers.galerkin import project, weights
from mico.tabular.solvers.krylov import NumpyBasis


@every_chain
@pytest.mark.parametrize("capacity", [2, 3, 5, 8, 200])
def test_each_projection_is_within_its_own_error(chain, capacity):
    """M = zzᵀ + γ P M Pᵀ for a feature z, from spaces that are too small or just large enough."""
    feature = (chain.reward > np.median(chain.reward)).astype(float)
    feature = feature if feature.any() else np.ones(chain.num_states)
    rows = chain.dense_transition()
    exact = solve_discrete_lyapunov(np.sqrt(chain.discount) * rows, np.outer(feature, feature))
    root = np.sqrt(weights(chain.transition, chain.discount))
    basis = NumpyBasis(chain.transition, root, min(capacity, chain.num_states))
    found = project(basis, chain.discount, 1e-7, feature, 1.0)
    assert np.abs(found.factors @ found.factors.T - exact).max() <= found.error + 1e-10
    if capacity == 200:
        assert found.error <= 1e-7
        value = np.linalg.solve(np.eye(chain.num_states) - chain.discount * rows, feature)
        np.testing.assert_allclose(found.value, value, rtol=0, atol=1e-6)


@every_chain
def test_weights_make_the_discounted_chain_a_contraction(chain):
    """‖√γ P f‖_w < ‖f‖_w for every f, also where √γ P itself is no contraction."""
    root = np.sqrt(weights(chain.transition, chain.discount))
    assert root.min() >= 1
    scaled = np.sqrt(chain.discount) * root[:, None] * chain.dense_transition() / root[None, :]
    assert np.linalg.norm(scaled, 2) < 1


@pytest.mark.parametrize("name", ["grid", "garnet", "star, rewards at all leaves"])
@pytest.mark.parametrize("gap", [1e-4, 1e-9, 4e-15])
def test_weights_at_discounts_so_near_one_that_counting_would_not_end(name, gap):
    transition = CHAINS[name].transition
    found = weights(transition, 1 - gap)
    assert found.min() >= 1
    assert ((1 - gap) * (transition.T @ found) < found).all()
