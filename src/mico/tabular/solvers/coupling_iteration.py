r"""Exact Kantorovich metrics by policy iteration on couplings.

Every bisimulation metric is the fixed point of $T d = \mathcal H(g + \gamma W_d)$: a gap of rewards and a Kantorovich
distance for each pair of distributions that is compared, combined by $\mathcal H$ (nothing, for one policy; the maximum
over actions; Hausdorff's over pairs of actions). For fixed couplings C, $T_C d = \mathcal H(g + \gamma C d) \ge T d$
needs no transport, and its fixed point is an upper bound. So: iterate $T_C$ down; then, at the new costs, bracket each
distance between the cost of its coupling and the dual value that this coupling implies; solve transport only where
the bracket is open and can matter; repeat.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.linalg import gmres, splu

from mico.tabular.solvers.couplings import Couplings
from mico.tabular.solvers.progress import tell
from mico.tabular.solvers.result import SolverResult

_MANY_SWEEPS = 0.005  # below this 1 − γ·(mass moved), linear equations beat sweeps
_TRIES = 1000
_DIRECT = 6000  # pairs up to which they are solved by elimination


class Comparison(NamedTuple):
    """What is compared: C pairs of distributions for each of the T pairs of states x < y, and how they combine."""

    rows: sp.csr_array  # the distributions
    first: Int[np.ndarray, "T C"]  # which row on the side of x
    second: Int[np.ndarray, "T C"]
    gap: Float[np.ndarray, "T C"]
    combine: Callable[[np.ndarray], np.ndarray]  # [T, C] → [T], the largest of some smallest terms
    smallest: Callable[[np.ndarray], np.ndarray]  # [T, C] → [T, K], which those are
    matters: Callable[[np.ndarray, np.ndarray], np.ndarray]  # bounds below and above, [T, C] each → which can matter
    discount: float


def solve(comparison: Comparison, value: Float[np.ndarray, " S"], tolerance: float) -> SolverResult:
    """The fixed point, certified on both sides; the first couplings match states in the order of any `value`."""
    gap, size = comparison.gap, comparison.rows.shape[1]
    x, y = np.triu_indices(size, 1)
    if x.size == 0:
        return SolverResult(np.zeros((size, size)), 0.0, 0)

    def square(upper: np.ndarray) -> np.ndarray:
        d = np.zeros((size, size))
        d[x, y] = d[y, x] = upper
        return d

    couplings = Couplings(comparison.rows, comparison.first.ravel(), comparison.second.ravel(), np.argsort(value))
    # the sums of masses are rounded, too
    digits = 4 * (int(np.diff(comparison.rows.indptr).max()) + 4) * float(np.finfo(float).eps)
    slack = 1 - comparison.discount * min(1.0, float(couplings.moved.max()) * (1 + digits))
    upper = np.full(x.size, gap.max() / slack)  # above the fixed point of any couplings
    haste, sweeps, rounding = 1e-4, 0, digits * float(upper.max())
    while True:
        before = upper
        goal = max(slack * tolerance, 4 * rounding)
        coupled = couplings.matrix()
        if slack < _MANY_SWEEPS:
            upper = _jump(comparison, coupled, upper, (slack, goal / 8))
        upper, high = _descend(comparison, coupled, upper, (goal / 4, haste))
        d = square(upper)
        low = couplings.bound(d)
        rounding = (digits + couplings.defect) * float(upper.max())
        goal = max(slack * tolerance, 4 * rounding)
        at_least = gap + comparison.discount * low.reshape(gap.shape)
        unsettled = (high - at_least > goal / 4) & comparison.matters(at_least, high)
        which = np.flatnonzero(unsettled)
        low[which] = couplings.improve(d, which)
        at_least = gap + comparison.discount * low.reshape(gap.shape)
        above, below = upper - comparison.combine(at_least), comparison.combine(high) - upper
        residual = max(0.0, float(above.max()), float(below.max()))
        tell(residual / slack)
        sweeps += 1
        stuck = not which.size or float((before - upper).max()) <= rounding
        if residual <= goal - rounding or (haste == 0 and stuck) or sweeps == _TRIES:
            return SolverResult(d, (residual + rounding) / slack, sweeps)
        haste = 0.0 if stuck else 1e-4


def _descend(
    comparison: Comparison, coupled: sp.csr_array, upper: Float[np.ndarray, " T"], stop: tuple[float, float]
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, "T C"]]:
    """Iterates the couplings' own operator from an upper bound until its steps are small, absolutely or relatively.

    Returns the bound, and the terms that the operator combines there.
    """
    largest = 0.0
    while True:
        terms = _terms(comparison, coupled, upper)
        lower = np.minimum(upper, comparison.combine(terms))
        step = float((upper - lower).max())
        largest = max(largest, step)
        if step <= max(stop[0], stop[1] * largest):
            return upper, terms
        upper = lower


def _jump(
    comparison: Comparison, coupled: sp.csr_array, upper: Float[np.ndarray, " T"], stop: tuple[float, float]
) -> Float[np.ndarray, " T"]:
    """What is near the couplings' own fixed point, by linear equations where sweeps would be very many.

    A game of two, solved by policy iteration of the one who takes the largest inside that of the one who takes the
    smallest (Hoffman and Karp, 1966); both at once could go round in circles. Where that does not come close, what
    the operator still adds to the solution, over `slack`, lifts it above the fixed point.
    """
    value, (slack, close) = upper, stop
    terms = _terms(comparison, coupled, value)
    offered = comparison.smallest(terms)
    for _ in range(_TRIES):
        largest = np.take_along_axis(terms, offered, axis=1).argmax(axis=1, keepdims=True)
        value = _evaluated(comparison, coupled, np.take_along_axis(offered, largest, axis=1)[:, 0], value, close)
        terms = _terms(comparison, coupled, value)
        if float((np.take_along_axis(terms, offered, axis=1).max(axis=1) - value).max()) <= close:
            if float((value - comparison.combine(terms)).max()) <= close:
                break
            offered = comparison.smallest(terms)
    lifted = value + max(0.0, float((comparison.combine(terms) - value).max())) / slack
    value = np.maximum(value, 0.0)
    short = float((comparison.combine(_terms(comparison, coupled, value)) - value).max())
    return value if short <= close else np.minimum(upper, lifted)


def _evaluated(
    comparison: Comparison,
    coupled: sp.csr_array,
    counting: Int[np.ndarray, " T"],
    guess: Float[np.ndarray, " T"],
    close: float,
) -> Float[np.ndarray, " T"]:
    """The distances if one term each, and always that one, counts."""
    everyone = np.arange(guess.size)
    rows = coupled[everyone * comparison.gap.shape[1] + counting]
    system = sp.eye_array(guess.size, format="csr") - comparison.discount * rows
    goal = comparison.gap[everyone, counting]
    if guess.size <= _DIRECT:
        return splu(system.tocsc()).solve(goal)
    return gmres(system, goal, x0=guess, rtol=0.0, atol=close / 2, restart=60, maxiter=20)[0]


def _terms(comparison: Comparison, coupled: sp.csr_array, value: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T C"]:
    return comparison.gap + comparison.discount * (coupled @ value).reshape(comparison.gap.shape)
