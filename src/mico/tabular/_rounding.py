r"""What rounding does to the numbers of a model.

One operation of float64 is off by at most the unit $u = 2^{-53}$ of its result (`UNIT`), a sum of n terms of one sign
by $(n-1)u$ of itself in whatever order it is taken, a quotient of such a sum by one more.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from mico.tabular._validation import Matrix

EPS = float(np.finfo(float).eps)
UNIT = EPS / 2


class Rounding(NamedTuple):
    """How far the numbers of a model can be from those they stand for: a reward, and the entries of a row together.

    A model stands for its arrays as they were given, each row divided by its exact sum.
    """

    reward: float = 0.0
    transition: float = 0.0

    def plus(self, reward: float, transition: float) -> "Rounding":
        """That, and what came later."""
        return Rounding(self.reward + reward, self.transition + transition)

    def error(self, largest: float, discount: float) -> float:
        r"""What that does to a metric $d = |r_x - r_y| + \gamma\,\mathcal C(d)(P_x, P_y)$ that is nowhere larger.

        Each of the two rewards and each of the two rows moves the right side, $\gamma$ times `largest` for a row; the
        equation of the exact numbers contracts by $\gamma$, so the solution is off by that over $1 - \gamma$.
        """
        return 2 * (self.reward + discount * self.transition * largest) / (1 - discount)


EXACT = Rounding()


def longest_row(matrix: Matrix) -> int:
    """How many numbers the sum that made a row a distribution had at most, listed twice or not."""
    if isinstance(matrix, np.ndarray):
        return int(np.count_nonzero(matrix, axis=1).max())
    rows = np.diff(matrix.indptr) if matrix.format == "csr" else np.bincount(matrix.tocoo().coords[0])
    return int(rows.max(initial=0))


def normalising(terms: int) -> float:
    r"""What dividing a row of so many numbers by their sum can do to all of its entries together.

    The sum is off by $(n-1)u$ of itself, each quotient by u more: $nu$ in all. One u is for decimals that the numbers
    stand for (0.1), one for products of errors. A row of one number becomes 1 exactly.
    """
    return (terms + 2) * UNIT if terms > 1 else 0.0


def mean_rounding(terms: int, largest: float) -> float:
    r"""What rounding can do to a mean of so many numbers by weights that were `normalising`.

    $(n + 2)u$ for the weights, $nu$ for products and sums, all of the largest of the numbers; and 2u to spare.
    """
    return (terms + 2) * EPS * largest if terms > 1 else 0.0


def law_rounding(levels: Float[np.ndarray, " k"]) -> float:
    r"""What rounding can do to half of $\mathbb E|R_x - R_y|$ of laws with these levels, of a span s.

    The two rows of shares are off by $(k+2)u$ each; two running sums, a sum over levels and four products or
    differences of them by $(3k+4)u$ more: $(5k + 8)us$ for the whole.
    """
    return (2.5 * levels.size + 5) * UNIT * float(levels[-1] - levels[0])


def centred(reward: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], float]:
    """Rewards less their middle, and that, if they are farther from 0 than from each other: digits are for differences.

    No digit is lost, for then each reward lies between half and twice the middle (Sterbenz, 1974).
    """
    low, high = float(reward.min()), float(reward.max())
    middle = low / 2 + high / 2
    if abs(middle) <= high - low:
        return reward, 0.0
    apart = reward - middle
    apart.setflags(write=False)
    return apart, middle
