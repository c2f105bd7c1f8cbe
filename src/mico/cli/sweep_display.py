"""How far a sweep is: fleets done, and of those that train their steps, their pace and their returns."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from mico.cli.text import moves
from mico.evidence.arms import arm_names
from mico.sweeps.plan import Fleet
from mico.sweeps.status import Status

_SILENCE = 10.0  # seconds between lines about one fleet where there is no terminal


class Seen(NamedTuple):
    """A fleet's newest state, and when and where it was first seen to move."""

    status: Status
    since: float
    first: int
    said: float


class Display:
    """On a terminal a table that is kept up to date, elsewhere a line now and then."""

    def __init__(self, fleets: Sequence[Fleet], todo: Sequence[Fleet], console: Console):
        self._total, self._done, self._console = len(fleets), len(fleets) - len(todo), console
        self._seen: dict[Fleet, Seen] = {}
        self._arms = _arms_of(fleets)
        self.failed: dict[Fleet, Status] = {}
        live = Live(console=console, get_renderable=self._painted, transient=True)
        self.shown: AbstractContextManager = live if moves(console) else nullcontext()

    def update(self, fleet: Fleet, status: Status) -> None:
        """A fleet's newest state."""
        now, before = time.monotonic(), self._seen.get(fleet)
        if status.state in ("finished", "failed", "stopped"):
            self._seen.pop(fleet, None)
            self._done += status.state == "finished"
            if status.state == "failed":
                self.failed[fleet] = status
            self._console.print(self._end(fleet, status))
        elif status.state == "running":
            if before is None or before.first == 0 or status.step < before.first:
                before = Seen(status, now, status.step, now if before is None else before.said)
            quiet = moves(self._console) or now - before.said < _SILENCE or status.step == 0
            if not quiet:
                words = _steps(fleet, status), _pace(fleet, before, status), self._returns(fleet, status)
                self._console.print(f"{fleet.name}: {'; '.join(words)}")
            self._seen[fleet] = before._replace(status=status, said=before.said if quiet else now)

    def _end(self, fleet: Fleet, status: Status) -> str:
        count = f"{self._done} of {self._total} fleets done"
        if status.state == "failed":
            return f"{fleet.name} failed: {status.error} ({count})"
        return f"{fleet.name} is {status.state}; {self._returns(fleet, status)} ({count})"

    def _returns(self, fleet: Fleet, status: Status) -> str:
        """The mean of the newest returns of each arm."""
        found: dict[str, list[float]] = {}
        for arm, value in zip(self._arms[fleet.name], status.returns):
            if value is not None:
                found.setdefault(arm, []).append(value)
        words = [f"{sum(values) / len(values):.2f} ({arm})" for arm, values in found.items()]
        return "return " + ", ".join(words) if words else "no return yet"

    def _painted(self) -> Group:
        table = Table(box=None)
        for name in ("fleet", "steps", "pace", "returns"):
            table.add_column(name, overflow="fold")
        for fleet, seen in self._seen.items():
            pace = _pace(fleet, seen, seen.status)
            table.add_row(fleet.name, _steps(fleet, seen.status), pace, self._returns(fleet, seen.status))
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return Group(f"{self._done} of {self._total} fleets done{failed}", table)


def _steps(fleet: Fleet, status: Status) -> str:
    return f"step {status.step:,} of {fleet.steps:,}"


def _pace(fleet: Fleet, seen: Seen, status: Status) -> str:
    """Steps per second of all runs together, since it was first seen to move."""
    elapsed, steps = time.monotonic() - seen.since, status.step - seen.first
    if steps <= 0 or elapsed <= 0:
        return "compiling" if status.step == 0 else "steps/s are not known yet"
    return f"{len(fleet.members) * steps / elapsed:,.0f} steps/s"


def _arms_of(fleets: Sequence[Fleet]) -> dict[str, list[str]]:
    """The arm of each run of each fleet, by the fleet's name; over all fleets, as they are named in a report."""
    runs = [
        {"agent": member.cell.agent, "metric": member.cell.metric, "env": member.cell.env, **dict(member.varied)}
        for fleet in fleets
        for member in fleet.members
    ]
    names = iter(arm_names(runs))
    return {fleet.name: [next(names) for _ in fleet.members] for fleet in fleets}
