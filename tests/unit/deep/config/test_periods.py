"""Periods of a schedule: rounding, log periods by their law, and the sentence on short logs."""

import math
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico.deep.config.periods import ROWS, few_rows, log_period, round_up, whole_periods
from mico.deep.config.run import Schedule


@st.composite
def schedules(draw):
    unit = draw(st.integers(1, 8))
    multiple = st.integers(1, 500).map(lambda count: count * unit)
    target = draw(st.none() | multiple)
    return Schedule(draw(multiple), unit, target, log_period=draw(multiple))


@given(schedules(), st.integers(1, 10**6))
def test_a_log_period_gives_enough_rows_where_updates_allow_it(schedule, steps):
    found = log_period(schedule, steps)
    assert 1 <= found <= schedule.log_period
    assert found % schedule.update_period == 0
    assert found <= max(steps // ROWS, schedule.update_period)
    if found < schedule.log_period:  # chunks of steps are no shorter for it than they must be
        between = math.gcd(schedule.learning_starts, schedule.target_period or 0)
        assert math.gcd(between, found) in (between, found)


@given(st.integers(-100, 10**6), st.integers(1, 64))
def test_rounding_up_gives_the_next_multiple(value, unit):
    with pytest.warns(UserWarning, match="rounded up") if value > 0 and value % unit else nullcontext():
        found = round_up("steps", value, unit)
    if value < 1:
        assert found == value
    else:
        assert value <= found < value + unit
        assert found % unit == 0


def test_periods_that_are_none_or_no_numbers_stay():
    fields = {"update_period": 4, "target_period": None, "learning_starts": 8, "log_period": "x", "epsilon": 0.1}
    assert whole_periods(fields) == fields


@pytest.mark.parametrize(("steps", "said"), [(99, "10"), (90, "9 rows, one every 10 steps"), (1, "1 row, after 1 ste")])
def test_fewer_than_ten_rows_are_said(steps, said):
    found = few_rows(Schedule(update_period=1, log_period=10), steps)
    assert found is None if steps == 99 else said in found
