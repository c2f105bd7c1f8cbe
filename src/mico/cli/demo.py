"""`mico demo`: exact metrics, DQN with and without MICo, and what is learnt of the exact metric, in minutes."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
import tyro
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import track
from rich.table import Table

from mico.cli._flags import parse_flags
from mico.cli.text import PlainConsole
from mico.deep.config.run import Schedule
from mico.deep.training.train import Progress
from mico.evidence.intervals import printed
from mico.experiments import demo, learning, learnt_metric
from mico.plotting import plots
from mico.runs.csv_bytes import csv_bytes
from mico.runs.files import check_no_link, make_subfolder, touch, writable, write_whole
from mico.runs.lock import exclusive


@dataclass(frozen=True)
class Options:
    """Show in about three minutes what this package does, and write figures, tables and trained runs.

    It computes every metric on four rooms, trains DQN with and without MICo on MinAtar's Breakout, and compares the
    learnt with the exact MICo distance on a Garnet. The runs of an earlier demo in OUT are replaced.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER", help="Folder for figures, tables and trained runs.")] = Path(
        "out/demo"
    )
    quick: Annotated[bool, tyro.conf.arg(help="Run a version of a minute, too short to learn anything.")] = False


class Parts(NamedTuple):
    """The settings of the three parts of the demo."""

    metrics: demo.Config = demo.Config()
    training: learning.Config = learning.Config()
    agreement: learnt_metric.Config = learnt_metric.Config()


class Line(NamedTuple):
    """A number for the table at the end, and over seeds the interval of a mean or the range of a correlation."""

    where: str
    what: str
    value: float
    low: float
    high: float


_RELEASED = {name: learnt_metric.LOSSES[name] for name in ("released", "released-with-td")}  # one program
_QUICK = Parts(
    demo.Config(problem="mirrored-rooms"),
    learning.Config(schedule=Schedule(learning_starts=200, log_period=200), seeds=(0, 1), steps=800),
    learnt_metric.Config(losses=_RELEASED, seeds=(0, 1), steps=2_000),
)


def main(argv: list[str]) -> None:
    """Run `mico demo` with these arguments."""
    options = parse_flags(Options, prog="mico demo", args=argv, config=(tyro.conf.FlagCreatePairsOff,))
    out, parts = writable(options.out), _QUICK if options.quick else Parts()
    console = PlainConsole(soft_wrap=True)
    _claim(out)
    try:
        lines = _measure(parts.metrics, out, console)
        lines += _learn(parts.training, out, console)
        lines += _compare(parts.agreement, out, console)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command begins the demo anew") from None
    write_whole(out / "summary.csv", csv_bytes(pd.DataFrame(lines)))
    console.print(_summary(lines))
    console.print("over seeds: the 95% interval of a return or gain, the range of a correlation.")
    console.print(f"Figures (PNG, PDF) with their data (CSV), and the runs, are in {out}.")


def _measure(config: demo.Config, out: Path, console: Console) -> list[Line]:
    setting = f"{config.problem} at discount {config.discount:g} under the uniform policy"
    console.print(f"1. Every metric between the states of {setting}:")
    frame = demo.run(config, lambda names: _tracked(names, console))
    table = demo.table(frame)
    console.print(_bounds(table))
    console.print("broken: share of pairs whose values differ by more than d; gap: mean of d − |ΔV| over all pairs.")
    console.print("V is the policy's value, and the optimal one for the metrics of the MDP alone (bisimulation, lax).")
    _write(demo.plot(frame), frame.loc[:, :"distance"], out / config.problem)
    write_whole(out / "metrics.csv", csv_bytes(table))
    broken = float(table.set_index("metric").loc["mico", "broken"])
    return [Line(config.problem, "share of pairs with |ΔV| > U", broken, float("nan"), float("nan"))]


def _learn(config: learning.Config, out: Path, console: Console) -> list[Line]:
    count = len(config.alphas) * len(config.seeds)
    console.print(f"2. DQN on {config.env} with and without MICo: {count} runs of {config.steps:,} steps as one fleet.")
    folder = _emptied(out, "runs", "learning")
    with _bar(console) as report:
        frame = learning.run(config, folder, report)
    _write(learning.plot(frame), frame, out / "learning")
    lines = []
    for arm in learning.table(frame).itertuples():
        lines.append(Line(config.env, f"return of {arm.arm}", arm.score, arm.score_low, arm.score_high))
        if arm.arm != learning.BASE:
            lines.append(Line(config.env, "gain over the same seed's DQN", arm.gain, arm.gain_low, arm.gain_high))
    return lines


def _compare(config: learnt_metric.Config, out: Path, console: Console) -> list[Line]:
    losses = ", ".join(config.losses)
    console.print(f"3. U on {config.problem}, learnt and exact: {len(config.seeds)} seeds with each loss ({losses}).")
    runs = out / "runs" / "learnt-metric"
    for name in config.losses:
        _emptied(out, "runs", "learnt-metric", name)
    with _bar(console) as report:
        frame = learnt_metric.run(config, runs, report)
    _write(learnt_metric.plot(frame), frame, out / "learnt-metric")
    table = learnt_metric.table(frame)
    write_whole(out / "correlations.csv", csv_bytes(table))
    return [
        Line(config.problem, f"r of {line.loss}, {line.pairs}", line.pearson, line.lowest, line.highest)
        for line in table.itertuples()
    ]


def _tracked(names: Iterable[str], console: Console) -> Iterable[str]:
    return track(list(names), "metrics", console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Shows how far the fleet is that training reports of."""
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("compiling", total=None)

        def report(progress: Progress) -> None:
            words = "steps of each run" if progress.step else "compiling"
            bars.update(task, total=progress.steps, completed=progress.step, description=words)

        yield report


def _claim(out: Path) -> None:
    """Refuse to replace runs that no demo made, by a mark that the first one leaves, or anything behind a link."""
    runs = out / "runs"
    mark = runs / "of-a-demo"
    for path in (runs, mark, runs / "learning", runs / "learnt-metric"):
        check_no_link(path)
    for folder in (runs / "learning", runs / "learnt-metric"):
        if not mark.exists() and folder.is_dir() and any(folder.iterdir()):
            raise ValueError(f"out must not hold runs that no demo made, but has {folder}")
    make_subfolder(out, "runs")
    touch(mark)


def _emptied(out: Path, *names: str) -> Path:
    """The folder in `out` without what an earlier demo left there; not while another one writes to it."""
    folder = make_subfolder(out, *names)
    with exclusive(folder):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != "lock":
                entry.unlink()
    return folder


def _write(figure: Figure, frame: pd.DataFrame, path: Path) -> None:
    plots.save(figure, path)
    write_whole(path.with_name(f"{path.name}.csv"), csv_bytes(frame))


def _bounds(table: pd.DataFrame) -> Table:
    shown = Table("metric", "certified error", "broken", "gap", "seconds", box=box.SIMPLE)
    for line in table.itertuples():
        numbers = (f"{line.error:.1e}", f"{line.broken:.1%}", f"{line.mean_gap:.4f}", f"{line.seconds:.2f}")
        shown.add_row(line.metric, *numbers)
    return shown


def _summary(lines: list[Line]) -> Table:
    shown = Table("where", "what", "value", "over seeds", box=box.SIMPLE)
    for line in lines:
        over_seeds = "–" if pd.isna(line.low) else f"{printed(line.low)} … {printed(line.high)}"
        shown.add_row(line.where, line.what, printed(line.value), over_seeds)
    return shown
