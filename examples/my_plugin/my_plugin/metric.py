r"""A metric: the difference of values $|V^\pi(x) - V^\pi(y)|$, the least that bounds itself."""

import numpy as np

from mico.tabular import Chain, Metric, SolverResult


def solve(chain: Chain, tolerance: float) -> SolverResult:
    value = chain.value()
    backup = chain.reward + chain.discount * (chain.transition @ value)
    rounding = (chain.num_states + 8) * np.finfo(float).eps * np.abs(value).max()
    error = 2 * (np.abs(backup - value).max() + rounding) / (1 - chain.discount)  # |V - V^π| ≤ |T V - V| / (1 - γ)
    return SolverResult(np.abs(value[:, None] - value), float(error), 1)


VALUE_GAP = Metric("difference of values: the least distance that bounds it", "policy", solve)
