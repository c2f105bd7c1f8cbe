"""Intervals of means against tables, another library and coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mico.evidence.intervals import described, mean_interval, mean_intervals, paired_test, printed, welch_test


def test_three_numbers_by_hand():
    """Mean 2, standard error 1/√3, and 4.3027 is the 97.5% quantile of Student's t with two degrees of freedom."""
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-5)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_against_scipys_interval(level):
    values = np.random.default_rng(0).normal(3, 2, size=11)
    low, high = stats.t.interval(level, 10, loc=values.mean(), scale=stats.sem(values))
    assert mean_interval(values, level) == pytest.approx((values.mean(), low, high))


def test_it_holds_the_true_mean_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(size=(2000, 4))
    held = [low <= 0 <= high for _, low, high in map(mean_interval, draws)]
    assert abs(np.mean(held) - 0.95) < 4 * (0.95 * 0.05 / 2000) ** 0.5


def test_too_few_values_leave_it_open():
    assert np.isnan(mean_interval(np.array([]))).all()
    mean, *bounds = mean_interval(np.array([7.0]))
    assert mean == 7
    assert np.isnan(bounds).all()
    assert mean_interval(np.full(5, 0.25)) == (0.25, 0.25, 0.25)


def test_single_precision_is_summed_in_double():
    values = np.full(10_001, 0.1, dtype=np.float32)
    assert mean_interval(values)[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_that_are_none_are_refused(level):
    with pytest.raises(ValueError, match=f"level must lie between 0 and 1, but is {level}"):
        mean_interval(np.array([1.0, 2.0]), level)


def test_in_print():
    assert described(np.array([1.0, 3.0])) == ("2.00", "-10.71 … 14.71")  # 2 ± 12.706
    assert described(np.array([1234.5])) == ("1,234.50", "–")
    assert described(np.array([])) == ("–", "–")
    assert [printed(number) for number in (0.0, 0.00123, -0.5, float("nan"))] == ["0.00", "0.0012", "-0.50", "–"]


def test_many_intervals_are_those_of_each_group():
    frame = pd.DataFrame({"arm": list("aaabbc"), "step": 1, "value": [1.0, 2.0, 4.0, 3.0, 3.5, 7.0]})
    found = mean_intervals(frame, ("arm", "step"), level=0.75)
    assert found["arm"].tolist() == ["a", "b", "c"]
    assert found["count"].tolist() == [3, 2, 1]
    for row, (_, own) in zip(found.itertuples(), frame.groupby("arm"), strict=True):
        expected = mean_interval(own["value"].to_numpy(), 0.75)
        assert (row.value, row.low, row.high) == pytest.approx(expected, nan_ok=True)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, but is 1"):
        mean_intervals(frame, ("arm",), level=1.0)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 3), (10, 10)])
def test_tests_of_two_samples_against_scipy(n, m):
    rng = np.random.default_rng(n * m)
    x, y = rng.normal(1, 2, n), rng.normal(0, 1, m)
    theirs = stats.ttest_ind(x, y, equal_var=False)
    expected = [x.mean() - y.mean(), *theirs.confidence_interval(0.9), theirs.pvalue]
    assert list(welch_test(x, y, level=0.9)) == pytest.approx(expected)
    if n == m:
        theirs = stats.ttest_rel(x, y)
        expected = [x.mean() - y.mean(), *theirs.confidence_interval(0.9), theirs.pvalue]
        assert list(paired_test(x, y, level=0.9)) == pytest.approx(expected)


def test_samples_that_allow_no_test():
    one, two, equal = np.array([1.0]), np.array([1.0, 3.0]), np.array([2.0, 2.0])
    for test, x, y in ((welch_test, one, two), (paired_test, one, one), (welch_test, equal, equal)):
        found = test(x, y)
        assert found.value == x.mean() - y.mean()
        assert np.isnan(found[1:]).all()
