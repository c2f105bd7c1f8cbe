"""`mico metric PROBLEM`: one metric of one problem, as files and as a summary."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mico.cli.counts import Count, OptionalCount
from mico.cli.measurement import Measurement
from mico.cli.metric_files import check_replaceable, file_name, write_files
from mico.cli.metric_summary import summary_table
from mico.cli.policies import POLICY_HELP, SEED_HELP, named_policy
from mico.cli.problem_options import Limited, Request, requested
from mico.cli.progress import shown
from mico.cli.text import PlainConsole
from mico.runs.files import writable
from mico.tabular import METRICS, Problem, solve
from mico.tabular._validation import check_tolerance
from mico.tabular.mdp import Reward
from mico.tabular.metrics import metric_named
from mico.tabular.metrics.solution import LARGEST_MATRIX


@dataclass(frozen=True)
class Options(Limited):
    """Options of `mico metric` for every problem."""

    metric: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"Metric to compute: {', '.join(METRICS)}.")] = "mico"
    policy: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME|PATH", help=POLICY_HELP, help_behavior_hint="(default: uniform, for metrics of a policy)"
        ),
    ] = None
    policy_seed: Annotated[
        OptionalCount, tyro.conf.arg(metavar="INT", help=SEED_HELP, help_behavior_hint="(optional)")
    ] = None
    reward: Annotated[
        Reward, tyro.conf.arg(help="Difference of rewards: of their means, or the expected one of independent samples.")
    ] = "mean"
    tolerance: Annotated[float, tyro.conf.arg(help="Largest absolute error of any distance.")] = 1e-8
    state: Annotated[
        OptionalCount,
        tyro.conf.arg(
            metavar="INT",
            help="State whose distances to all others the map shows.",
            help_behavior_hint="(default: the first goal)",
        ),
    ] = None
    max_states: Annotated[Count, tyro.conf.arg(help="Most states that a problem may have.")] = 3000
    out: Annotated[
        Path, tyro.conf.arg(metavar="FOLDER", help="Folder for the matrix, the figures and the summary.")
    ] = Path("out")


def main(argv: list[str]) -> None:
    """Run `mico metric` with these arguments."""
    _measure(requested("metric", Options, argv, _weight))


def _weight(num_states: int) -> str:
    return f"a matrix of {8e-9 * num_states**2:.2g} GB (mico.tabular.solve with method='factored' needs none)"


def _measure(request: Request[Options]) -> None:
    name, problem, options = request.name, request.problem, request.options
    mdp = problem.mdp
    metric = metric_named(options.metric, "--metric")
    if metric.on == "mdp" and options.policy is not None:
        raise ValueError(f"--policy {options.policy} must be left out: {options.metric} is a metric of the MDP alone")
    policy = named_policy(options.policy, problem, seed=options.policy_seed)
    origin = _origin(problem, options.state)
    check_tolerance(options.tolerance)
    metric.subject(problem, policy, options.reward)  # what is wrong with them is said before a folder is made
    check_replaceable(options.out / file_name(name, options.metric))
    out = writable(options.out)
    console = PlainConsole()
    start = time.perf_counter()
    with shown(console, f"{options.metric} of {mdp.num_states} states", options.tolerance):
        method = "auto" if mdp.num_states <= LARGEST_MATRIX else "dense"  # the files hold a matrix
        solution = solve(
            options.metric, problem, policy, tolerance=options.tolerance, reward=options.reward, method=method
        )
    seconds = time.perf_counter() - start
    measurement = Measurement(name, problem, request.own, solution, seconds)
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
