"""Cells in turn and on disk: the same table, nothing measured twice, nothing lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mico.experiments.cells import OnDisk, in_turn

FOLDER = Path(__file__).parent


def measured(cell):
    """Two lines with numbers that need all their digits, a word and a gap; and a mark that it was measured."""
    index, folder = cell
    with Path(folder, "marks").open("a") as marks:
        marks.write(f"{index} {os.environ['OPENBLAS_NUM_THREADS']}\n" if "OPENBLAS_NUM_THREADS" in os.environ else "")
    value = np.random.default_rng(index).normal(size=2) * 10.0 ** (index - 3)
    return pd.DataFrame({"index": index, "value": value, "word": ["nan", "a,b"], "gap": [np.nan, 1.0]})


def killed(cell):
    os.kill(os.getpid(), signal.SIGKILL)


def failing(cell):
    if cell[0] == 3:
        raise ValueError("cell must not be 3")
    return measured(cell)


def cells(folder):
    return [(index, str(folder)) for index in range(6)]


def marks(folder):
    return sorted(line.split()[0] for line in (folder / "marks").read_text().splitlines())


def test_on_disk_is_in_turn_to_the_last_digit_whatever_the_workers(tmp_path):
    one, other = (OnDisk(tmp_path / str(workers), workers)(measured, cells(tmp_path)) for workers in (1, 2))
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    pd.testing.assert_frame_equal(one, in_turn(measured, cells(tmp_path)), check_exact=True)
    assert marks(tmp_path) == sorted([str(index) for index in range(6)] * 2)
    assert {line.split()[1] for line in (tmp_path / "marks").read_text().splitlines()} == {"1"}
    assert "OPENBLAS_NUM_THREADS" not in os.environ or os.environ["OPENBLAS_NUM_THREADS"] != "1"


def test_what_is_there_is_not_measured_again_and_reports_count_it(tmp_path):
    with pytest.raises(ValueError, match="cell must not be 3"):
        OnDisk(tmp_path, 1)(failing, cells(tmp_path))
    kept = {path.stem for path in (tmp_path / "cells").iterdir()}
    assert {"0", "1", "2"} <= kept < {"0", "1", "2", "3", "4", "5"}
    (tmp_path / "marks").unlink()
    seen = []
    frame = OnDisk(tmp_path, 1, lambda *counts: seen.append(counts))(measured, cells(tmp_path))
    assert set(marks(tmp_path)) == {"0", "1", "2", "3", "4", "5"} - kept
    assert seen == [(done, 6) for done in range(len(kept), 7)]
    pd.testing.assert_frame_equal(frame, in_turn(measured, cells(tmp_path)), check_exact=True)


def test_forgetting_leaves_no_cells(tmp_path):
    evaluation = OnDisk(tmp_path, 1)
    evaluation(measured, cells(tmp_path)[:1])
    evaluation.forget()
    assert [path.name for path in tmp_path.iterdir()] == ["marks"]


def test_a_worker_that_is_killed_is_named_and_does_not_hang(tmp_path):
    with pytest.raises(ValueError, match="a worker process ended before its time"):
        OnDisk(tmp_path, 1)(killed, cells(tmp_path)[:1])


def sleepy(cell):
    Path(cell[1], f"at-{os.getpid()}").touch()
    time.sleep(60)


def test_workers_end_with_their_parent(tmp_path):
    code = (
        "import sys; from pathlib import Path; from mico.experiments.cells import OnDisk; from test_cells import *\n"
        "if __name__ == '__main__': OnDisk(Path(sys.argv[1]), 2)(sleepy, cells(Path(sys.argv[1])))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    paths = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    parent = subprocess.Popen([sys.executable, script, tmp_path], env=os.environ | {"PYTHONPATH": paths})
    started = lambda: [int(path.name[3:]) for path in tmp_path.glob("at-*")]  # noqa: E731
    wait_for(lambda: len(started()) == 2)
    assert all(Path(f"/proc/{worker}").exists() for worker in started())
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in started()))


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
