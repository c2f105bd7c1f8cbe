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
    for middle, least, most in (map(lambda number: float(number.replace(",", "")), time) for time in times):
        assert 0 < least <= middle <= most
    assert re.search(r" [+-]\d+\.\d% ", row)
    assert not re.search("nan|inf", row)


def test_memory_is_at_least_the_replay(printed):
    """Here the network and its work outweigh a replay of so few frames."""
    (row,) = re.findall(f"{ROWS['atari-update']}.*", printed, re.MULTILINE)
    replay, program = (float(number) for number in row.split("%")[1].split()[:2])
    assert 1000 * 84 * 84 <= replay * 2**30 * 1.5
    assert program > 1
