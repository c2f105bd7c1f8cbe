"""`mico metric PROBLEM`: one metric of one problem, as files and as a summary."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from mico.commands.measurement import Measurement
from mico.commands.metric_files import write_files
from mico.commands.metric_summary import summary_table
from mico.commands.policies import WORDS, named_policy
from mico.commands.problem_options import Limited, Request, requested
from mico.commands.progress import shown
from mico.results.folders import writable
from mico.tabular import METRICS, Problem, distance, uniform_policy
from mico.tabular.mdp import Reward
from mico.tabular.metrics import metric_named


@dataclass(frozen=True)
class Options(Limited):
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
    _measure(requested("metric", Options, argv, _weight))


def _weight(num_states: int) -> str:
    return f"a matrix of {8e-9 * num_states**2:.2g} GB (mico.tabular.factored_mico needs none)"


def _measure(request: Request[Options]) -> None:
    name, problem, options = request.name, request.problem, request.options
    mdp = problem.mdp
    metric = metric_named(options.metric, "--metric")
    if metric.on == "mdp" and options.policy is not None:
        raise ValueError(f"--policy {options.policy} must be left out: {options.metric} is a metric of the MDP alone")
    policy = named_policy(options.policy, problem, seed=options.policy_seed)
    origin = _origin(problem, options.state)
    out = writable(options.out)
    console = Console(highlight=False, markup=False)
    start = time.perf_counter()
    with shown(console, f"{options.metric} of {mdp.num_states} states", options.tolerance):
        solution = distance(options.metric, mdp, policy, tolerance=options.tolerance, reward=options.reward)
    seconds = time.perf_counter() - start
    if policy is None and metric.on == "policy":
        policy = uniform_policy(mdp)
    measurement = Measurement(options.metric, name, problem, request.own, policy, options.reward, solution, seconds)
    console.print(summary_table(measurement))
    for line in write_files(measurement, out, origin):
        console.print(line, soft_wrap=True)


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
