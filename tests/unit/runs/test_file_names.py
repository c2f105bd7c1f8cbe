"""Names of files: whatever the text, one plain name comes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico._checks import check_plain_name
from mico.runs.file_names import file_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("atari/pong", "atari-pong"),
        ("dqn + MICo (metric.alpha=0.1)", "dqn-mico-metric-alpha-0-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("/absolute\\and\x00null", "absolute-and-null"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("a" * 300, "a" * 100),
        ("格" * 300, "格" * 33),  # three bytes each
    ],
)
def test_names(text, name):
    assert file_name(text) == name


@given(st.text())
def test_every_name_is_plain(text):
    assert check_plain_name(file_name(text), "name") == file_name(text)
