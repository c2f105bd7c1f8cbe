"""Rows of the log: sums over the episodes and the updates since the last row, and what a row says of them."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from mico.deep.fleet.engine import ChunkMetrics

Sums = dict[str, Float[np.ndarray, " N"]]

_EPISODES = ("episodes", "returns", "lengths")
_UPDATES = ("updates", "loss", "td_loss", "metric_loss")


def nothing(count: int) -> Sums:
    """Sums over nothing, for so many runs, in float64 on the host."""
    zero = {name: np.zeros(count) for name in (*_EPISODES, *_UPDATES)}
    return zero | {"least": np.full(count, np.inf), "most": np.full(count, -np.inf)}


def added(sums: Sums, chunk: ChunkMetrics) -> Sums:
    """The sums with one more chunk in them, number by number in the order of steps: however long chunks are."""
    over, returned, length = (np.asarray(part) for part in chunk.ended)
    rows = dict(zip(_EPISODES, (over, np.where(over, returned, 0), np.where(over, length, 0))))
    rows |= dict(zip(_UPDATES, chunk.losses or ()))
    least = np.where(over, returned, np.inf).min(axis=0, initial=np.inf)
    most = np.where(over, returned, -np.inf).max(axis=0, initial=-np.inf)
    extremes = {"least": np.minimum(sums["least"], least), "most": np.maximum(sums["most"], most)}
    return sums | {name: _total(sums[name], np.asarray(values)) for name, values in rows.items()} | extremes


def _total(before: Float[np.ndarray, " N"], rows: Shaped[np.ndarray, "T N"]) -> Float[np.ndarray, " N"]:
    """Summed one after the other, which `sum` does not promise."""
    return np.add.accumulate(np.vstack([before, rows]), axis=0, dtype=float)[-1]


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
