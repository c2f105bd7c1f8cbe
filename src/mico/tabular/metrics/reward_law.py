r"""The reward-law distance: how far apart are the laws of the reward at each time? No transport between states."""

import numpy as np
from scipy.spatial.distance import cdist

from mico.tabular.mdp import Chain
from mico.tabular.metrics._operator import Solution
from mico.tabular.metrics._progress import tell


def solve(chain: Chain, tolerance: float) -> Solution:
    r"""$W_{sum}(x, y) = \sum_t \gamma^t\, W_1(F^x_t, F^y_t)$ with $F^x_t$ the law of $r(X_t)$ from $X_0 = x$.

    $W_1$ on the line is the area between distribution functions. Averaging over next states brings laws no further
    apart than the two farthest, so what is left after t terms is at most $\gamma^t/(1-\gamma)$ times that.
    """
    levels = np.unique(chain.reward)
    if levels.size == 1:
        return Solution(np.zeros((chain.num_states,) * 2), 0.0, 0)
    above = np.diff(levels) * (chain.reward[:, None] > levels[:-1])  # P(r > z), scaled by the step at z
    total, scale, terms = np.zeros((chain.num_states,) * 2), 1.0, 0
    while True:
        apart = cdist(above, above, "cityblock")
        total += scale * apart
        above, scale, terms = chain.transition @ above, scale * chain.discount, terms + 1
        rest = scale / (1 - chain.discount) * float(apart.max())
        tell(rest)
        if rest <= tolerance / 2:
            rounding = (levels.size + 2 * terms) * np.finfo(float).eps * float(total.max())
            return Solution(total, rest + rounding, terms)
