"""The log of a run: what is appended comes back, whatever happened in between."""

import builtins
import errno
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico.runs.log import Log, TensorBoard, read_log
from tensorboards import events

ROWS = [{"step": 4, "loss": 0.1, "return": 3}, {"step": 8, "loss": 1e-300}]


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "log.jsonl")


def test_rows_come_back_as_columns(log):
    log.append(ROWS[:1])
    log.append(ROWS[1:])
    table = read_log(log.path)
    assert table["step"].tolist() == [4, 8]
    assert table["loss"].tolist() == [0.1, 1e-300]
    assert table["return"].iloc[0] == 3
    assert math.isnan(table["return"].iloc[1])


@given(st.lists(st.floats() | st.floats(width=32).map(np.float32) | st.integers(-(2**63), 2**63 - 1)))
def test_every_number_comes_back_exactly(tmp_path_factory, values):
    log = Log(tmp_path_factory.mktemp("log") / "log.jsonl")
    log.append([{"step": 0} | {f"x{i}": value for i, value in enumerate(values)}])
    json.loads(log.path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    table = read_log(log.path)
    for i, value in enumerate(values):
        assert repr(type(value)(table[f"x{i}"].tolist()[0])) == repr(value)


def test_numbers_that_are_not_finite_are_strings_in_the_file_and_numbers_again(log):
    log.append([{"step": i, "x": value} for i, value in enumerate([math.nan, math.inf, -math.inf])])
    assert [json.loads(line)["x"] for line in log.path.read_text().splitlines()] == ["NaN", "Infinity", "-Infinity"]
    nan, *infinite = read_log(log.path)["x"].tolist()
    assert math.isnan(nan)
    assert infinite == [math.inf, -math.inf]


def test_numpy_numbers_and_truth_values_are_numbers(log):
    log.append([{"step": np.int64(3), "x": np.float32(0.1), "done": True}])
    assert json.loads(log.path.read_text()) == {"step": 3, "x": float(np.float32(0.1)), "done": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"loss": 1.0}, "a row needs a whole number as step, not None"),
        ({"step": 1.5}, r"a row needs a whole number as step, not 1\.5"),
        ({"step": 1, "name": "x"}, "rows hold numbers, but 'name' is 'x'"),
        ({"step": 1, "loss": np.zeros(2)}, "rows hold numbers, but 'loss' is array"),
        ({"step": 1, "loss": None}, "rows hold numbers, but 'loss' is None"),
    ],
)
def test_what_is_no_row_is_refused_and_nothing_is_written(log, row, message):
    with pytest.raises(ValueError, match=message):
        log.append([ROWS[0], row])
    assert log.position == 0


def test_one_append_is_one_write_and_leaves_no_file_open(log, monkeypatch):
    writes = []

    class Counted:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def tell(self):
            return self.file.tell()

        def write(self, data):
            writes.append(bytes(data))
            return self.file.write(data)

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("mico.runs.log.open", lambda *a, **k: Counted(open(*a, **k)), raising=False)  # noqa: SIM115
    log.append(ROWS)
    monkeypatch.undo()
    assert writes == [log.path.read_bytes()]
    assert writes[0].count(b"\n") == 2
    assert len(os.listdir("/proc/self/fd")) == before


def test_cut_forgets_what_came_after_a_position(log):
    assert log.position == 0
    log.append(ROWS[:1])
    position = log.position
    assert position == log.path.stat().st_size
    log.append(ROWS[1:])
    log.cut(position)
    assert read_log(log.path)["step"].tolist() == [4]
    log.append([{"step": 9}])
    assert read_log(log.path)["step"].tolist() == [4, 9]
    log.cut(0)
    assert log.position == 0


def test_cut_removes_a_row_that_was_half_written(log):
    log.append(ROWS[:1])
    position = log.position
    with log.path.open("ab") as file:
        file.write(b'{"step": 8, "lo')
    log.cut(position)
    log.append(ROWS[1:])
    assert read_log(log.path)["step"].tolist() == [4, 8]


def test_positions_of_another_log_are_refused(log):
    log.cut(0)
    with pytest.raises(ValueError, match=r"position 5 lies outside .*log\.jsonl, which has 0 bytes"):
        log.cut(5)
    log.append(ROWS)
    size = log.position
    for position in (-1, size + 1):
        with pytest.raises(ValueError, match=f"position {position} lies outside"):
            log.cut(position)
    with pytest.raises(ValueError, match="is not the end of a row"):
        log.cut(size - 1)
    assert log.position == size


def test_sync_reaches_the_disk(log, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")) or fsync(file))
    log.append(ROWS)
    assert synced == []
    log.sync()
    assert synced == [str(log.path), str(log.path.parent)]


def test_a_row_that_is_still_being_written_is_left_out(log):
    log.append(ROWS)
    whole = log.path.read_bytes()
    for size in range(whole.index(b"\n") + 1, len(whole)):
        log.path.write_bytes(whole[:size])
        rows = read_log(log.path)["step"].tolist()
        assert rows == ([4, 8] if size == len(whole) - 1 else [4])


@pytest.mark.parametrize("line", [b'{"step": 8, "lo', b"[1]", b'{"loss": 1}', b"", b"\xff"])
def test_any_other_line_that_is_no_row_is_an_error(log, line):
    log.append(ROWS[:1])
    with log.path.open("ab") as file:
        file.write(line + b"\n")
    log.append(ROWS[1:])
    with pytest.raises(ValueError, match=r"log\.jsonl, line 2, is no row of a log"):
        read_log(log.path)


LIMITED = """
import resource, sys
from pathlib import Path
from mico.runs.log import Log
log = Log(Path(sys.argv[1]))
log.append([{"step": 1}])
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    log.append([{"step": step} for step in range(100)])
except OSError as error:
    print(error.errno, error.filename, log.path.read_text())
"""


def test_a_full_disk_keeps_whole_rows_alone(log):
    command = [sys.executable, "-c", LIMITED, str(log.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f'{errno.EFBIG} {log.path} {{"step": 1}}\n\n'


def test_a_log_without_its_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"log\.jsonl"):
        Log(tmp_path / "none" / "log.jsonl").append(ROWS)


def scalars(folder):
    return [(value.tag, event.step, value.simple_value) for event in events(folder) for value in event.summary.value]


def test_tensorboard_has_each_number_at_its_step(tmp_path):
    pytest.importorskip("tensorboardX")
    board = TensorBoard(tmp_path)
    board.append([{"step": 4, "loss": 0.5, "score": np.float32(2)}, {"step": 8, "loss": math.inf}])
    board.sync()
    board.close()
    assert scalars(tmp_path) == [("loss", 4, 0.5), ("score", 4, 2.0), ("loss", 8, math.inf)]
    assert not any(event.HasField("session_log") for event in events(tmp_path))


def test_tensorboard_hides_what_a_resumed_run_does_again(tmp_path):
    pytest.importorskip("tensorboardX")
    for after, step in ((None, 8), (4, 5)):
        board = TensorBoard(tmp_path, after)
        board.append([{"step": step, "loss": 1.0}])
        board.close()
    assert scalars(tmp_path) == [("loss", 8, 1.0), ("loss", 5, 1.0)]
    (start,) = [event for event in events(tmp_path) if event.HasField("session_log")]
    assert start.session_log.status == start.session_log.START
    assert start.step == 5  # TensorBoard drops what came before from this step on


def test_tensorboard_missing_says_what_to_install(tmp_path, monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "tensorboardX":
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '.*\[tensorboard\]'"):
        TensorBoard(tmp_path)
