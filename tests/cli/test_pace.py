"""Speed and time left, by a clock of the test's own: compilation and acting are never taken for learning."""

import numpy as np
import pytest

from mico.cli.pace import Pace
from mico.deep.training.train import Progress


def after(*reports, steps=10_000, learns_from=1_000):
    """The pace after reports, each a time, a step and whether something was compiled before it."""
    pace = Pace()
    for now, step, compiled in reports:
        pace.update(now, Progress(step, steps, np.zeros(1), learns_from, compiled))
    return pace


def test_nothing_is_known_before_a_second_report():
    assert Pace().seconds_left() is None
    assert Pace().steps_per_second() is None
    pace = after((0.0, 0, False))
    assert (pace.steps_per_second(), pace.seconds_left()) == (None, None)


def test_steps_that_only_act_say_how_fast_they_are_and_nothing_of_the_time_left():
    pace = after((0.0, 0, False), (5.0, 40, True), (6.0, 540, False))
    assert pace.steps_per_second() == 500
    assert pace.seconds_left() is None


def test_compilation_is_left_out():
    """Ten seconds of compilation, then 100 steps a second: 8,800 more take 88 seconds."""
    reports = [(0.0, 0, False), (3.0, 40, True), (4.0, 1_000, False), (14.0, 1_040, True), (15.0, 1_140, False)]
    pace = after(*reports, (15.6, 1_200, False))
    assert pace.steps_per_second() == pytest.approx(100)
    assert pace.seconds_left() == pytest.approx(88)


def test_a_program_that_is_compiled_later_changes_nothing():
    early = [(0.0, 1_000, False), (1.0, 1_100, False), (2.0, 1_200, False)]
    assert after(*early, (30.0, 1_300, True)).seconds_left() == pytest.approx(87)


def test_acting_and_learning_have_times_of_their_own():
    """As a run that is resumed knows them when its empty replay fills again: both phases, one after the other."""
    pace = Pace()
    for now, step, learns_from in ((0, 1_000, 0), (1, 1_100, 0), (2, 1_200, 4_200), (3, 2_200, 4_200)):
        pace.update(float(now), Progress(step, 10_000, np.zeros(1), learns_from, False))
    # 2,000 steps act, at (100 + 1,000) steps in two seconds, and 5,800 learn at 100 a second
    assert pace.seconds_left() == pytest.approx(2_000 / 550 + 58)


def test_a_training_that_ends_before_it_learns():
    assert after((0.0, 0, False), (1.0, 100, False), steps=500).seconds_left() == pytest.approx(4)


def test_it_is_the_pace_of_the_last_half_minute():
    reports = [(float(second), 1_000 + 10 * min(second, 50) + 100 * max(second - 50, 0), False) for second in range(99)]
    assert after(*reports, steps=100_000).steps_per_second() == pytest.approx(100)


def test_one_interval_longer_than_the_window_is_enough():
    assert after((0.0, 1_000, False), (100.0, 1_040, False)).steps_per_second() == pytest.approx(0.4)


def test_a_moment_is_too_short_to_tell():
    """The first call of a program takes longer than those that follow."""
    assert after((0.0, 1_000, False), (0.04, 1_020, False)).steps_per_second() is None


def test_at_the_end_nothing_is_left():
    assert after((0.0, 1_000, False), (9.0, 10_000, False)).seconds_left() == 0
