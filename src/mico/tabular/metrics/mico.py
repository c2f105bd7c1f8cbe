r"""The MICo distance $U^\pi$ and its reduced form $\Pi U^\pi$, dense."""

from collections.abc import Sequence
from typing import Any

import array_api_compat as api
import numpy as np

from mico.tabular._rounding import UNIT
from mico.tabular.chain import Chain
from mico.tabular.metrics._operator import Operator, operator
from mico.tabular.solvers import transport
from mico.tabular.solvers.doubling import doubling
from mico.tabular.solvers.result import SolverResult, certified


def solve(chain: Chain, tolerance: float) -> SolverResult:
    r"""$U = |r_x - r_y| + \gamma P U P^\top$ (the paper's equation for the MICo update operator)."""
    solution = doubling(chain.dense_transition(), chain.reward_gap(), chain.discount, tolerance=tolerance)
    return certified(solution, chain)


def solve_reduced(chain: Chain, tolerance: float) -> SolverResult:
    return _reduced(solve(chain, tolerance / 2))


def solve_many_reduced(chains: Sequence[Chain], tolerance: float) -> SolverResult:
    return _reduced(solve_many(chains, tolerance / 2))


def _reduced(full: SolverResult) -> SolverResult:
    """A distance less two halves of self-distances, so at most twice the error.

    Halves are exact; their sum and the difference are off by a unit of the largest distance each, and one is to spare.
    """
    rounding = 3 * UNIT * float(full.matrix.max())
    return SolverResult(np.maximum(reduced(full.matrix), 0.0), 2 * full.error + rounding, full.iterations)


def update(chain: Chain) -> Operator:
    return operator([chain], transport.independent)


def solve_many(chains: Sequence[Chain], tolerance: float) -> SolverResult:
    """The distances of chains that share a discount, all at once: value [B, S, S], and the worst of their errors."""
    transition = np.stack([chain.dense_transition() for chain in chains])
    gap = np.stack([chain.reward_gap() for chain in chains])
    return certified(doubling(transition, gap, chains[0].discount, tolerance=tolerance), *chains)


def reduced(distance: Any) -> Any:
    r"""$\Pi U(x, y) = U(x, y) - \tfrac12 U(x, x) - \tfrac12 U(y, y)$, over the last two axes."""
    xp = api.array_namespace(distance)
    own = xp.linalg.diagonal(distance) / 2
    return distance - (own[..., :, None] + own[..., None, :])
