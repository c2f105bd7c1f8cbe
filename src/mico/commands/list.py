"""`mico list`: the problems and metrics that have a name."""

import inspect

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from mico.commands.text import summary
from mico.tabular import MDPS, METRICS

_OF = {"policy": "a policy", "mdp": "the MDP alone"}


def main(argv: list[str]) -> None:
    tyro.cli(show, prog="mico list", args=argv)


def show() -> None:
    """Every problem and every metric that has a name, with one line about it."""
    problems = Table("name", "what it is", "seed", title="Problems", title_justify="left", box=box.SIMPLE)
    for name, factory in MDPS.items():
        needs_seed = "seed" in inspect.signature(factory).parameters
        problems.add_row(name, summary(factory), "needed" if needs_seed else "–")
    metrics = Table("name", "what it is", "a metric of", title="Metrics", title_justify="left", box=box.SIMPLE)
    for name, metric in METRICS.items():
        metrics.add_row(name, metric.summary, _OF[metric.on])
    console = Console(highlight=False, markup=False)
    console.print(problems)
    console.print(metrics)
