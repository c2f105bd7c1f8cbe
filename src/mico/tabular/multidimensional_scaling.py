"""Distances as points: classical multidimensional scaling, and how much of the distances the points keep."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr


class Scaling(NamedTuple):
    """Points, and the share of the spread that they keep: 1 if their distances are the given ones."""

    points: Float[np.ndarray, "S k"]
    kept: float


def classical_scaling(squares: Float[np.ndarray, "S S"], k: int) -> Scaling:
    r"""The k leading axes of $B = -\tfrac12 J D J$, of squared distances D and $J = I - \tfrac1n 1 1^\top$.

    What is kept is $\sum_{i \le k} \lambda_i^+ / \sum_i |\lambda_i|$ over the eigenvalues of B: negative ones, which
    points in no space have, count as lost. The diagonal of D counts as 0.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, but is {k}")
    hollow = np.where(np.eye(len(squares), dtype=bool), 0.0, (squares + squares.T) / 2)
    centred = hollow - hollow.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    sizes, axes = np.linalg.eigh(-centred / 2)
    leading = np.maximum(sizes[::-1][:k], 0.0)
    points = axes[:, ::-1][:, :k] * np.sqrt(leading)
    whole = float(np.abs(sizes).sum())
    kept = float(leading.sum()) / whole if whole > 0 else 1.0
    return Scaling(np.pad(points, ((0, 0), (0, k - points.shape[1]))), kept)


def rank_agreement(d: Float[np.ndarray, "S S"], points: Float[np.ndarray, "S k"]) -> float | None:
    """Spearman's correlation of distances with those of the points, over pairs; None if either is constant."""
    x, y = np.triu_indices(len(d), 1)
    given, shown = d[x, y], np.linalg.norm(points[x] - points[y], axis=1)
    if len(given) < 2 or np.ptp(given) == 0 or np.ptp(shown) == 0:
        return None
    return float(spearmanr(given, shown).statistic)
