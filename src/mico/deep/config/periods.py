"""Periods of a schedule: whole updates, and rows of the log that are close enough together for a curve."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

from mico.deep.config.run import Schedule

ROWS = 40  # a log period that is chosen here gives a run at least so many rows, where its updates allow it
_FEW = 10  # rows, of which fewer make no curve
_PERIODS = ("learning_starts", "target_period", "log_period")


def round_up(name: str, value: int, unit: int) -> int:
    """Round a number of steps up to whole updates, and warn where that changes it.

    Args:
        name: What the number is of, for the warning.
        value: The number as it was given.
        unit: Steps between updates, or frames between them.

    Returns:
        The least multiple of `unit` that is not below the value; a value below 1 as it is, for its own check to refuse.

    Examples:
        >>> round_up("steps", 1000, 4)
        1000
    """
    rounded = whole(value, unit)
    if rounded != value:
        about = f"rounded up to a multiple of {unit:,}, the steps between updates"
        warnings.warn(f"{name} is {rounded:,}, not {value:,}: {about}", stacklevel=2)
    return rounded


def whole(value: int, unit: int) -> int:
    """The least multiple of a unit that is not below a value; numbers below 1 are left for their checks to refuse."""
    return value if value < 1 or unit < 1 else -(-value // unit) * unit


def whole_periods(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a schedule with each of its periods rounded up to a multiple of the update period."""
    unit = fields["update_period"]
    own = {name: fields[name] for name in _PERIODS if isinstance(fields.get(name), int)}
    return {**fields, **{name: round_up(f"schedule.{name}", value, unit) for name, value in own.items()}}


def log_period(schedule: Schedule, steps: int) -> int:
    """The longest log period, up to the schedule's own, that gives `ROWS` rows in so many steps.

    It is a multiple of the update period. Chunks of steps end at rows and at copies of the target network, so it is
    also a multiple or a divisor of the step that those have in common: chunks of a step each would be slow.
    """
    longest = steps // ROWS
    if longest >= schedule.log_period:
        return schedule.log_period
    common = math.gcd(schedule.learning_starts, schedule.target_period or 0)
    if longest >= common:
        return longest - longest % common
    period = schedule.update_period
    fitting = (size for size in range(longest - longest % period, 0, -period) if common % size == 0)
    return next(fitting, period)


def few_rows(schedule: Schedule, steps: int) -> str | None:
    """A sentence for a training whose log has too few rows for a curve, or None.

    Examples:
        >>> few_rows(Schedule(log_period=10_000), 20_000)
        'The log of each run will have 2 rows, one every 10,000 steps: a smaller --schedule.log-period gives a curve.'
        >>> few_rows(Schedule(log_period=10_000), 200_000)
    """
    rows = -(-steps // schedule.log_period)
    if rows >= _FEW:
        return None
    count = "1 row" if rows == 1 else f"{rows} rows"
    every = f"one every {schedule.log_period:,} steps" if rows > 1 else f"after {steps:,} steps"
    return f"The log of each run will have {count}, {every}: a smaller --schedule.log-period gives a curve."
