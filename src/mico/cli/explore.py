"""`mico explore PROBLEM`: the metrics of one problem as a page to look around in."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import numpy as np
import tyro

from mico.cli.counts import Count, OptionalCount
from mico.cli.policies import POLICY_HELP, SEED_HELP, named_policy
from mico.cli.problem_options import Limited, Request, requested
from mico.cli.progress import shown
from mico.cli.text import PlainConsole
from mico.pages.explore import Exploration, Plane, View, explore_page, is_explore_page
from mico.runs.files import writable, write_whole
from mico.tabular import MDP, METRICS, Solution, solve
from mico.tabular._validation import check_tolerance
from mico.tabular.metrics import metric_named
from mico.tabular.metrics.factored import Kind
from mico.tabular.policies import policy_array
from mico.tabular.scaling import rank_agreement

_TRANSPORT = ("pi-bisimulation", "bisimulation", "lax-bisimulation")  # minutes beyond a hundred states or so


@dataclass(frozen=True)
class Options(Limited):
    """Options of `mico explore` for every problem."""

    metrics: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="NAME ...", help=f"Metrics to show: {', '.join(METRICS)}.", help_behavior_hint="(default: all)"
        ),
    ] = ()
    policy: Annotated[str, tyro.conf.arg(metavar="NAME|PATH", help=POLICY_HELP)] = "uniform"
    policy_seed: Annotated[
        OptionalCount, tyro.conf.arg(metavar="INT", help=SEED_HELP, help_behavior_hint="(optional)")
    ] = None
    tolerance: Annotated[float, tyro.conf.arg(help="Largest absolute error of any distance.")] = 1e-8
    max_states: Annotated[Count, tyro.conf.arg(help="Most states that a problem may have.")] = 1000
    max_transport_states: Annotated[
        Count,
        tyro.conf.arg(
            help="Most states for which the bisimulation metrics are shown although --metrics does not name them."
        ),
    ] = 120
    out: Annotated[Path, tyro.conf.arg(metavar="FILE", help="Page to write; an earlier explore page is replaced.")] = (
        Path("explore.html")
    )


def main(argv: list[str]) -> None:
    """Run `mico explore` with these arguments."""
    request = requested("explore", Options, argv, lambda count: f"{16e-6 / 3 * count**2:.2g} MB a metric")
    options, mdp = request.options, request.problem.mdp
    names, left_out = _selected(options, mdp.num_states)
    policy = policy_array(named_policy(options.policy, request.problem, seed=options.policy_seed), mdp)
    check_tolerance(options.tolerance)
    _check_range(mdp)
    _check_writable(options.out)
    console = PlainConsole()
    views = []
    for number, name in enumerate(names, start=1):
        metric = METRICS[name]
        with shown(console, f"{name}, {number} of {len(names)}", options.tolerance):
            of = policy if metric.on == "policy" else None
            solution = solve(name, mdp, of, tolerance=options.tolerance)
        views.append(_view(solution))
    page = explore_page(_exploration(request, tuple(views), left_out)).encode(errors="replace")
    write_whole(options.out, page)
    if left_out is not None:
        console.print(f"left out {left_out}", soft_wrap=True)
    console.print(f"wrote {options.out}: {len(page) / 1e6:.2g} MB, to be opened in a browser", soft_wrap=True)


def _selected(options: Options, num_states: int) -> tuple[list[str], str | None]:
    """The metrics to show, and which others are left out and why."""
    for name in options.metrics:
        metric_named(name, "--metrics")
    if options.metrics:
        return list(dict.fromkeys(options.metrics)), None
    if num_states <= options.max_transport_states:
        return list(METRICS), None
    why = f"{num_states} states are more than --max-transport-states {options.max_transport_states}"
    left_out = f"{', '.join(_TRANSPORT)}: {why}, but --metrics can name them"
    return [name for name in METRICS if name not in _TRANSPORT], left_out


def _check_writable(path: Path) -> None:
    """An OSError before any work is spent, if no page can be written there."""
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent))
    writable(path.parent, "the folder of out")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and path.stat().st_size and not is_explore_page(path):
        raise FileExistsError(errno.EEXIST, "is there already, and is no page of mico explore", str(path))


def _check_range(mdp: MDP) -> None:
    r"""Refuse distances, of at most $\max |r_x - r_y| / (1 - \gamma)$, that single precision does not hold."""
    low, high, limit = mdp.reward.min(), mdp.reward.max(), np.finfo(np.float32).max
    if (high - low) / (1 - mdp.discount) > limit:
        raise ValueError(f"reward spans {low:g} to {high:g}, too far for a page, where distances end at {limit:.2g}")


def _view(solution: Solution) -> View:
    metric, (points, kept) = METRICS[solution.metric], solution.scaling(2)
    d, value = solution.matrix, solution.value
    facing = np.where((value - value.mean()) @ points < 0, -1.0, 1.0)  # to the right, value rises
    exact = solution.metric in get_args(Kind)  # whose ΠU is a squared distance of points
    plane = Plane(points * facing, "exact" if exact else "scaling", kept, rank_agreement(d, points))
    return View(solution.metric, metric.summary, metric.on, d, solution.error, value, solution.value_bound(), plane)


def _exploration(request: Request[Options], views: tuple[View, ...], left_out: str | None) -> Exploration:
    problem, options = request.problem, request.options
    known = ("discount", "num_states", "num_actions", "max_bytes")
    own = {key.replace("_", " "): str(given) for key, given in request.own.items() if key not in known}
    seeded = "" if options.policy_seed is None else f", seed {options.policy_seed}"
    return Exploration(
        title=request.name,
        num_states=problem.mdp.num_states,
        num_actions=problem.mdp.num_actions,
        discount=problem.mdp.discount,
        policy=f"{options.policy}{seeded}",
        facts={key: given for key, given in own.items() if given != "None"},
        views=views,
        left_out=left_out,
        layout=problem.layout,
        names=problem.names,
    )
