"""How alike two distances are over a block of pairs: by ranks, by nearest neighbours, in size."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from mico.tabular import MICoFactors
from mico.tabular.metrics.factored import Kind


class Sample(NamedTuple):
    """Every one of `states` with every one of `others`; the first `ranked` of the others are compared by ranks."""

    states: Int[np.ndarray, " Q"]
    others: Int[np.ndarray, " C"]
    ranked: int

    @property
    def apart(self) -> Bool[np.ndarray, "Q C"]:
        """Mask of the pairs of two different states."""
        return self.states[:, None] != self.others

    def exact(self, distance: MICoFactors, metric: Kind) -> Float[np.ndarray, "Q C"]:
        return np.stack([distance.pairs(state, self.others, metric) for state in self.states])


def sample(num_states: int, *, states: int, others: int, pairs: int, seed: int) -> Sample:
    """Sample states in random order, at most so many; about so many pairs are compared by ranks."""
    order, other = (np.random.default_rng(each).permutation(num_states) for each in (seed, seed + 1))
    chosen = order[:states]
    return Sample(chosen, other[:others], min(num_states, others, -(-pairs // chosen.size)))


def agreement(
    found: Float[np.ndarray, "Q C"], exact: Float[np.ndarray, "Q C"], sample: Sample, *, count: int, tolerance: float
) -> dict[str, float]:
    r"""Spearman's `rank` correlation, the share of nearest neighbours `kept`, and the `error` $\|d - U\| / \|U\|$.

    Exact distances closer than their tolerance are ties.
    """
    apart = sample.apart
    ranked = np.zeros_like(apart)
    ranked[:, : sample.ranked] = apart[:, : sample.ranked]
    level = np.rint(exact[ranked] / tolerance)
    size = np.sqrt(np.mean(exact[ranked] ** 2))
    far = np.where(apart, found, np.inf), np.where(apart, exact, np.inf)
    return {
        "rank": float(stats.spearmanr(found[ranked], level).statistic) if np.ptp(found[ranked]) > 0 else 0.0,
        "kept": neighbours_kept(*far, count=count, tolerance=tolerance),
        "error": float(np.sqrt(np.mean((found[ranked] - exact[ranked]) ** 2)) / size),
    }


def neighbours_kept(
    found: Float[np.ndarray, "Q C"], exact: Float[np.ndarray, "Q C"], *, count: int, tolerance: float
) -> float:
    """Share of the `count` neighbours found that are no further than the true `count`-th neighbour.

    So each of several that are equally near is as good as another.
    """
    near = np.argpartition(found, count - 1, axis=1)[:, :count]
    limit = np.partition(exact, count - 1, axis=1)[:, count - 1 : count]
    return float((np.take_along_axis(exact, near, axis=1) <= limit + tolerance).mean())
