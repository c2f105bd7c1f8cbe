r"""π-bisimulation (Castro, 2020) and bisimulation (Ferns et al., 2004): the best of all couplings."""

import numpy as np
import scipy.sparse as sp

from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.metrics._operator import Operator, operator
from mico.tabular.policies import optimal_value
from mico.tabular.solvers import coupling_iteration, transport
from mico.tabular.solvers.coupling_iteration import Comparison
from mico.tabular.solvers.result import SolverResult, certified


def solve_policy(chain: Chain, tolerance: float) -> SolverResult:
    r"""$d_\pi(x, y) = |r^\pi_x - r^\pi_y| + \gamma W_{d_\pi}(P^\pi_x, P^\pi_y)$."""
    return certified(_solve([chain], chain.value(), tolerance), chain)


def solve(mdp: MDP, tolerance: float) -> SolverResult:
    r"""$d^\sim(x, y) = \max_a |r^a_x - r^a_y| + \gamma W_{d^\sim}(P^a_x, P^a_y)$."""
    chains = mdp.action_chains()
    return certified(_solve(chains, optimal_value(mdp), tolerance), *chains)


def policy_update(chain: Chain) -> Operator:
    return operator([chain], transport.kantorovich)


def update(mdp: MDP) -> Operator:
    return operator(mdp.action_chains(), transport.kantorovich)


def _solve(chains: list[Chain], value: np.ndarray, tolerance: float) -> SolverResult:
    size = chains[0].num_states
    x, y = np.triu_indices(size, 1)
    offsets = size * np.arange(len(chains))
    comparison = Comparison(
        rows=sp.csr_array(sp.vstack([sp.csr_array(chain.transition) for chain in chains])),
        first=x[:, None] + offsets,
        second=y[:, None] + offsets,
        gap=np.stack([np.abs(chain.relative[x] - chain.relative[y]) for chain in chains], axis=1),
        combine=lambda terms: terms.max(axis=1),
        smallest=lambda terms: np.indices(terms.shape)[1],
        matters=lambda low, high: high >= low.max(axis=1, keepdims=True),
        discount=chains[0].discount,
    )
    return coupling_iteration.solve(comparison, value, tolerance)
