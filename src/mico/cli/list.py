"""`mico list`: everything that has a name, or the names of one kind."""

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from mico._checks import install_hint
from mico.cli._flags import parse_flags
from mico.cli.text import PlainConsole, summary
from mico.tabular import METRICS, PROBLEMS

_OF = {"policy": "a policy", "mdp": "the MDP alone"}
_USED = {
    "problems": "mico metric, mico explore; mico train --env mdp/NAME",
    "metrics": "mico metric --metric, mico explore",
    "agents": "mico train --agent, mico sweep --agent",
    "losses": "mico train --metric, mico sweep --metric",
    "envs": "mico train --env, mico sweep --env",
}
_DEEP = ("agents", "losses", "envs")
_FAMILIES = {
    "minatar": "MinAtar's games, inside JAX",
    "mdp": "finite MDPs, inside JAX: any problem of `mico list problems`, or mdp/FILE.npz",
    "gym": "Gymnasium, any id with discrete actions or bounded vectors: those that it brings",
    "atari": f"Atari games of the Arcade Learning Environment ({install_hint('atari')})",
    "control": f"tasks of the DeepMind Control suite ({install_hint('control')})",
}


def main(argv: list[str]) -> None:
    """Run `mico list` with these arguments."""
    parse_flags(show, prog="mico list", args=argv)


def show(
    kind: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="[KIND]",
            help="What to list: problems, metrics, agents, losses or envs.",
            help_behavior_hint="(default: how many there are of each)",
        ),
    ] = "",
) -> None:
    """List the names that commands take: those of one kind with a line about each, or how many each kind has."""
    console = PlainConsole(soft_wrap=True)
    has_deep = importlib.util.find_spec("jax") is not None
    if not kind:
        _show_kinds(console, has_deep)
    elif kind not in _TABLES:
        raise ValueError(f"kind must be one of {', '.join(_TABLES)}, got {kind!r}")
    elif kind in _DEEP and not has_deep:
        raise ModuleNotFoundError(f"{kind} need: {install_hint('deep')}")
    else:
        _TABLES[kind](console)


def _show_kinds(console: Console, has_deep: bool) -> None:
    table = Table("kind", "names", "where they are used", "see them by", box=box.SIMPLE)
    for kind, used in _USED.items():
        if kind not in _DEEP or has_deep:
            table.add_row(kind, _count(kind), used, f"mico list {kind}")
    console.print(table)
    if not has_deep:
        console.print(f"Agents, losses and environments to train in come with: {install_hint('deep')}")


def _count(kind: str) -> str:
    if kind == "envs":
        from mico.deep.envs import ENVS

        return f"{len(ENVS)} families"
    return str(len({"problems": PROBLEMS, "metrics": METRICS}.get(kind) or _registry(kind)))


def _registry(kind: str) -> Mapping[str, Callable]:
    from mico.deep.agents import AGENTS
    from mico.deep.metric_losses import METRIC_LOSSES

    return AGENTS if kind == "agents" else METRIC_LOSSES


def _show_problems(console: Console) -> None:
    table = Table("name", "what it is", "seed", box=box.SIMPLE)
    for name, factory in PROBLEMS.items():
        needs_seed = "seed" in inspect.signature(factory).parameters
        table.add_row(name, summary(factory), "needed" if needs_seed else "–")
    console.print(table)
    console.print("`mico metric NAME --help` explains the options of one; a file .npz or .json may stand in its place.")


def _show_metrics(console: Console) -> None:
    table = Table("name", "what it is", "a metric of", box=box.SIMPLE)
    for name, metric in METRICS.items():
        table.add_row(name, metric.summary, _OF[metric.on])
    console.print(table)


def _show_registry(console: Console, kind: str) -> None:
    table = Table("name", "what it is", box=box.SIMPLE)
    for name, made in _registry(kind).items():
        table.add_row(name, summary(made))
    console.print(table)


def _show_envs(console: Console) -> None:
    from mico.deep.envs import ENVS
    from mico.deep.envs.catalogue import members
    from mico.deep.extensions import takes_member

    for family, kind in ENVS.items():
        about, names = _FAMILIES.get(family) or summary(kind), members(family)
        if not takes_member(kind):
            console.print(f"{family}: {about}\n")
            continue
        console.print(f"{family}: {len(names)} names; {about}")
        listed = "  ".join(f"{family}/{name}" for name in names)
        console.print(Padding(listed, (0, 0, 1, 2)), soft_wrap=False)


_TABLES: dict[str, Callable[[Console], None]] = {
    "problems": _show_problems,
    "metrics": _show_metrics,
    "agents": lambda console: _show_registry(console, "agents"),
    "losses": lambda console: _show_registry(console, "losses"),
    "envs": _show_envs,
}
