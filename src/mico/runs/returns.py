"""Means of logged returns over episodes, as every score, curve and archive takes them."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas

EPISODES = "episodes"  # column: how many episodes a row's return is the mean of


def mean_returns(returns: "pandas.DataFrame", by: Any) -> "pandas.Series":
    r"""Average returns over episodes: $\sum_i e_i x_i / \sum_i e_i$ of the rows of each group.

    Args:
        returns: Rows with a return `value` and, where it is known, the number of `episodes` that it is the mean of; a
            row without that number weighs 1. Returns that are NaN are left out.
        by: What groups the rows, as pandas' `groupby` takes it.

    Returns:
        The mean of each group, in the order in which the groups appear.

    Examples:
        >>> import pandas as pd
        >>> rows = pd.DataFrame({"run": ["a", "a", "b"], "value": [1.0, 4.0, 7.0], "episodes": [2, 1, float("nan")]})
        >>> mean_returns(rows, "run").to_dict()
        {'a': 2.0, 'b': 7.0}
    """
    values = returns["value"].astype(float)
    weights = returns[EPISODES].astype(float).fillna(1.0) if EPISODES in returns else values.mask(values.notna(), 1.0)
    weights = weights.where(values.notna())
    frame = returns.assign(value=values)
    first = frame.groupby(by, sort=False)["value"].transform("first")
    first = first.where(np.isfinite(first), 0.0)  # equal returns have exactly that mean, whatever their weights
    sums = frame.assign(value=(values - first) * weights, _weight=weights, _first=first).groupby(by, sort=False)
    return sums["_first"].first() + sums["value"].sum(min_count=1) / sums["_weight"].sum()
