"""The benchmark of training runs, at its smallest, and prints times that are numbers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "training.py"
ROWS = {"cost": r"^dqn +1 ", "atari-update": r"^ +1 float32 "}


@pytest.fixture(scope="module")
def printed():
    chosen = [word for part in ROWS for word in ("--only", part)]
    command = [sys.executable, str(SCRIPT), "--quick", *chosen]
    done = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", ROWS)
def test_each_part_prints_times_with_and_without_mico(printed, part):
    section = printed.partition(f"\n{part}: ")[2].partition("\n\n")[0]
    (row,) = re.findall(f"{ROWS[part]}.*", section, re.MULTILINE)
    times = re.findall(r"([\d.,]+) \(([\d.,]+)–([\d.,]+)\)", row)
    assert len(times) == 2
    for middle, least, most in ((float(number.replace(",", "")) for number in time) for time in times):
        assert 0 < least <= middle <= most
    assert re.search(r" [+-]\d+\.\d% ", row)
    assert not re.search("nan|inf", row)


def test_memory_is_told_in_units_of_the_replay(printed):
    """A thousand frames, beside which the network and its work are much."""
    (row,) = re.findall(f"{ROWS['atari-update']}.*", printed, re.MULTILINE)
    replay, program = (float(number) for number in row.split("%")[1].split()[:2])
    assert replay == pytest.approx(1000 * 84 * 84 / 2**30, abs=0.005)
    assert 1 < program < 100
