"""One fleet of a sweep, wherever it runs: trained from where it was, and its end written down, good or bad."""

import time
import traceback
from collections.abc import Callable
from pathlib import Path

from jax.errors import JaxRuntimeError

from mico.deep.training.train import Manner, Progress, train
from mico.runs.files import check_no_link
from mico.runs.folder import frozen_at
from mico.runs.lock import OccupiedError
from mico.runs.log import read_rows
from mico.sweeps.plan import Fleet
from mico.sweeps.status import Status, Writer, read_status, write_status

_PATIENCE = 120.0  # seconds for another process, which may be about to end, to let go of a folder
_PAUSE = 0.5


def attempt(
    fleet: Fleet, out: Path, manner: Manner, report: Callable[[Progress], None] = lambda progress: None
) -> Status:
    """Train a fleet to its end, from its last checkpoint if it has one; what goes wrong is its state, not an error.

    Only Ctrl-C, or a request to end, goes through, once the fleet has saved where it is.
    """
    writer = Writer(out, fleet.name)

    def both(progress: Progress) -> None:
        writer(progress)
        report(progress)

    try:
        write_status(out, fleet.name, writer.newest)
        _train(fleet, out, manner, both)
        status = writer.newest._replace(state="finished", step=fleet.steps)
    except KeyboardInterrupt:
        write_status(out, fleet.name, writer.newest._replace(state="stopped"))
        raise
    except Exception as error:  # whatever it is, the other fleets go on, and the user reads of it
        status = writer.newest._replace(state="failed", error=_line(error), details=traceback.format_exc())
    return _written(out, fleet, status)


def finished(fleet: Fleet, out: Path) -> bool:
    """Whether it was trained to its end, and what came of it is still there."""
    return read_status(out, fleet.name).state == "finished" and (out / fleet.name / "fleet.json").exists()


def frozen(fleet: Fleet, out: Path) -> list[str]:
    """The runs of a fleet that stopped learning because a loss was not finite, with the step."""
    logs = {member.name: out / fleet.name / member.name / "log.jsonl" for member in fleet.members}
    steps = {name: frozen_at(read_rows(log)) for name, log in logs.items() if log.exists()}
    return [f"{fleet.name}/{name} at step {step:,}" for name, step in steps.items() if step is not None]


def _train(fleet: Fleet, out: Path, manner: Manner, report: Callable[[Progress], None]) -> None:
    """Train a fleet as soon as no other process writes its folder."""
    options = {"steps": fleet.steps, "resume": True, "manner": manner, "labels": fleet.labels(), "report": report}
    deadline = time.monotonic() + _PATIENCE
    check_no_link(out / fleet.name)
    while True:
        try:
            train(fleet.runs(), out / fleet.name, **options)
            return
        except OccupiedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _written(out: Path, fleet: Fleet, status: Status) -> Status:
    """The state, on the disk if that can be; a fleet whose end cannot be written down has failed."""
    try:
        write_status(out, fleet.name, status)
    except OSError as error:
        return status if status.state == "failed" else status._replace(state="failed", error=_line(error))
    return status


def _line(error: Exception) -> str:
    """The error in a line, as the command line would say it."""
    if isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error):
        return "this takes more memory than there is: --max-runs or --memory make smaller fleets"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    said = " ".join(str(error).split())
    return said if isinstance(error, ValueError) and said else f"{type(error).__name__}: {said}".rstrip(": ")
