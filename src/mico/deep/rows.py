"""Rows of the log: sums over the episodes and the updates since the last row, and what a row says of them."""

from typing import Any

import numpy as np
from jaxtyping import Float

from mico.deep.fleet import Tally

Sums = dict[str, Float[np.ndarray, " N"]]


def nothing(count: int) -> Sums:
    """Sums over nothing, for so many runs, in float64 on the host."""
    zero = {name: np.zeros(count) for name in Tally._fields}
    return zero | {"least": np.full(count, np.inf), "most": np.full(count, -np.inf)}


def added(sums: Sums, tally: Tally) -> Sums:
    """The sums with one more chunk in them."""
    more = {name: np.asarray(values, dtype=float) for name, values in tally._asdict().items()}
    extremes = {"least": np.minimum(sums["least"], more["least"]), "most": np.maximum(sums["most"], more["most"])}
    return {name: sums[name] + more[name] for name in sums} | extremes


def means(sums: Sums, index: int) -> dict[str, Any]:
    """What a row says of the episodes and the updates of a run; nothing of what there was none of."""
    of = {name: float(values[index]) for name, values in sums.items()}
    row: dict[str, Any] = {"episodes": int(of["episodes"])}
    if of["episodes"]:
        row |= {"return": of["returns"] / of["episodes"], "return_min": of["least"], "return_max": of["most"]}
        row |= {"length": of["lengths"] / of["episodes"]}
    if of["updates"]:
        row |= {name: of[name] / of["updates"] for name in ("loss", "td_loss", "metric_loss")}
    return row
