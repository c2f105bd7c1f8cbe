"""What a solver returns: distances, and a certified bound on their error."""

from typing import Any, NamedTuple

from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP


class SolverResult(NamedTuple):
    """What a solver returns: distances, a certified bound on the error of every entry, and the number of iterations."""

    matrix: Any  # [S, S], or [B, S, S] for a batch of policies; an array of the caller's library
    error: float
    iterations: int


def certified(solution: SolverResult, *models: Chain | MDP) -> SolverResult:
    """The solution, with what rounding did to the models themselves (see `Rounding`) as part of its error.

    The solution of the rounded model is nowhere larger than what was found and its error.
    """
    largest = float(solution.matrix.max()) + solution.error
    owed = max(model.rounding.error(largest, model.discount) for model in models)
    return solution._replace(error=solution.error + owed)


class ToleranceWarning(UserWarning):
    """The certified error is larger than the tolerance that was asked for."""
