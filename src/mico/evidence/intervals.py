"""How sure a mean is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit  # `scipy.stats`, which has it by another name, takes half a second to import

if TYPE_CHECKING:
    import pandas

LEVEL = 0.75  # of intervals around curves
_LARGE = 1000.0  # and larger: numbers without decimals


def mean_interval(values: Float[np.ndarray, " N"], level: float = 0.95) -> tuple[float, float, float]:
    r"""The mean and $\bar x \pm t_{N-1}\, s / \sqrt N$ (Student); NaN where there are too few values for it."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, but is {level}")
    values = values.astype(float)
    mean = float(np.mean(values)) if values.size else float("nan")
    if values.size < 2:
        return mean, float("nan"), float("nan")
    half = float(stdtrit(values.size - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(values.size))
    return mean, mean - half, mean + half


def mean_intervals(frame: "pandas.DataFrame", by: Sequence[str], level: float = 0.95) -> "pandas.DataFrame":
    """Mean and interval of `value` for each group of rows: the columns `by`, then value, low, high and count."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, but is {level}")
    import pandas as pd

    groups = frame.groupby([*by], sort=False)["value"]
    mean, count = groups.mean(), groups.count()
    half = groups.sem() * stdtrit(count.clip(lower=2) - 1, (1 + level) / 2)
    return pd.DataFrame({"value": mean, "low": mean - half, "high": mean + half, "count": count}).reset_index()


class TestResult(NamedTuple):
    """A difference of means with its interval, and the p-value of no difference."""

    value: float
    low: float
    high: float
    p: float


def paired_test(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], level: float = 0.95) -> TestResult:
    """Student's test of the differences x - y of pairs; NaN where there are fewer than two or all are equal."""
    gains = x.astype(float) - y.astype(float)
    error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else np.nan
    return _test(float(gains.mean()), float(error), gains.size - 1, level)


def welch_test(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " M"], level: float = 0.95) -> TestResult:
    r"""Welch's test of two independent samples; NaN where there are fewer than two of either, or all are equal.

    It has $\nu = (a + b)^2 / (a^2 / (N - 1) + b^2 / (M - 1))$ degrees of freedom with the squared errors a and b of the
    means.
    """
    value = float(x.mean(dtype=float) - y.mean(dtype=float))
    if min(x.size, y.size) < 2:
        return TestResult(value, np.nan, np.nan, np.nan)
    a, b = (float(one.astype(float).var(ddof=1)) / one.size for one in (x, y))
    freedom = (a + b) ** 2 / (a**2 / (x.size - 1) + b**2 / (y.size - 1)) if a + b > 0 else np.nan
    return _test(value, float(np.sqrt(a + b)), freedom, level)


def _test(value: float, error: float, freedom: int | float, level: float) -> TestResult:
    if not error > 0:
        return TestResult(value, np.nan, np.nan, np.nan)
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return TestResult(value, value - half, value + half, float(2 * stdtr(freedom, -abs(value) / error)))


def described(values: Float[np.ndarray, " N"]) -> tuple[str, str]:
    """The mean and its 95% interval in print; a dash where there is none."""
    mean, low, high = mean_interval(values)
    return printed(mean), f"{printed(low)} … {printed(high)}" if values.size > 1 else "–"


def printed(number: float) -> str:
    """With two decimals, or two digits of a small number; a dash for NaN."""
    if np.isnan(number):
        return "–"
    return f"{number:,.2f}" if number == 0 or abs(number) >= 0.1 else f"{number:.2g}"


def bracketed(value: float, low: float = np.nan, high: float = np.nan) -> str:
    """A value with its interval in brackets, as "0.75 [0.50, 1.00]"; without one, where its ends are NaN."""
    whole = abs(value) >= _LARGE
    shown = [f"{number:,.0f}" if whole else printed(number) for number in (value, low, high)]
    text = shown[0] if np.isnan(low) else f"{shown[0]} [{shown[1]}, {shown[2]}]"
    return text.replace("-", "−")
