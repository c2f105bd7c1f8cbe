"""Benchmarks of two revisions in one run: what is compared, by hand, and one benchmark from start to end."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def against(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import against

    return against


def test_ratios_say_how_many_times_as_good_the_working_tree_is(against):
    """Of times less is better, of rates more; a figure that one side lacks is left out."""
    pairs = [
        ({("solve", "s"): 4.0, ("play", "/s"): 10.0, ("gone", "s"): 1.0}, {("solve", "s"): 1.0, ("play", "/s"): 30.0}),
        ({("solve", "s"): 6.0, ("play", "/s"): 10.0}, {("solve", "s"): 2.0, ("play", "/s"): 20.0}),
    ]
    solving, playing = against.lines(pairs)
    assert re.findall(r"[\d.]+", solving) == ["5", "1.5", "3.50", "3.00", "4.00"]
    assert re.findall(r"[\d.]+", playing) == ["10", "25", "2.50", "2.00", "3.00"]


def test_flags_that_the_benchmark_itself_is_given(against):
    flags = ["--only", "dense", "--against", "HEAD", "--turns=2", "--repeats", "3"]
    assert against._without(flags, ("--against", "--turns")) == ["--only", "dense", "--repeats", "3"]


def test_nothing_is_recorded_where_nothing_is_compared(against, monkeypatch, tmp_path):
    monkeypatch.delenv("MICO_BENCHMARK_FIGURES", raising=False)
    against.record("solve", 1.0)
    assert not against.comparing()
    monkeypatch.setenv("MICO_BENCHMARK_FIGURES", str(tmp_path / "figures"))
    against.record("solve", 1.0)
    assert (tmp_path / "figures").read_text() == '["solve", "s", 1.0]\n'


def test_a_benchmark_against_the_last_commit():
    if not (ROOT / ".git").exists():
        pytest.skip("no commits here")
    command = [sys.executable, ROOT / "benchmarks" / "bootstrap.py", "--resamples", "50", "--against", "HEAD"]
    done = subprocess.run([*command, "--turns", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, *rows = done.stdout.splitlines()
    assert rows[0].startswith("iqm ")
    for row in rows:
        old, new, ratio, least, most = map(float, re.findall(r"[\d.]+(?:e-\d+)?", row.partition("  ")[2])[-5:])
        assert ratio == least == most == pytest.approx(old / new, abs=0.01 + 0.002 * ratio)
    trees = subprocess.run(["git", "-C", ROOT, "worktree", "list"], capture_output=True, text=True).stdout
    assert "mico-revision-" not in trees
