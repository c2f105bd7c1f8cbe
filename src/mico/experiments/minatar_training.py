"""Training what the results of the study lack, within a time, and adding it to them."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from mico.deep.training.train import Manner
from mico.experiments.minatar_plan import PHASES, Config
from mico.experiments.minatar_results import Missing, known, lacking, parts_of
from mico.runs import archive as condensed
from mico.runs.archive import Condensed
from mico.runs.files import check_no_link
from mico.runs.lock import locked_folder
from mico.sweeps import local
from mico.sweeps.fleets import finished
from mico.sweeps.grid import Cell
from mico.sweeps.manifest import Limits, planned, write_manifest
from mico.sweeps.plan import Fleet
from mico.sweeps.status import Status

_LOG = logging.getLogger(__name__)
_SILENCE = 20.0  # seconds between lines about a fleet
_MANNER = Manner(checkpoint_seconds=120.0)


def train(config: Config, runs: Path, folder: Path) -> None:
    """Train what is missing, part by part, and add it to the results in a folder.

    When the time is over, what is trained is kept in both folders, and a KeyboardInterrupt says so.
    """
    with _limited(config.seconds):
        for agent, phase in product(config.agents, PHASES):
            results = known(folder, config)  # anew: the sweep chooses weights for the study
            for part in parts_of(config, results, agent):
                if part.phase == phase:
                    _train(lacking(part, results), results.of[phase], config, runs, folder)


def _train(missing: Missing, results: Condensed, config: Config, runs: Path, folder: Path) -> None:
    part, out = missing.part, runs / missing.part.name
    if not missing.cells:
        return
    check_no_link(out)
    check_no_link(folder / part.phase)
    try:
        with locked_folder(out):
            others = set(part.cells) - set(missing.cells)
            fleets = planned(part.sweep, out, Limits(None, config.max_runs), without=others)
            for label in (label for fleet in fleets for label in fleet.labels()):
                condensed.check_alike(results, label.settings)  # now: when it is trained is too late
            write_manifest(out, part.sweep, fleets)
            todo = [fleet for fleet in fleets if _is_wanted(fleet, out, missing.cells)]
            local.in_turn(todo, out, _MANNER, _said())
    finally:
        _collect(out, folder / part.phase, config.points)


def _is_wanted(fleet: Fleet, out: Path, cells: Sequence[Cell]) -> bool:
    return not finished(fleet, out) and any(member.cell in cells for member in fleet.members)


def _collect(runs: Path, folder: Path, points: int) -> None:
    """Add what runs have come to so far."""
    if any(runs.glob("*/*/log.jsonl")):
        found = condensed.merged(condensed.read(folder), condensed.condense(runs, points=points))
        for file in condensed.write(found, folder):
            _LOG.info("%s holds %s", file, runs.name)


def _said() -> Callable[[Fleet, Status], None]:
    """A line about a fleet now and then, and when it ends."""
    last: dict[str, float] = {}

    def say(fleet: Fleet, status: Status) -> None:
        now = time.monotonic()
        if status.state == "running" and now - last.setdefault(fleet.name, now) < _SILENCE:
            return
        last[fleet.name] = now
        known = [value for value in status.returns if value is not None]
        mean = f", mean return {sum(known) / len(known):.2f}" if known else ""
        where = f"{status.state} at step {status.step:,} of {fleet.steps:,}"
        _LOG.info("%s, %s runs: %s%s %s", fleet.name, len(fleet.members), where, mean, status.error)

    return say


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """A Ctrl-C of our own when the time is over, which lets a fleet save where it is."""
    if seconds is None:
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:  # as a shell has it for what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if before is signal.SIG_IGN:
            signal.signal(signal.SIGINT, before)
