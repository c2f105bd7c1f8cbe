"""What a solver returns: distances, and a certified bound on their error."""

from typing import Any, NamedTuple

from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP


class SolverResult(NamedTuple):
    """What a solver returns.

    Attributes:
        matrix: Distances [S, S], or [B, S, S] for a batch of policies; an array of the caller's library.
        error: Certified bound on the error of every entry, rounding included.
        iterations: Number of iterations; what one of them is depends on the solver.

    Examples:
        >>> import mico.tabular as mt
        >>> problem = mt.make("bound-example")
        >>> found = mt.solve_policies("mico", problem, problem.policy[None])
        >>> found.matrix.shape, found.error <= 1e-8
        ((1, 2, 2), True)
    """

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
    """The certified error is larger than the tolerance that was asked for.

    Examples:
        >>> import warnings
        >>> import mico.tabular as mt
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", mt.ToleranceWarning)
        ...     mt.solve("mico", mt.make("mirrored-rooms"), tolerance=1e-8)  # doctest: +ELLIPSIS
        Solution('mico', 31 states, discount 0.9, dense, error ...)
    """
