"""What rounding does to the numbers of a model."""

from typing import NamedTuple

import numpy as np

from mico.tabular._validation import Matrix

EPS = float(np.finfo(float).eps)


class Rounding(NamedTuple):
    """How far the numbers of a model can be from those they stand for: a reward, and the entries of a row together."""

    reward: float = 0.0
    transition: float = 0.0

    def error(self, largest: float, discount: float) -> float:
        r"""What that does to a metric $d = |r_x - r_y| + \gamma\,\mathcal C(d)(P_x, P_y)$ that is nowhere larger."""
        return 2 * (self.reward + discount * self.transition * largest) / (1 - discount)


def longest_row(matrix: Matrix) -> int:
    """How many numbers the sum that made a row a distribution had at most."""
    rows = np.count_nonzero(matrix, axis=1) if isinstance(matrix, np.ndarray) else np.diff(matrix.indptr)
    return int(rows.max())


def mean_rounding(terms: int, numbers: np.ndarray) -> float:
    """What rounding can do to a mean of so many of the numbers by weights that are rounded too."""
    return (terms + 4) * EPS * float(np.abs(numbers).max())
