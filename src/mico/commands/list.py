"""`mico list`: everything that has a name."""

import inspect

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from mico.commands.text import summary
from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS
from mico.deep.metric_losses import METRIC_LOSSES
from mico.tabular import METRICS, PROBLEMS

_OF = {"policy": "a policy", "mdp": "the MDP alone"}


def main(argv: list[str]) -> None:
    tyro.cli(show, prog="mico list", args=argv)


def show() -> None:
    """Every problem, metric, agent, metric loss and family of environments that has a name, with a line about it."""
    problems = _table("Problems", "seed")
    for name, factory in PROBLEMS.items():
        needs_seed = "seed" in inspect.signature(factory).parameters
        problems.add_row(name, summary(factory), "needed" if needs_seed else "–")
    metrics = _table("Metrics", "a metric of")
    for name, metric in METRICS.items():
        metrics.add_row(name, metric.summary, _OF[metric.on])
    console = Console(highlight=False, markup=False)
    console.print(problems)
    console.print(metrics)
    for title, registry in (("Agents", AGENTS), ("Metric losses", METRIC_LOSSES), ("Environments", ENVS)):
        table = _table(title)
        for name, kind in registry.items():
            table.add_row(f"{name}/…" if registry is ENVS else name, summary(kind))
        console.print(table)


def _table(title: str, *more: str) -> Table:
    return Table("name", "what it is", *more, title=title, title_justify="left", box=box.SIMPLE)
