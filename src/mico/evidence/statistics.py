"""How good an arm is over runs and tasks, and how sure that is: aggregates with stratified bootstrap intervals.

Scores are a matrix, runs (seeds) as rows and tasks (environments) as columns, or a DataFrame with these labels.
Runs are resampled within each task. A single run cannot be: the ends of its interval are NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from mico.evidence.tables import OtherTable, Table, matrix, on_same_tasks, paired

_BATCH = 2**19  # numbers at a time: the caches hold them, and memory does not grow with the resamples
RESAMPLES = 50_000  # of tables
CURVE_RESAMPLES = 2_000  # of every point of a curve
MOST_RESAMPLES = 1_000_000  # a profile of 81 thresholds then takes 650 MB


class Estimate(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float


class Band(NamedTuple):
    """Values along an axis and the ends of their intervals."""

    value: Float[np.ndarray, " points"]
    low: Float[np.ndarray, " points"]
    high: Float[np.ndarray, " points"]


def iqm(scores: Float[np.ndarray, "*batch runs tasks"]) -> Float[np.ndarray, "*batch"] | float:
    """The interquartile mean: of all scores, runs and tasks together, without the lowest and the highest quarter."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def mean(scores: Float[np.ndarray, "*batch runs tasks"]) -> Float[np.ndarray, "*batch"] | float:
    """The mean over tasks of their means over runs."""
    return scores.mean(axis=(-2, -1))


def median(scores: Float[np.ndarray, "*batch runs tasks"]) -> Float[np.ndarray, "*batch"] | float:
    """The median over tasks of their means over runs."""
    return np.median(scores.mean(axis=-2), axis=-1)


def optimality_gap(scores: Float[np.ndarray, "*batch runs tasks"]) -> Float[np.ndarray, "*batch"] | float:
    r"""Optimality gap $\mathbb E \max(1 - x, 0)$: scores above 1 do not make up for those below."""
    return np.maximum(1 - scores, 0).mean(axis=(-2, -1))


AGGREGATES: dict[str, Callable[[np.ndarray], Any]] = {
    "iqm": iqm,
    "mean": mean,
    "median": median,
    "optimality-gap": optimality_gap,
}


def estimate(scores: Table, aggregate: str, *, seed: int, resamples: int = RESAMPLES, level: float = 0.95) -> Estimate:
    """An aggregate of the scores and its bootstrap interval."""
    of, bootstrap, values = _aggregate(aggregate), _Bootstrap(seed, resamples, level), matrix(scores, "scores")

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        return of(_chosen(values, _rows(rng, count, values)))

    return Estimate(float(of(values)), *bootstrap.interval(draw, values.size, len(values)).tolist())


