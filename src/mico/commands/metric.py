"""`mico metric PROBLEM`: one metric of one problem, as files and as a summary."""

import difflib
import functools
import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mico.commands.measurement import Measurement
from mico.commands.metric_files import write_files
from mico.commands.metric_summary import summary_table
from mico.commands.policies import WORDS, named_policy
from mico.commands.text import summary
from mico.results.folders import writable
from mico.tabular import MDPS, METRICS, Problem, distance, load, uniform_policy, watch
from mico.tabular.mdp import Reward
from mico.tabular.metrics import metric_named


@dataclass(frozen=True)
class Options:
    """What can be asked of every problem."""

    metric: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(METRICS)}")] = "mico"
    policy: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME|PATH", help=f"{', '.join(WORDS)}, or an .npy or .npz array [S, A]"),
    ] = None
    policy_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help="of --policy random")] = None
    reward: Annotated[Reward, tyro.conf.arg(help="compare mean rewards, or draws of them")] = "mean"
    tolerance: Annotated[float, tyro.conf.arg(help="absolute, for every entry")] = 1e-8
    state: Annotated[int | None, tyro.conf.arg(metavar="INT", help="paint the map from it, not from the goal")] = None
    max_states: Annotated[int, tyro.conf.arg(help="refuse a problem that has more")] = 3000
    out: Annotated[Path, tyro.conf.arg(help="folder for the files")] = Path("out")


def main(argv: list[str]) -> None:
    if argv[:1] in (["-h"], ["--help"]):
        about = "PROBLEM is a name that `mico list` shows, or an .npz or .json file. It may have options of its own."
        tyro.cli(Options, prog="mico metric PROBLEM", description=about, args=["--help"])
    if not argv or argv[0].startswith("-"):
        raise ValueError("metric needs a PROBLEM first: a name that `mico list` shows, or an .npz or .json file")
    name, factory = _factory(argv[0])
    options, own = _parsed(argv[0], factory, argv[1:])
    _measure(name, factory(**own), options, own)


def _factory(given: str) -> tuple[str, Callable[..., Problem]]:
    """A short name for the problem, and what makes it of its options."""
    if given in MDPS:
        return given, MDPS[given]
    path = Path(given)
    if path.suffix.lower() in (".npz", ".json") or path.is_file():
        return path.stem, functools.partial(load, path)
    near = difflib.get_close_matches(given, MDPS, n=3, cutoff=0.4) or list(MDPS)
    raise ValueError(f"problem {given!r} is neither a name nor a file; near it: {', '.join(near)}")


def _parsed(given: str, factory: Callable[..., Problem], argv: list[str]) -> tuple[Options, dict[str, Any]]:
    """The options that every problem has, and those of this one, all without prefix."""
    taken = {option.name for option in fields(Options)}
    own = []
    for parameter in inspect.signature(factory).parameters.values():
        flag = f"problem-{parameter.name}" if parameter.name in taken else parameter.name
        kind = Annotated[parameter.annotation, tyro.conf.arg(name=flag.replace("_", "-"), help="of the problem")]
        own.append((parameter.name, kind, field() if parameter.default is parameter.empty else parameter.default))
    flat = tyro.conf.arg(name="")
    both = make_dataclass(
        "Both", [("every", Annotated[Options, flat]), ("own", Annotated[make_dataclass("Own", own), flat])]
    )
    parsed = tyro.cli(both, prog=f"mico metric {given}", description=summary(factory), args=argv)
    return parsed.every, asdict(parsed.own)


def _measure(name: str, problem: Problem, options: Options, own: dict[str, Any]) -> None:
    mdp = problem.mdp
    if mdp.num_states > options.max_states:
        size = f"{mdp.num_states} × {mdp.num_states} matrix of {8e-9 * mdp.num_states**2:.2g} GB"
        advice = "mico.tabular.factored_mico needs no such matrix, --max-states allows it"
        raise ValueError(f"max_states is {options.max_states}, and {name} asks for a {size}: {advice}")
    metric_named(options.metric)
    policy = named_policy(options.policy, problem, seed=options.policy_seed)
    origin = _origin(problem, options.state)
    out = writable(options.out)
    console = Console(highlight=False, markup=False)
    start = time.perf_counter()
    with _shown(console, f"{options.metric} of {mdp.num_states} states", options.tolerance):
        solution = distance(options.metric, mdp, policy, tolerance=options.tolerance, reward=options.reward)
    seconds = time.perf_counter() - start
    if policy is None and METRICS[options.metric].on == "policy":
        policy = uniform_policy(mdp)
    measurement = Measurement(options.metric, name, problem, own, policy, options.reward, solution, seconds)
    console.print(summary_table(measurement))
    for line in write_files(measurement, out, origin):
        console.print(line, soft_wrap=True)


@contextmanager
def _shown(console: Console, what: str, tolerance: float) -> Iterator[None]:
    """A bar that fills as the certified error falls, by its logarithm, to the tolerance."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[error]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None, error="")
        errors: list[float] = []

        def show(error: float) -> None:
            errors.append(max(error, tolerance))
            whole = math.log(errors[0] / tolerance)
            done = whole - math.log(errors[-1] / tolerance)
            progress.update(task, total=whole or 1.0, completed=done, error=f"error {error:.0e}")

        with watch(show):
            yield


def _origin(problem: Problem, state: int | None) -> int | None:
    """The state whose distances are painted on the map, if there is a map."""
    if problem.layout is None:
        if state is not None:
            raise ValueError(f"state = {state} is for problems that have a map")
        return None
    if state is None:
        return next(iter(problem.layout.goals), None)
    if not 0 <= state < problem.mdp.num_states:
        raise ValueError(f"state must lie in 0..{problem.mdp.num_states - 1}, but is {state}")
    return state
