"""`mico evaluate RUN`: the returns of trained runs."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.table import Table

from mico.cli._flags import parse_flags
from mico.cli.counts import Count
from mico.cli.text import PlainConsole
from mico.deep import load
from mico.deep.trained.evaluate import evaluate
from mico.evidence.intervals import described, printed
from mico.runs.folder import run_folders


@dataclass(frozen=True)
class Options:
    """Play trained runs and print their returns, with 95% intervals of the mean over episodes."""

    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RUN ...",
            help="Folders of runs, or folders of `mico train`, all of whose runs are evaluated.",
            help_behavior_hint="(required)",
        ),
    ]
    episodes: Annotated[Count, tyro.conf.arg(help="Episodes that each run plays.")] = 100
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action.")] = 0.001
    max_steps: Annotated[Count, tyro.conf.arg(help="Steps after which an episode is truncated.")] = 27_000
    seed: Annotated[int, tyro.conf.arg(help="Random seed of the environments and of the actions.")] = 0


def main(argv: list[str]) -> None:
    """Run `mico evaluate` with these arguments."""
    options = parse_flags(Options, prog="mico evaluate", args=argv)
    if not options.runs:
        raise ValueError("evaluate needs a RUN: the folder of a run, or of a fleet")
    folders = {run.resolve(): run for folder in options.runs for run in run_folders(folder)}
    shared = os.path.commonpath([whole.parent for whole in folders])  # beyond which no two names are the same
    console = PlainConsole()
    title = f"{options.episodes} episodes of each run, ε = {options.epsilon:g}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("run", overflow="fold")
    for name in ("step", "return", "95% interval", "least", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    for whole, folder in folders.items():
        with console.status(folder.name):
            trained = load(folder)
            counts = {"episodes": options.episodes, "max_steps": options.max_steps}
            returns = evaluate(trained, seed=options.seed, epsilon=options.epsilon, **counts)
        extremes = printed(float(returns.min())), printed(float(returns.max()))
        table.add_row(str(whole.relative_to(shared)), f"{trained.step:,}", *described(returns), *extremes)
    console.print(table)
