"""Points whose distances are near given ones: classical multidimensional scaling."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mico.tabular._validation import check_whole, checked_distances


class Scaling(NamedTuple):
    """Points, and the share of the spread that they keep: 1 if their distances are the given ones."""

    points: Float[np.ndarray, "S k"]
    kept: float


def classical_scaling(squares: Float[np.ndarray, "S S"], k: int) -> Scaling:
    r"""Place states in k dimensions by the k leading axes of $B = -\tfrac12 J D J$, $J = I - \tfrac1n 1 1^\top$.

    What is kept is $\sum_{i \le k} \lambda_i^+ / \sum_i |\lambda_i|$ over the eigenvalues of B: negative ones, which
    points in no space have, count as lost.

    Args:
        squares: Squared distances D. They are made symmetric, and the diagonal counts as 0.
        k: Number of coordinates; those beyond the number of states are zero.

    Returns:
        The points and the share that they keep.

    Raises:
        ValueError: If `squares` is not square and finite, or k is not a positive whole number.

    Examples:
        >>> line = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]])  # of points at 0, 1 and 3
        >>> points, kept = classical_scaling(line, 1)
        >>> np.abs(points[:, 0] - points[0, 0]).round(6), round(kept, 6)
        (array([0., 1., 3.]), 1.0)
    """
    squares = checked_distances(squares, "squares")
    check_whole("k", k, 1)
    hollow = np.where(np.eye(len(squares), dtype=bool), 0.0, (squares + squares.T) / 2)
    centred = hollow - hollow.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    sizes, axes = np.linalg.eigh(-centred / 2)
    return _leading(sizes[::-1], axes[:, ::-1] * np.sqrt(np.maximum(sizes[::-1], 0.0)), k)


def principal_scaling(points: Float[np.ndarray, "S r"], k: int) -> Scaling:
    """Turn points to their principal axes and keep the k longest; beyond the number of axes, zeros.

    Args:
        points: Coordinates of each state.
        k: Number of coordinates to keep.

    Returns:
        The points, and the share of the squared spread that they keep.

    Examples:
        >>> points, kept = principal_scaling(np.array([[0.0, 3.0], [0.0, -3.0], [1.0, 0.0]]), 1)
        >>> np.abs(points[:, 0]).round(6)
        array([3., 3., 0.])
    """
    check_whole("k", k, 1)
    centred = points - points.mean(axis=0)
    sizes, axes = np.linalg.eigh(centred.T @ centred)
    return _leading(sizes[::-1], centred @ axes[:, ::-1], k)


def rank_agreement(d: Float[np.ndarray, "S S"], points: Float[np.ndarray, "S k"]) -> float | None:
    """Compare distances with those of points by Spearman's rank correlation over pairs.

    Args:
        d: The distances.
        points: A point for each state.

    Returns:
        The correlation, or None if either is constant.

    Examples:
        >>> rank_agreement(np.array([[0, 1, 9], [1, 0, 4], [9, 4, 0.0]]), np.array([[0.0], [1.0], [3.0]]))
        1.0
    """
    from scipy.stats import spearmanr  # a third of a second, which solving need not wait for

    x, y = np.triu_indices(len(d), 1)
    given, shown = d[x, y], np.linalg.norm(points[x] - points[y], axis=1)
    if len(given) < 2 or np.ptp(given) == 0 or np.ptp(shown) == 0:
        return None
    return float(spearmanr(given, shown).statistic)


def _leading(sizes: Float[np.ndarray, " n"], points: Float[np.ndarray, "S n"], k: int) -> Scaling:
    """The first k columns of points, whose squared lengths are the sizes where these are positive."""
    whole = float(np.abs(sizes).sum())
    kept = float(np.maximum(sizes[:k], 0.0).sum()) / whole if whole > 0 else 1.0
    leading = points[:, :k]
    return Scaling(np.pad(leading, ((0, 0), (0, k - leading.shape[1]))), kept)