def difference(
    x: Table, y: Table, aggregate: str, *, seed: int, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """How much larger an aggregate is for x than for y: they share seeds, and a resample takes the same of both."""
    of, bootstrap, (first, second) = _aggregate(aggregate), _Bootstrap(seed, resamples, level), paired(x, y)

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        rows = _rows(rng, count, first)
        return of(_chosen(first, rows)) - of(_chosen(second, rows))

    return Estimate(float(of(first) - of(second)), *bootstrap.interval(draw, first.size, len(first)).tolist())


def unpaired_difference(
    x: Table, y: OtherTable, aggregate: str, *, seed: int, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """How much larger an aggregate is for x than for y, each resampled by itself, as if they shared no seeds."""
    of, bootstrap, (first, second) = _aggregate(aggregate), _Bootstrap(seed, resamples, level), on_same_tasks(x, y)

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        return of(_chosen(first, _rows(rng, count, first))) - of(_chosen(second, _rows(rng, count, second)))

    runs = min(len(first), len(second))
    return Estimate(float(of(first) - of(second)), *bootstrap.interval(draw, first.size + second.size, runs).tolist())


def adjust_p_values(p: Float[np.ndarray, " tests"], method: str) -> Float[np.ndarray, " tests"]:
    r"""Correct p-values for their number n: a test is significant at level a if its corrected value is at most a.

    Args:
        p: A p-value for each test.
        method: "benjamini-hochberg", which bounds the expected share of false ones among those that are significant:
            $\min_{j \ge i} p_{(j)}\, n / j$; or "holm", which bounds the probability that any is:
            $\max_{j \le i} p_{(j)} (n - j + 1)$, with the i-th smallest $p_{(i)}$. None exceeds 1.

    Returns:
        The corrected values, in the order of p.

    Examples:
        >>> adjust_p_values(np.array([0.01, 0.04, 0.03]), "holm")
        array([0.03, 0.06, 0.06])
    """
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p must be probabilities, got {p}")
    order, n = np.argsort(p, kind="stable"), len(p)
    rank = np.arange(1, n + 1)
    if method == "benjamini-hochberg":
        corrected = np.minimum.accumulate((p[order] * n / rank)[::-1])[::-1]
    elif method == "holm":
        corrected = np.maximum.accumulate(p[order] * (n - rank + 1))
    else:
        raise ValueError(f"method must be benjamini-hochberg or holm, got {method!r}")
    found = np.empty(n)
    found[order] = np.minimum(corrected, 1.0)
    return found


def improvement_probability(
    x: Table, y: OtherTable, *, seed: int, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    r"""$P(X > Y) + \frac12 P(X = Y)$ of a run of x and a run of y on the same task, the mean over tasks.

    Every run is compared with every other, so that seeds need not be shared; each arm is resampled by itself.
    """
    bootstrap, (first, second) = _Bootstrap(seed, resamples, level), on_same_tasks(x, y)
    wins = (first[:, None] > second) + (first[:, None] == second) / 2
    task = np.arange(first.shape[1])

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        rows, others = _rows(rng, count, first), _rows(rng, count, second)
        return wins[rows[:, :, None], others[:, None], task].mean(axis=(1, 2, 3))

    return Estimate(float(wins.mean()), *bootstrap.interval(draw, wins.size, min(len(first), len(second))).tolist())


def profile(
    scores: Table,
    thresholds: Real[np.ndarray, " thresholds"] | Sequence[int | float],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Band:
    r"""The performance profile $P(X > \tau)$: the share of all runs on all tasks with a score above each threshold."""
    bootstrap, values = _Bootstrap(seed, resamples, level), matrix(scores, "scores")
    thresholds = np.asarray(thresholds)
    if thresholds.ndim != 1 or thresholds.size == 0 or not (np.diff(thresholds) > 0).all():
        raise ValueError(f"thresholds must be numbers that rise, but are {thresholds}")
    passed = np.searchsorted(thresholds, values, side="left")  # how many of the thresholds a score is above

    def shares(passed: Int[np.ndarray, "count runs tasks"]) -> Float[np.ndarray, "count thresholds"]:
        """Shares of scores above each threshold, by counting how many thresholds each score passes."""
        count, bins = len(passed), thresholds.size + 1
        own = np.arange(count)[:, None, None] * bins + passed
        histogram = np.bincount(own.ravel(), minlength=count * bins).reshape(count, bins)
        return histogram[:, ::-1].cumsum(axis=1)[:, -2::-1] / values.size

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        return shares(_chosen(passed, _rows(rng, count, values)))

    return Band(shares(passed[None])[0], *bootstrap.interval(draw, values.size + thresholds.size, len(values)))


@dataclass(frozen=True)
class _Bootstrap:
    """How often to resample, from which seed, and what share of the results the interval holds."""

    seed: int
    resamples: int
    level: float

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, but is {self.seed}")
        if not 1 <= self.resamples <= MOST_RESAMPLES:
            raise ValueError(f"resamples must be from 1 to {MOST_RESAMPLES:,}, got {self.resamples}")
        if not 0 < self.level < 1:
            raise ValueError(f"level must lie between 0 and 1, but is {self.level}")

    def interval(
        self, draw: Callable[[np.random.Generator, int], np.ndarray], size: int, runs: int
    ) -> Float[np.ndarray, "2 ..."]:
        """The ends of the percentile interval of what `draw` gives, in batches by the numbers that a resample takes."""
        rng = np.random.default_rng(self.seed)
        batch = max(_BATCH // size, 1)
        counts = [min(batch, self.resamples - start) for start in range(0, self.resamples, batch)]
        drawn = np.concatenate([draw(rng, count) for count in counts])
        ends = np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)
        return ends if runs > 1 else np.full_like(ends, np.nan)


def _rows(
    rng: np.random.Generator, count: int, values: Real[np.ndarray, "runs tasks"]
) -> Int[np.ndarray, "count runs tasks"]:
    """Draw the runs of each resample: in every task as many as there are, with replacement."""
    return rng.integers(len(values), size=(count, *values.shape))


def _chosen(
    values: Real[np.ndarray, "runs tasks"], rows: Int[np.ndarray, "count runs tasks"]
) -> Real[np.ndarray, "count runs tasks"]:
    return values[rows, np.arange(values.shape[1])]


def _aggregate(name: str) -> Callable[[np.ndarray], Any]:
    if name not in AGGREGATES:
        raise ValueError(f"aggregate must be one of {', '.join(AGGREGATES)}, but is {name!r}")
    return AGGREGATES[name]
