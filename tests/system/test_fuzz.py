"""A short slice of `make fuzz`: inputs of strangers end as an answer or a line, in time, and write nothing outside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


def fuzzed(*options):
    """In a process of its own, where no types are checked: what is odd has to be refused without that."""
    command = [sys.executable, SUPPORT / "fuzzing.py", *options]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=400)


@pytest.mark.parametrize("options", [("--count", 440), ("--kinds", "resume", "--count", 6)])
def test_inputs_of_strangers(options):
    done = fuzzed(*options)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-4000:]
    assert f"{options[-1]} inputs from 0: 0 failed" in done.stdout


def test_an_input_is_the_same_every_time_and_a_failure_is_told(tmp_path):
    """By a kind that always fails: its number and where."""
    (tmp_path / "broken.py").write_text(
        "import fuzzing\nfuzzing.Fuzzer.csv = lambda self, rng: {}[rng.randrange(10**9)]\nfuzzing.main()\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, str(tmp_path / "broken.py"), "--kinds", "csv", "--first", "7", "--count", "1"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
            timeout=200,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [1, 1]
    told = [re.findall(r"input 7, csv:|KeyError: \d+", run.stdout) for run in runs]
    assert told[0] == told[1]
    assert len(told[0]) == 2
