"""How far the fleets of a sweep are: a small file each, which whoever trains one writes and anybody may read."""

import json
import math
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from mico.deep.training.train import Progress
from mico.runs.files import make_subfolder, read_regular, write_json

STATUS_FOLDER = "status"
_SECONDS = 2.0  # between writings

State = Literal["waiting", "running", "stopped", "finished", "failed"]


class Status(NamedTuple):
    """A fleet's state, how far it is, the newest return of each run that has one, and what went wrong if it failed."""

    state: State
    step: int = 0
    returns: tuple[float | None, ...] = ()
    error: str = ""
    details: str = ""


WAITING = Status("waiting")


def read_status(out: Path, fleet: str) -> Status:
    """Read how far a fleet is.

    Args:
        out: The folder of the sweep.
        fleet: The name of the fleet.

    Returns:
        Its state; of a fleet that has none yet, that it waits.

    Raises:
        ValueError: If the file is not the state of a fleet.
    """
    file = _file(out, fleet)
    if not file.exists():
        return WAITING
    try:
        found: Any = json.loads(read_regular(file))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not the state of a fleet: {error}") from error
    match found:
        case {"state": state, "step": int(), "returns": [*returns], "error": str(), "details": str()} if (
            state in get_args(State) and {*found} == {*Status._fields} and all(map(_is_return, returns))
        ):
            return Status(**found)._replace(returns=tuple(returns))
    raise ValueError(f"{file} is not the state of a fleet: {found!r:.100}")


def _is_return(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def write_status(out: Path, fleet: str, status: Status) -> None:
    """Write it whole, and to the disk."""
    make_subfolder(out, STATUS_FOLDER)
    write_json(_file(out, fleet), status._asdict())


def running(progress: Progress) -> Status:
    """The state of a fleet that is training."""
    returns = tuple(None if math.isnan(value) else float(value) for value in progress.returns)
    return Status("running", progress.step, returns)


class Writer:
    """A report for `train` that writes the state of its fleet every other second."""

    def __init__(self, out: Path, fleet: str):
        self._out, self._fleet = out, fleet
        self._last: float | None = None
        self.newest = Status("running")

    def __call__(self, progress: Progress) -> None:
        self.newest, now = running(progress), time.monotonic()
        if self._last is None or now - self._last > _SECONDS:
            write_status(self._out, self._fleet, self.newest)
            self._last = now


def _file(out: Path, fleet: str) -> Path:
    return out / STATUS_FOLDER / f"{fleet}.json"
