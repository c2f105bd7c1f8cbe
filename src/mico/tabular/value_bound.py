r"""How a distance keeps to the bound on values, $|V(x) - V(y)| \le d(x, y)$, and how tight it is."""

from typing import Any, NamedTuple

import numpy as np

from mico.tabular.validation import checked_distances, numbers

_VALUE_DIGITS = 1e-10  # of the largest value: what the rounding of values may not pass off as a broken bound


class ValueBound(NamedTuple):
    """Over all pairs (x, y), as in the paper's experiment: the share that break the bound, and the mean signed gap."""

    broken: float
    mean_gap: float


def value_bound(d: Any, value: Any, *, error: float = 0.0) -> ValueBound:
    r"""The share of pairs with $d(x,y) - |V(x)-V(y)|$ below what `error` in d allows, and the mean of that gap.

    d is an array [S, S], `value` one [S].
    """
    d, value = checked_distances(d), numbers("value", value)
    if value.shape != d.shape[:1]:
        raise ValueError(f"value has shape {list(value.shape)}, but d asks for {list(d.shape[:1])}")
    gap = d - np.abs(value[:, None] - value[None, :])
    slack = error + _VALUE_DIGITS * float(np.abs(value).max())
    return ValueBound(float((gap < -slack).mean()), float(gap.mean()))
