"""How far a training is: a bar and a table on a terminal, a line now and then elsewhere."""

import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table

from mico.cli.pace import Pace
from mico.cli.text import PlainConsole, in_bytes, moves
from mico.deep.config.periods import few_rows
from mico.deep.config.run import Run, describe
from mico.deep.fields import flatten
from mico.deep.training.train import Progress
from mico.evidence.arms import arm_names
from mico.evidence.intervals import described

_LARGE = 10_000  # numbers in an observation
_SHORTEST, _LONGEST = 10.0, 600.0  # seconds between lines where there is no terminal
_SHARE = 0.05  # of the time so far: lines become rare in long trainings


class Display:
    """How far runs are, their speed and time left, and the newest return of each arm with an interval over its seeds.

    On a terminal, and in a notebook with ipywidgets, a bar and a table are kept up to date; elsewhere there is a line
    now and then. Time left and speed leave out compilation: until both are known, it says "compiling".

    Args:
        runs: The runs that are trained.
        console: Where to print; standard error if there is none.

    Example:
        >>> with Display(runs) as display:
        ...     train(runs, out, steps=100_000, report=display.update)
    """

    def __init__(self, runs: Sequence[Run], console: Console | None = None):
        self.console = new_console(stderr=True) if console is None else console
        self._runs = runs
        self._arms = arm_names([_described(run) for run in runs])
        self._progress: Progress | None = None
        self._pace = Pace()
        self._began = self._printed = time.monotonic()
        columns = TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        self._bar = Bars(*columns, console=self.console)
        self._task = self._bar.add_task("compiling", total=None)
        self._live: Live | None = None
        if _repaints(self.console):
            self._live = Live(console=self.console, get_renderable=self._painted, transient=True)

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, progress: Progress) -> None:
        """Take in a report of `train`."""
        now, first, unknown = time.monotonic(), self._progress is None, self._pace.seconds_left() is None
        self._progress = progress
        self._pace.update(now, progress)
        if first:
            self._print_start(progress)
            return
        known_now = unknown and self._pace.seconds_left() is not None
        gap = min(max(_SHORTEST, _SHARE * (now - self._began)), _LONGEST)
        due = now - self._printed >= (_SHORTEST / 5 if known_now else gap)
        if self._live is None and due and progress.step < progress.steps:
            self.console.print(self._line(progress))
            self._printed = now

    def returns(self, frame: box.Box | None = None) -> Table:
        """The newest returns of each arm as a table."""
        table = Table(box=frame)
        table.add_column("arm", overflow="fold")
        for name in ("runs", "return", "95% interval over seeds"):
            table.add_column(name, justify="right", no_wrap=True)
        for arm, returns in self._by_arm():
            count = self._arms.count(arm)
            shown = str(count) if returns.size == count else f"{returns.size} of {count}"
            table.add_row(arm, shown, *described(returns))
        return table

    def _painted(self) -> Group:
        if self._progress is not None:
            step, steps = self._progress.step, self._progress.steps
            self._bar.update(self._task, total=steps, completed=step, description=self._speed(self._progress))
        return Group(self._bar, self.returns())

    def _line(self, progress: Progress) -> str:
        words = []
        for arm, returns in self._by_arm():
            mean, interval = described(returns)
            words.append(f"{mean} ({interval}) for {arm}" if len(set(self._arms)) > 1 else f"{mean} ({interval})")
        return f"step {progress.step:,} of {progress.steps:,}; {self._speed(progress)}; return {', '.join(words)}"

    def _speed(self, progress: Progress) -> str:
        """Steps a second of all runs together, and how long the rest takes at that pace."""
        rate, left = self._pace.steps_per_second(), self._pace.seconds_left()
        if rate is None or (left is None and progress.step >= progress.learns_from):
            return "compiling"
        speed = f"{rate * len(self._runs):,.0f} steps/s"
        if left is None:
            return f"{speed} before learning, which starts at step {progress.learns_from:,}"
        return f"{speed}, {timedelta(seconds=round(left))} left"

    def _by_arm(self) -> list[tuple[str, np.ndarray]]:
        """Each arm with the returns there are."""
        returns = np.full(len(self._runs), np.nan) if self._progress is None else self._progress.returns
        found, arms = np.isfinite(returns), np.array(self._arms)
        return [(arm, returns[found & (arms == arm)]) for arm in dict.fromkeys(self._arms)]

    def _print_start(self, progress: Progress) -> None:
        count = len(self._runs)
        size = in_bytes(self._runs[0].replay.size(self._runs[0].env.spec) * count)
        runs, replay = (
            ("1 run", "its replay buffer takes") if count == 1 else (f"{count} runs", "their replay buffers take")
        )
        self.console.print(f"{runs} of {progress.steps:,} steps; {replay} {size}.")
        if jax.default_backend() == "cpu" and math.prod(self._runs[0].observation_shape) > _LARGE:
            self.console.print("No GPU was found: learning from images of this size is slow on a CPU.")
        if few := few_rows(self._runs[0].schedule, progress.steps):
            self.console.print(few)
        if progress.step == progress.steps:
            self.console.print(f"All {progress.steps:,} steps have been trained already.")
            return
        if progress.step:
            self.console.print(f"Resuming at step {progress.step:,}.")
        if self._live is None:
            self.console.print("Compiling …")


def new_console(*, stderr: bool = False) -> Console:
    """Make a console that prints text as it is, without colours for numbers or markup in brackets."""
    return PlainConsole(file=sys.stderr if stderr else None, soft_wrap=True)


def _described(run: Run) -> dict[str, Any]:
    """The settings of a run, as names of arms take them."""
    settings = describe(run)
    return flatten(settings) | {part: (settings[part] or {}).get("name") for part in ("agent", "metric", "env")}


def _repaints(console: Console) -> bool:
    """Whether what was printed can be painted over."""
    return moves(console) or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)
