"""Speed of the bootstrap against a plain loop and SciPy: 60 tasks × 5 runs, each ratio measured in one run.

python benchmarks/bootstrap.py                    50,000 resamples
python benchmarks/bootstrap.py --resamples 500   quickly
python benchmarks/bootstrap.py --against REV     beside another commit, in turns
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from against import parse, record
from mico.evidence.statistics import AGGREGATES, difference, estimate, improvement_probability, profile


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The quickest of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def loop(scores: np.ndarray, resamples: int) -> np.ndarray:
    """One resample after the other, with SciPy's trimmed mean."""
    rng = np.random.default_rng(0)
    runs, tasks = scores.shape
    drawn = [
        stats.trim_mean(scores[rng.integers(runs, size=(runs, tasks)), np.arange(tasks)], 0.25, axis=None)
        for _ in range(resamples)
    ]
    return np.quantile(drawn, [0.025, 0.975])


def scipy_bootstrap(scores: np.ndarray, resamples: int) -> object:
    """Each task is a sample of its own, so that SciPy resamples within tasks too."""

    def iqm(*tasks: np.ndarray, axis: int) -> np.ndarray:
        return stats.trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)

    return stats.bootstrap(tuple(scores.T), iqm, n_resamples=resamples, batch=1000, method="percentile", rng=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=50_000)
    resamples = parse(parser).resamples
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5, 60))
    print(f"{resamples:,} resamples of 60 tasks × 5 runs")
    ours = seconds(lambda: estimate(x, "iqm", seed=0, resamples=resamples), repeats=3)
    print(f"{'iqm':<26} {ours:>8.3f} s")
    record("iqm", ours)
    for name, other in (("a loop in Python", loop), ("scipy.stats.bootstrap", scipy_bootstrap)):
        theirs = seconds(lambda other=other: other(x, resamples), repeats=1)
        print(f"{'iqm by ' + name:<26} {theirs:>8.3f} s {theirs / ours:>7.1f}×")
    options = {"seed": 0, "resamples": resamples}
    rest = {
        **{name: lambda name=name: estimate(x, name, **options) for name in AGGREGATES if name != "iqm"},
        "difference of iqm": lambda: difference(x, y, "iqm", **options),
        "probability of improvement": lambda: improvement_probability(x, y, **options),
        "profile, 100 thresholds": lambda: profile(x, np.linspace(-2, 2, 100), **options),
    }
    for name, work in rest.items():
        ours = seconds(work, repeats=3)
        print(f"{name:<26} {ours:>8.3f} s")
        record(name, ours)


if __name__ == "__main__":
    main()
