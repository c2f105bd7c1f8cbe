"""How a quantity grows with another."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Power(NamedTuple):
    """An exponent, and the half width of its interval."""

    exponent: float
    half: float


def power_law(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], level: float = 0.95) -> Power:
    r"""The k of $y = c\,x^k$ by least squares of logarithms, with Student's interval; NaN where there is too little.

    Only the larger half of the values of x counts: what does not grow, such as the cost of a call, is least there.
    """
    values = np.unique(x)
    large = x >= values[(values.size - 1) // 2]
    x, y = np.log(x[large]), np.log(y[large])
    if values.size < 2:
        return Power(np.nan, np.nan)
    x, y = x - x.mean(), y - y.mean()
    exponent = float(x @ y / (x @ x))
    if x.size < 3:
        return Power(exponent, np.nan)
    error = np.linalg.norm(y - exponent * x) / np.sqrt((x.size - 2) * (x @ x))
    return Power(exponent, float(stats.t.ppf((1 + level) / 2, x.size - 2) * error))
