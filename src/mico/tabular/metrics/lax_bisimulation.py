r"""Lax bisimulation (Taylor, Precup and Panangaden, 2009): actions are matched, not compared by name."""

import numpy as np
import scipy.sparse as sp

from mico.tabular.mdp import MDP
from mico.tabular.metrics._operator import Operator
from mico.tabular.policies import optimal_value
from mico.tabular.solvers import coupling_iteration, transport
from mico.tabular.solvers.coupling_iteration import Comparison
from mico.tabular.solvers.result import SolverResult, certified


def solve(mdp: MDP, tolerance: float) -> SolverResult:
    r"""$\delta((x,a),(y,b)) = |r^a_x - r^b_y| + \gamma W_d(P^a_x, P^b_y)$ and $d(x, y)$ its Hausdorff distance
    over actions, $\max(\max_a \min_b \delta,\ \max_b \min_a \delta)$."""
    states, actions = mdp.shape
    x, y = np.triu_indices(states, 1)
    a, b = (axis.ravel() for axis in np.indices((actions, actions)))
    shape = (x.size, actions, actions)

    def matters(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Not those that lie below the distance already, nor those that can be no minimum."""
        low, high = low.reshape(shape), high.reshape(shape)
        candidate = (low <= high.min(axis=2, keepdims=True)) | (low <= high.min(axis=1, keepdims=True))
        return (candidate & (high >= _hausdorff(low)[:, None, None])).reshape(x.size, -1)

    def smallest(terms: np.ndarray) -> np.ndarray:
        """For each action of the one, the nearest of the other, and the reverse."""
        terms, each = terms.reshape(shape), np.arange(actions)
        return np.concatenate([each * actions + terms.argmin(axis=2), terms.argmin(axis=1) * actions + each], axis=1)

    comparison = Comparison(
        rows=_state_action_rows(mdp),
        first=x[:, None] + states * a,
        second=y[:, None] + states * b,
        gap=np.abs(mdp.relative[x][:, a] - mdp.relative[y][:, b]),
        combine=lambda terms: _hausdorff(terms.reshape(shape)),
        smallest=smallest,
        matters=matters,
        discount=mdp.discount,
    )
    return certified(coupling_iteration.solve(comparison, optimal_value(mdp), tolerance), mdp)


def update(mdp: MDP) -> Operator:
    """The operator on a distance between states, by transport between all pairs of states and actions."""
    states, actions = mdp.shape
    rows = _state_action_rows(mdp)
    pay = mdp.relative.T.ravel()
    gap = np.abs(pay[:, None] - pay[None, :])

    def apply(d: np.ndarray) -> np.ndarray:
        delta = gap + mdp.discount * transport.kantorovich(d, rows)
        return _hausdorff(delta.reshape(actions, states, actions, states).transpose(1, 3, 0, 2))

    return apply


def _hausdorff(delta: np.ndarray) -> np.ndarray:
    """Over the last two axes, the actions of one state and of the other."""
    return np.maximum(delta.min(axis=-1).max(axis=-1), delta.min(axis=-2).max(axis=-1))


def _state_action_rows(mdp: MDP) -> sp.csr_array:
    """The distribution of (x, a) at row a·S + x."""
    return sp.csr_array(sp.vstack([sp.csr_array(kernel) for kernel in mdp.kernels]))
