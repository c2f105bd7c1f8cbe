"""Powers by hand and by NumPy's own fit."""

import numpy as np
import pytest

from mico.evidence.scaling import power_law


@pytest.mark.parametrize("k", [-1.0, 0.0, 2.5, 4.0])
def test_an_exact_power_is_found(k):
    x = np.array([2.0, 4.0, 8.0, 16.0])
    power = power_law(x, 3e-6 * x**k)
    assert power.exponent == pytest.approx(k, abs=1e-12)
    assert power.half == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("size", "left_out"), [(2, 0), (3, 1), (4, 1), (5, 2), (6, 2)])
def test_only_the_larger_half_counts(size, left_out):
    x = np.arange(1.0, 1 + size).repeat(2)[::-1]
    overhead = np.where(x <= left_out, 50.0, 0.0)
    assert power_law(x, x**3 + overhead).exponent == pytest.approx(3)
    overhead = np.where(x == left_out + 1, 50.0, 0.0)
    assert power_law(x, x**3 + overhead).exponent < 2.5


def test_the_interval_is_that_of_the_slope():
    rng = np.random.default_rng(0)
    x = np.array([1.0, 2.0, 4.0, 8.0]).repeat(3)
    y = x**2 * np.exp(0.1 * rng.standard_normal(12))
    large = x >= 2
    slope, covariance = np.polyfit(np.log(x[large]), np.log(y[large]), 1, cov=True)
    power = power_law(x, y)
    assert power.exponent == pytest.approx(slope[0])
    assert power.half == pytest.approx(2.3646 * np.sqrt(covariance[0, 0]), rel=1e-4)  # Student, 9 points less 2
    assert power_law(x, y, level=0.5).half == pytest.approx(0.7111 * np.sqrt(covariance[0, 0]), rel=1e-4)


def test_intervals_hold_the_power_as_often_as_they_say():
    rng = np.random.default_rng(0)
    x = np.array([1.0, 2.0, 4.0]).repeat(4)
    hits = [abs((p := power_law(x, x**3 * np.exp(rng.standard_normal(12)))).exponent - 3) < p.half for _ in range(400)]
    assert 0.92 < np.mean(hits) < 0.98


def test_two_points_make_a_power_but_no_interval():
    power = power_law(np.array([1.0, 2.0]), np.array([5.0, 10.0]))
    assert power.exponent == pytest.approx(1)
    assert np.isnan(power.half)


def test_one_value_makes_no_power():
    assert np.isnan(power_law(np.full(3, 2.0), np.arange(1.0, 4.0))).all()
