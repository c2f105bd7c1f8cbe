r"""The reward-law distance: how far apart are the laws of the reward at each time? No transport between states."""

import math

import numpy as np

from mico.tabular._rounding import longest_row
from mico.tabular.chain import Chain
from mico.tabular.solvers.progress import tell
from mico.tabular.solvers.result import SolverResult


def solve(chain: Chain, tolerance: float) -> SolverResult:
    r"""$W_{sum}(x, y) = \sum_t \gamma^t\, W_1(F^x_t, F^y_t)$ with $F^x_t$ the law of $r(X_t)$ from $X_0 = x$.

    $W_1$ on the line is the area between distribution functions. Averaging over next states brings laws no further
    apart than the two farthest, so what is left after t terms is at most $\gamma^t/(1-\gamma)$ times that. Nor does it
    move laws further: if p terms moved none by more than $\delta$, the next p do not either, and what is left is those
    p terms over and over, up to $2\delta\gamma^t / ((1-\gamma)(1-\gamma^p))$.
    """
    from scipy.spatial.distance import cdist  # a tenth of the time that importing the package takes

    levels = np.unique(chain.relative)
    if levels.size == 1:
        return SolverResult(np.zeros((chain.num_states,) * 2), chain.rounding.error(0.0, chain.discount), 0)
    above = np.diff(levels) * (chain.relative[:, None] > levels[:-1])  # P(r > z), scaled by the step at z
    before, lap = np.zeros((2, chain.num_states, chain.num_states))  # sums of the terms up to the mark, and since
    mark, marked, scale, terms, largest = above, 0, 1.0, 0, 0.0

    row = longest_row(chain.transition)

    def rounding(terms: float) -> float:
        return (levels.size + (row + 4) * terms) * float(np.finfo(float).eps)

    def solution(total: np.ndarray, left: float) -> SolverResult:
        tell(left)
        error = left + rounding(terms) * float(total.max())
        return SolverResult(total, error + chain.rounding.error(largest + rest, chain.discount), terms)

    while True:
        apart = cdist(above, above, "cityblock")
        lap += scale * apart
        largest += scale * float(apart.max())
        above, scale, terms = chain.transition @ above, scale * chain.discount, terms + 1
        rest = scale / (1 - chain.discount) * float(apart.max())
        if rest <= max(tolerance / 2, rounding(terms) * largest):
            return solution(before + lap, rest)
        share = -math.expm1((terms - marked) * math.log(chain.discount))  # of the lap in all laps, 1 − γᵖ
        moved = float(np.abs(above - mark).sum(axis=1).max()) + rounding(terms + marked) * float(levels[-1] - levels[0])
        repeated = 2 * moved * scale / (1 - chain.discount) / share
        # Summing on would take so many terms, each at the cost of rounding.
        to_come = (math.log(2 * rest) - math.log(tolerance)) / -math.log(chain.discount)
        if repeated <= max(tolerance / 2, rounding(terms + to_come) * (largest + rest)):
            return solution(before + lap / share, repeated)
        tell(rest)
        if terms > 4 * marked:  # marks ever farther apart find a lap of any length (Brent, 1980)
            before, lap, mark, marked = before + lap, np.zeros_like(lap), above, terms
