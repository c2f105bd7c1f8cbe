"""Counts are read as people type them, and names that become paths are plain."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mico._checks import check_plain_name, count, make_plain_name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("200000", 200_000),
        ("10_000", 10_000),
        ("1,000", 1_000),
        ("1e6", 1_000_000),
        ("1E+3", 1_000),
        ("200k", 200_000),
        ("200K", 200_000),
        ("2M", 2_000_000),
        ("2.5M", 2_500_000),
        ("1.1k", 1_100),
        ("1e3k", 1_000_000),
        ("-5", -5),
        (" 7 ", 7),
        (7, 7),
        (7.0, 7),
        ("12345678901234567890", 12345678901234567890),
    ],
)
def test_counts_are_read_as_they_are_typed(typed, meant):
    assert count(typed) == meant
    assert type(count(typed)) is int


@pytest.mark.parametrize(
    "typed", ["x", "", "1.5", "k", "nan", "inf", "1e400", ".", "e5", "1 0", "0x10", True, None, [], 1.5, float("nan")]
)
def test_what_is_no_whole_number_is_refused(typed):
    with pytest.raises(ValueError, match="steps must be a whole number"):
        count(typed, "steps")


@given(st.integers(-(10**12), 10**12))
def test_every_integer_is_read_from_its_digits(number):
    assert count(str(number)) == count(f"{number:,}") == count(f"{number:_}") == number


@pytest.mark.parametrize("name", ["dqn-mico-seed0", "α=0.1, β", "a b", ".hidden", "..."])
def test_plain_names_are_taken(name):
    assert check_plain_name(name, "run") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "a/b", "/abs", "a\\b", "nul\0", "tab\t", "\x1b[31m", "x" * 201, "\ud800", 5, None]
)
def test_names_that_are_not_plain_are_refused(name):
    with pytest.raises(ValueError, match="run must be"):
        check_plain_name(name, "run")


@pytest.mark.parametrize(
    "name", ["dqn-mico-alpha0.1-seed0", "000-mdp-four-rooms-dqn", "Ωμέγα", "a b", ".hidden", "x" * 200]
)
def test_plain_names_stay_as_they_are(name):
    assert make_plain_name(name) == name


@given(st.text(max_size=400), st.text(max_size=400))
@example("a/b", "a-b")
@example("a/b", "a\\b")
@example("", "..")
@example("x" * 300, "x" * 301)
@example("ü" * 300, "\ud800")
@example("\ud800", "\\ud800")
def test_any_text_becomes_a_plain_name_and_different_texts_different_ones(one, other):
    names = make_plain_name(one), make_plain_name(other)
    for name in names:
        assert check_plain_name(name, "name") == name
    assert (one == other) == (names[0] == names[1])


def test_whole_numbers_beyond_floating_point_are_themselves():
    assert count(10**400) == 10**400
