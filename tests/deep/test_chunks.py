"""Chunks end where something is due, and take about two seconds each, whatever the speed."""

import pytest

from mico.deep import chunks as module
from mico.deep.chunks import Chunks
from mico.deep.settings import Schedule

USUAL = {"learning_starts": 1_000, "target_period": 1_000, "log_period": 10_000}  # 8, 20, 40, 100, 200, 500, 1,000


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ({"learning_starts": 40, "target_period": 40, "log_period": 40}, [8, 20, 40]),
        (USUAL, [8, 20, 40, 100, 200, 500, 1_000]),
        (
            {"learning_starts": 20_000, "target_period": 8_000, "log_period": 50_000},  # not 2,000
            [8, 16, 20, 40, 80, 100, 200, 400, 500, 1_000],
        ),
        ({"learning_starts": 40, "target_period": 60, "log_period": 100}, [20]),
        ({"learning_starts": 2_996, "target_period": 2_996, "log_period": 5_992}, [28, 428]),  # of 4·7·107
        ({"learning_starts": 6_000, "target_period": 4_000, "log_period": 4_000, "update_period": 2_000}, [2_000]),
        ({"learning_starts": 35, "target_period": 70, "log_period": 105, "update_period": 5}, [35]),
        ({"learning_starts": 40, "target_period": 4, "log_period": 40}, [4]),
    ],
)
def test_lengths_divide_the_periods(periods, expected):
    chunks = Chunks(Schedule(**periods))
    assert chunks.lengths == expected
    assert chunks.short == max([length for length in expected if length <= 40], default=expected[0])


def played(monkeypatch, schedule, steps, seconds):
    """Where chunks begin and how long they are, if those that begin at a time take so many seconds a step.

    As in the training loop, a chunk is on its way before the one before is finished.
    """
    now, time, found = 0.0, 0, []
    monkeypatch.setattr(module.clock, "monotonic", lambda: now)
    chunks = Chunks(schedule)
    while time < steps:
        learns = time >= schedule.learning_starts
        found.append((time, chunks.next(time, learns=learns)))
        for begin, length in found[-2:-1]:
            now += length * seconds(begin)
            chunks.finished(length, learns=begin >= schedule.learning_starts)
        time += found[-1][1]
    return found


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1e-5, 1_000),
        (0.0, 1_000),
        (0.003, 500),  # of the 667 that take two seconds
        (0.01, 200),
        (0.02, 40),  # of the 100: another program is not worth it
        (0.14, 8),  # of the 14
        (3.0, 8),
    ],
)
def test_a_chunk_takes_about_two_seconds(monkeypatch, seconds, expected):
    schedule = Schedule(**USUAL)
    found = played(monkeypatch, schedule, 12_000, lambda time: seconds)
    assert found[-1][1] == expected
    assert {length for time, length in found if time < 1_000} == {40}
    assert {length for _, length in found} == {40, expected}
    ends = {time + length for time, length in found}
    assert ends >= set(range(1_000, 12_001, 1_000))
    settled = next(time for time, length in found if length == expected and time >= 1_000)
    assert settled <= 2_000


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (1_008, [8, 8, 8, 8, 40]),  # as chunks of eight steps left it
        (1_020, [20, 40, 40]),
        (1_044, [4, 8, 8, 8, 8, 40]),  # the end of a training of so many steps
        (520, [40, 40]),
    ],
)
def test_where_a_training_goes_on_no_chunk_is_of_a_new_length(begin, expected):
    chunks, time, found = Chunks(Schedule(**USUAL)), begin, []
    for _ in expected:
        found.append(chunks.next(time, learns=time >= 1_000))
        time += found[-1]
    assert found == expected


def test_what_is_left_at_the_end_is_a_chunk_of_its_own_wherever_those_before_it_ended():
    """Of 2,028 steps the last four, after chunks of 40 as of 8: a single update is computed otherwise."""
    chunks = Chunks(Schedule(**USUAL))
    assert chunks.lengths[0] == 8
    assert [chunks.even_end(time, 2_024) for time in (0, 2_000, 2_016)] == [2_024] * 3
    assert [chunks.even_end(time, 2_028) for time in (0, 2_000, 2_016, 2_024)] == [2_024] * 3 + [2_028]


def test_a_delay_is_not_the_speed(monkeypatch):
    """Of the first chunk that learns, and of one while a second program is compiled."""
    schedule = Schedule(**USUAL)
    for late in (1_000, 1_040, 1_080):
        found = played(monkeypatch, schedule, 4_000, lambda time: 1.0 if time == late else 0.001)  # noqa: B023
        assert found[-1][1] == 1_000


def test_few_lengths_are_compiled_however_the_speed_changes(monkeypatch):
    schedule = Schedule(**USUAL)
    found = played(monkeypatch, schedule, 60_000, lambda time: (0.0001, 0.5)[time // 4_000 % 2])
    assert 2 <= len({length for _, length in found}) <= 3
