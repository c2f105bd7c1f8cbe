"""The operator that MICo and the bisimulation metrics are fixed points of, and the result of a solver."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mico.tabular.mdp import MDP, Chain
from mico.tabular.validation import Matrix

Operator = Callable[[np.ndarray], np.ndarray]
Lift = Callable[[np.ndarray, Matrix], np.ndarray]


class SolverResult(NamedTuple):
    """What a solver returns: distances, a certified bound on the error of every entry, and the number of iterations."""

    matrix: Any  # [S, S], or [B, S, S] for a batch of policies; an array of the caller's library
    error: float
    iterations: int


def certified(solution: SolverResult, *models: Chain | MDP) -> SolverResult:
    """The solution, with what rounding did to the models themselves (see `Rounding`) as part of its error."""
    largest = float(solution.matrix.max())
    owed = max(model.rounding.error(largest, model.discount) for model in models)
    return solution._replace(error=solution.error + owed)


class ToleranceWarning(UserWarning):
    """The certified error is larger than the tolerance that was asked for."""


def operator(chains: Sequence[Chain], lift: Lift) -> Operator:
    r"""$(T d)(x, y) = \max_c |r^c_x - r^c_y| + \gamma\, \mathcal C(d)(P^c_x, P^c_y)$."""

    def one(chain: Chain) -> Operator:
        gap = chain.reward_gap()
        return lambda d: gap + chain.discount * lift(d, chain.transition)

    parts = [one(chain) for chain in chains]
    return lambda d: np.max([part(d) for part in parts], axis=0)
