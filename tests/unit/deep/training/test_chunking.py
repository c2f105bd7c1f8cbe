"""Chunks end where something is due, and take about two seconds each, whatever the speed."""

import pytest

from mico.deep.config.run import Schedule
from mico.deep.training import chunking as module
from mico.deep.training.chunking import Chunks

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


def played(monkeypatch, schedule, end, seconds, begin=0, **options):
    """Where chunks begin and how long they are, if those that begin at a time take so many seconds a step.

    As in the training loop, a chunk is on its way before the one before is finished.
    """
    now, time, found = 0.0, begin, []
    monkeypatch.setattr(module.clock, "monotonic", lambda: now)
    chunks = Chunks(schedule, **options)
    while time < end:
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
    chunks = Chunks(Schedule(**USUAL), 2_028)
    assert chunks.lengths[0] == 8
    assert [chunks.next(time, learns=True) for time in (1_960, 2_000, 2_016, 2_024)] == [40, 24, 8, 4]


def test_a_delay_is_not_the_speed(monkeypatch):
    """Of the first chunk that learns, and of one while a second program is compiled."""
    schedule = Schedule(**USUAL)
    for late in (1_000, 1_040, 1_080):
        found = played(monkeypatch, schedule, 4_000, lambda time: 1.0 if time == late else 0.001)  # noqa: B023
        assert found[-1][1] == 1_000


def test_few_lengths_are_compiled_however_the_speed_changes(monkeypatch):
    schedule = Schedule(**USUAL)
    found = played(monkeypatch, schedule, 60_000, lambda time: (0.0001, 0.5)[time // 4_000 % 2])
    assert 2 <= len({length for time, length in found if time >= 1_000}) <= 3


ROOMS = {"learning_starts": 1_000, "target_period": 500, "log_period": 5_000}  # 20, 100, 500


@pytest.mark.parametrize(
    ("periods", "steps", "expected"),
    [
        (ROOMS, 3_000, {500}),  # four chunks to the end
        (ROOMS, 3_300, {100}),  # which 500 would not fill
        (ROOMS, 3_320, {20}),
        (USUAL, 2_900, {8, 4}),  # four are left of a single update, which is computed otherwise
        (USUAL, 100_000, {1_000}),
        (USUAL, 100_200, {200}),  # half a second of the host's is less than another program
        (USUAL, 1_000_040, {1_000, 40}),  # here it is more, and the last steps have a program of their own
    ],
)
def test_a_short_training_has_one_program_that_learns(monkeypatch, periods, steps, expected):
    """Steps that act take a hundred thousandth of a second, those that learn ten times as long."""
    found = played(monkeypatch, Schedule(**periods), steps, lambda time: 1e-5 if time < 1_000 else 1e-4, steps=steps)
    assert {length for time, length in found if time >= 1_000} == expected
    assert {length for time, length in found if time < 1_000} == {20 if periods is ROOMS else 40}
    assert sum(length for _, length in found) == steps


@pytest.mark.parametrize(("steps", "expected"), [(30_000, {40}), (3_000_000, {40, 1_000})])
def test_a_resumed_training_has_another_length_only_if_it_is_worth_a_program(monkeypatch, steps, expected):
    """Nothing is known of its speed at first, so that chunks have forty steps."""
    found = played(monkeypatch, Schedule(**USUAL), steps, lambda time: 1e-4, begin=2_000, steps=steps)
    assert {length for _, length in found} == expected


def test_where_lengths_are_no_programs_any_is_free(monkeypatch):
    options = {"begin": 2_000, "steps": 30_008, "compilation": 0.0}
    found = played(monkeypatch, Schedule(**USUAL), 30_008, lambda time: 1e-4, **options)
    assert found[-2:] == [(29_000, 1_000), (30_000, 8)]


def test_steps_that_learn_far_slower_than_expected_have_shorter_chunks_soon(monkeypatch):
    """Ten thousand times as slow as acting: chunks are two seconds again after three that were too long."""
    schedule = Schedule(**USUAL)
    found = played(monkeypatch, schedule, 20_000, lambda time: 1e-6 if time < 1_000 else 1e-2, steps=20_000)
    assert [length for time, length in found if time >= 1_000][:5] == [1_000] * 4 + [200]
