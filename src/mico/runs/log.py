"""Logs of runs: an append-only JSONL file for each, and how its rows are read."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mico._checks import install_hint
from mico.runs.configs import MOST_STEPS
from mico.runs.files import open_unlinked, read_regular, sync, touch
from mico.runs.returns import EPISODES

if TYPE_CHECKING:
    import pandas  # which takes a quarter of a second to import, and writing rows does without

COLUMNS = ("experiment", "run", "agent", "metric", "env", "seed", "step", "name", "value", EPISODES)
REACHED = "reached"  # name of rows that only tell how far a run has come
FROZEN = "not_finite_at"  # name of rows that tell at which step a run stopped learning, as a number was not finite

_STEPS = ("step", EPISODES, FROZEN)  # what is a whole number of a row


class Log:
    """The rows of one run, `{"step": 4, "loss": 0.5}` a line; it may be read while it grows.

    Numbers come back exactly. JSON has none that are not finite: they are the strings "NaN", "Infinity", "-Infinity".
    The file is open during calls alone, so that hundreds of runs may each have one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def position(self) -> int:
        """How many bytes there are: what a checkpoint keeps, for `cut`."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows with a single write; if the disk has no room for all of them, none stays."""
        data = "".join(_line(row) for row in rows).encode()
        with open(self.path, "ab", buffering=0, opener=open_unlinked) as file:
            start = file.tell()
            try:
                while data:  # what a full disk did not take says why when it is written again
                    data = data[file.write(data) :]
            except OSError as error:
                file.truncate(start)
                raise OSError(error.errno, error.strerror, str(self.path)) from error

    def sync(self) -> None:
        """Wait until every row is on the disk; a log without rows becomes an empty file."""
        touch(self.path)
        sync(self.path)
        sync(self.path.parent)

    def cut(self, position: int) -> None:
        """Forget what was written beyond a position that a checkpoint kept."""
        size = self.position
        if not 0 <= position <= size:
            raise ValueError(f"position {position} lies outside {self.path}, which has {size} bytes")
        if size == 0:
            return
        with open(self.path, "r+b", opener=open_unlinked) as file:
            file.seek(max(position - 1, 0))
            if position > 0 and file.read(1) != b"\n":
                raise ValueError(f"position {position} of {self.path} is not the end of a row: this is another log")
            file.truncate(position)
        self.sync()


class TensorBoard:
    """Log rows as scalars for TensorBoard, to look at; the record is the log.

    A resumed run says after which step: what was shown beyond it disappears.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        # Files are named by seconds, and one of the same name would be overwritten.
        self._writer = summary_writer()(
            str(folder), purge_step=None if after is None else after + 1, filename_suffix=f".{time.time_ns()}"
        )

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add each number of each row at its step."""
        for row in rows:
            step, numbers = split_row(row)
            for name, value in numbers.items():
                self._writer.add_scalar(name, float(value), step)

    def sync(self) -> None:
        """Write out what the writer's thread has taken in so far."""
        self._writer.flush()

    def close(self) -> None:
        """Write out everything, and let go of the file and the thread."""
        self._writer.close()


def summary_writer() -> Any:
    """Import the writer of TensorBoard files, an optional dependency; an error says what to install."""
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"TensorBoard files need: {install_hint('tensorboard')}") from error
    return SummaryWriter


def read_log(path: Path) -> "pandas.DataFrame":
    """The rows of one log, one column a name; a last line that is still being written is left out."""
    import pandas as pd

    return pd.DataFrame(read_rows(path))


def few(names: Sequence[str]) -> str:
    """The first three, and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a log; a last line that is still being written is left out.

    Args:
        path: The log.

    Returns:
        The rows, whose steps are whole numbers and whose other values are numbers.

    Raises:
        ValueError: If a line is no such row, with its number.
        OSError: If the file cannot be read.
    """
    lines = read_regular(path).split(b"\n")
    last = lines.pop()  # after the last line's end: nothing, or a row still being written
    try:
        rows = [_row(row) for row in json.loads(b"[%b]" % b",".join(lines))]  # all at once takes half the time
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines):  # something is wrong, and this finds out where
        rows = [_numbered(path, number, line) for number, line in enumerate(lines, start=1)]
    try:
        return [*rows, _row(json.loads(last))]
    except (ValueError, RecursionError):
        return rows


def _numbered(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return _row(json.loads(line))
    except RecursionError:
        raise ValueError(f"{path}, line {number}, is no row of a log: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{path}, line {number}, is no row of a log: {error}") from error


def _row(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict) or "step" not in row:
        raise ValueError("no step")
    for name, value in row.items():
        if type(value) is float:
            continue
        if type(value) is str:
            row[name] = float(value)
        elif type(value) is not int:
            raise ValueError(f"{name} must be a number, got {value!r:.80}")
        elif not -sys.float_info.max <= value <= sys.float_info.max:
            raise ValueError(f"{name} must be a number that float64 can hold, got one of {len(str(value))} digits")
    for name in _STEPS:
        if name in row and not (type(row[name]) is int and 0 <= row[name] <= MOST_STEPS):
            raise ValueError(f"{name} must be a whole number from 0 to 2⁵³, got {row[name]!r:.80}")
    return row


def _line(row: Mapping[str, Any]) -> str:
    step, numbers = split_row(row)
    return json.dumps({"step": step, **{name: _json(value) for name, value in numbers.items()}}, allow_nan=False) + "\n"


def _json(value: int | float) -> int | float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def split_row(row: Mapping[str, Any]) -> tuple[int, dict[str, int | float]]:
    """Split a row into its step and its other numbers, as Python has them: NumPy's float32 and int64 are as good."""
    if not isinstance(row.get("step"), Integral):
        raise ValueError(f"a row needs a whole number as step, not {row.get('step')!r}")
    wrong = {name: value for name, value in row.items() if not isinstance(value, Real)}
    if wrong:
        name, value = wrong.popitem()
        raise ValueError(f"rows hold numbers, but {name!r} is {value!r}")
    numbers = {name: int(value) if isinstance(value, Integral) else float(value) for name, value in row.items()}
    return int(numbers.pop("step")), numbers
