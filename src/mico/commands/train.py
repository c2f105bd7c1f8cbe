"""`mico train`: agents with and without a metric loss, many runs as one fleet."""

import math
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table

from mico.commands.text import in_bytes, moves
from mico.commands.train_options import parse
from mico.deep.periods import few_rows
from mico.deep.settings import Run, varied
from mico.deep.train import Manner, Progress, train
from mico.results.intervals import described

_WINDOW = 30.0  # seconds over which the pace is taken
_LARGE = 10_000  # numbers in an observation
_TOO_MUCH = "this takes more memory than there is: --replay.capacity or fewer --seeds make it less"
_SILENCE = 10.0  # seconds between lines where there is no terminal


def main(argv: list[str]) -> None:
    options, steps, runs = parse(argv)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    display = Display(runs, console)
    try:
        with display.shown:
            train(
                runs,
                options.out,
                steps=steps,
                resume=options.resume,
                manner=Manner(options.checkpoint_seconds, options.checkpoint_replay, options.tensorboard),
                report=display.update,
            )
    except JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError(_TOO_MUCH) from error
        raise
    except ChildProcessError as error:
        raise ChildProcessError(f"{error}; --resume goes on from the last checkpoint") from error
    console.print(display.returns(box.SIMPLE), soft_wrap=False)
    console.print(f"Logs and parameters are in {options.out}.")


class Display:
    """How far the runs are, and the newest return of each arm with an interval over its seeds.

    On a terminal that is a bar and a table, kept up to date; elsewhere a line now and then.
    """

    def __init__(self, runs: list[Run], console: Console):
        self._runs, self._console = runs, console
        self._arms = [", ".join(f"{name}={value}" for name, value in own.items()) or "all" for own in varied(runs)]
        self._progress: Progress | None = None
        self._pace: deque[tuple[float, int]] = deque()
        self._said = time.monotonic()
        columns = TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        self._bar = Bars(*columns, console=console)
        self._task = self._bar.add_task("compiling", total=None)
        live = Live(console=console, get_renderable=self._painted, transient=True)
        self.shown: AbstractContextManager = live if moves(console) else nullcontext()

    def update(self, progress: Progress) -> None:
        now, self._progress, first = time.monotonic(), progress, self._progress is None
        if first:
            self._say_what_begins(progress)
            return
        if not self._pace or now - self._pace[-1][0] > _WINDOW / 30:
            self._pace.append((now, progress.step))
        while len(self._pace) > 2 and now - self._pace[1][0] > _WINDOW:
            self._pace.popleft()
        if not moves(self._console) and now - self._said > _SILENCE and progress.step < progress.steps:
            self._console.print(self._line(progress))
            self._said = now

    def returns(self, frame: box.Box | None = None) -> Table:
        """The newest returns of each arm."""
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
            step, steps, _ = self._progress
            self._bar.update(self._task, total=steps, completed=step, description=self._paced(self._progress))
        return Group(self._bar, self.returns())

    def _line(self, progress: Progress) -> str:
        words = []
        for arm, returns in self._by_arm():
            mean, interval = described(returns)
            words.append(f"{mean} ({interval})" if arm == "all" else f"{mean} ({interval}) for {arm}")
        return f"step {progress.step:,} of {progress.steps:,}; {self._paced(progress)}; return {', '.join(words)}"

    def _paced(self, progress: Progress) -> str:
        """Steps a second of all runs together, and how long the rest takes at that pace."""
        if len(self._pace) < 2:
            return "steps/s are not known yet" if self._pace else "compiling"
        (first, start), (last, end) = self._pace[0], self._pace[-1]
        pace = (end - start) / (last - first)
        left = timedelta(seconds=round((progress.steps - progress.step) / pace))
        return f"{pace * len(self._runs):,.0f} steps/s, {left} left"

    def _by_arm(self) -> list[tuple[str, np.ndarray]]:
        """Each arm with the returns there are."""
        returns = np.full(len(self._runs), np.nan) if self._progress is None else self._progress.returns
        found, arms = np.isfinite(returns), np.array(self._arms)
        return [(arm, returns[found & (arms == arm)]) for arm in dict.fromkeys(self._arms)]

    def _say_what_begins(self, progress: Progress) -> None:
        count = "1 run" if len(self._runs) == 1 else f"{len(self._runs)} runs"
        size = in_bytes(self._runs[0].replay.size(self._runs[0].env.spec) * len(self._runs))
        self._console.print(f"{count} of {progress.steps:,} steps; the replay takes {size}.")
        if jax.default_backend() == "cpu" and math.prod(self._runs[0].observation_shape) > _LARGE:
            self._console.print("No accelerator is there: on a CPU learning from pictures of this size is slow.")
        if few := few_rows(self._runs[0].schedule, progress.steps):
            self._console.print(few)
        if progress.step == progress.steps:
            self._console.print("All steps were taken before: there is nothing to do.")
        elif progress.step:
            self._console.print(f"Going on from step {progress.step:,}.")
