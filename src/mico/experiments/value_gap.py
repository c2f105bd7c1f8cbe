r"""Gap between each distance and the difference of values that it bounds, on Garnet MDPs: the paper's figure."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
import tyro
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mico.evidence.intervals import mean_interval, printed
from mico.experiments.cells import Evaluation, in_turn, like_paper
from mico.plotting import plots
from mico.tabular import MDP, METRICS, garnet, random_policy, solve, solve_policies
from mico.tabular._validation import checked_discount
from mico.tabular.diagnostics import value_bound
from mico.tabular.metrics import metric_named
from mico.tabular.problems.garnet import Branching

Law = Literal["uniform", "dirichlet"]

# Read off the paper's figure, by number of states: the lowest and the highest that the curve may be there.
PAPER: dict[str, dict[int, tuple[float, float]]] = {
    "mico": {2: (0.57, 0.57), 3: (1.0, 1.0), 4: (1.2, 1.2), 10: (1.64, 1.64), 20: (1.77, 1.77)},
    "pi-bisimulation": dict.fromkeys((2, 3, 4, 10, 20), (0.10, 0.14)),
    "reduced-mico": {2: (0.07, 0.07), 20: (0.01, 0.01)},
}
_AREA = 6  # of a circle, in square points for each action
_SYMBOLS = {
    "mico": "U",
    "pi-bisimulation": "$d_\\pi$",
    "reduced-mico": "ΠU",
    "reward-law": "$W_{sum}$",
    "bisimulation": "d~, of the MDP",
    "lax-bisimulation": "lax d~, of the MDP",
}


@dataclass(frozen=True)
class Config:
    """Sizes and number of the Garnets, policies on each, and the distances to measure."""

    states: Annotated[tuple[int, ...], tyro.conf.arg(help="Numbers of states of the Garnet MDPs.")] = tuple(
        range(2, 21)
    )
    actions: Annotated[tuple[int, ...], tyro.conf.arg(help="Numbers of actions of the Garnet MDPs.")] = (2, 3, 4, 5)
    mdps: Annotated[int, tyro.conf.arg(help="MDPs drawn for each number of states and actions; the paper draws 1.")] = (
        100
    )
    policies: Annotated[int, tyro.conf.arg(help="Random policies drawn on each MDP; the paper draws 100.")] = 4
    branching: Annotated[
        tuple[Branching, ...],
        tyro.conf.arg(
            help="How many next states a state and an action have: drawn from 1 to n (printed) or from 1 to n-1."
        ),
    ] = ("printed", "n-1")
    law: Annotated[
        Law,
        tyro.conf.arg(
            help="Distribution of a policy's action probabilities: normalised uniform numbers, or Dirichlet."
        ),
    ] = "uniform"
    discount: Annotated[float, tyro.conf.arg(help="Discount factor γ.")] = 0.9
    metrics: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Metrics to compare, by the names that `mico list metrics` shows.")
    ] = (
        "mico",
        "pi-bisimulation",
        "reduced-mico",
        "reward-law",
        "bisimulation",
    )
    seed: Annotated[int, tyro.conf.arg(help="Random seed of the MDPs and the policies.")] = 0

    def __post_init__(self) -> None:
        for name in ("states", "actions", "branching", "metrics"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must have values, all of them different, but is {values}")
        for name, least in (("states", 2), ("actions", 1), ("mdps", 1), ("policies", 1), ("seed", 0)):
            if np.min(getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}, but is {getattr(self, name)}")
        for rule in self.branching:
            if rule not in ("printed", "n-1"):
                raise ValueError(f"branching must be 'printed' or 'n-1', not {rule!r}")
        if self.law not in ("uniform", "dirichlet"):
            raise ValueError(f"law must be 'uniform' or 'dirichlet', not {self.law!r}")
        for name in self.metrics:
            metric_named(name, "a name in metrics")
        checked_discount(self.discount)


QUICK = Config(states=(2, 3, 4, 10, 20), actions=(2, 5), mdps=12, policies=2)


class Cell(NamedTuple):
    """All MDPs of one size by one rule."""

    branching: Branching
    states: int
    actions: int
    mdps: int
    policies: int
    law: Law
    discount: float
    metrics: tuple[str, ...]
    seed: int


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Measure the gap $d(x, y) - |V^\pi(x) - V^\pi(y)|$ of several metrics on random Garnet MDPs.

    `gap` is the mean over all pairs of states and all policies on that MDP; `broken` is the share of them where it is
    negative, so that d is no bound there; `lowest` is the least of all. There is a
    line for each MDP and metric. Distances of the MDP alone stand beside the
    same values of policies, which they do not promise to bound. `like_paper` tells where actions, law and discount are
    as we take the paper's to be: its readings stand beside no others.
    """
    rest = (config.mdps, config.policies, config.law, config.discount, config.metrics, config.seed)
    cells = [Cell(*size, *rest) for size in product(config.branching, config.states, config.actions)]
    return evaluate(_measured, cells)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean gap by number of states, and over "all" of them, beside the paper's curve if the settings are its.

    "±" is the half width of its 95% interval, an MDP being one draw, and `spread` the standard deviation of a draw.
    """
    sizes = frame["states"].unique().tolist()
    read = [size for size in sizes if any(size in curve for curve in PAPER.values())] or sizes
    curves = PAPER if like_paper(frame) else {}
    lines = []
    for metric, rule in product(frame["metric"].unique(), frame["branching"].unique()):
        rows = frame[(frame["metric"] == metric) & (frame["branching"] == rule)]
        named = {"metric": metric, "branching": rule}
        for size in read:
            paper = curves.get(metric, {}).get(size, (np.nan, np.nan))
            span = "–".join(dict.fromkeys(map(printed, paper)))
            lines.append(named | {"states": str(size)} | _summary(rows[rows["states"] == size]) | {"paper": span})
        lines.append(named | {"states": "all"} | _summary(rows) | {"paper": printed(np.nan)})
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """A column for each rule: the gaps, the same near zero, and the share of pairs whose bound is broken."""
    rules = frame["branching"].unique()
    figure = Figure(figsize=(5.2 * len(rules), 9.5), layout="constrained")
    panels = figure.subplots(3, len(rules), sharex=True, sharey="row", squeeze=False)
    for rule, (whole, near, broken) in zip(rules, panels.T):
        part = frame[frame["branching"] == rule]
        for ax in (whole, near):
            _draw_gaps(part, ax)
        _draw_broken(part, broken)
        whole.set_title({"printed": "branching in 1..n, as printed", "n-1": "branching in 1..n−1, as released"}[rule])
        near.set_ylim(-0.1, 0.4)
        broken.set_xlabel("number of states")
    for ax, label in zip(panels[:, 0], ("mean of d − |ΔV|", "the same, near 0", "share of pairs with d < |ΔV|")):
        ax.set_ylabel(label)
    figure.legend(*_legend(panels[0, 0]), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _measured(cell: Cell) -> pd.DataFrame:
    seeds = np.random.SeedSequence((cell.seed, cell.states, cell.actions)).generate_state(
        cell.mdps * (1 + cell.policies)
    )
    same = (cell.law, cell.discount) == (Config.law, Config.discount) and cell.actions in Config.actions
    lines = []
    for number, (seed, *of_policies) in enumerate(seeds.reshape(cell.mdps, -1).tolist()):
        mdp = garnet(cell.states, cell.actions, seed=seed, discount=cell.discount, branching=cell.branching).mdp
        policies = np.stack([random_policy(mdp, seed=each, law=cell.law) for each in of_policies])
        where = {"branching": cell.branching, "states": cell.states, "actions": cell.actions, "mdp": number}
        where |= {"like_paper": same}
        lines += [where | {"metric": name} | _gaps(name, mdp, policies) for name in cell.metrics]
    return pd.DataFrame(lines)


def _gaps(name: str, mdp: MDP, policies: Float[np.ndarray, "B S A"]) -> dict[str, float]:
    """The gap between one distance and the differences of values of each policy."""
    solution = solve(name, mdp) if METRICS[name].on == "mdp" else solve_policies(name, mdp, policies)
    distances = np.broadcast_to(solution.matrix, (len(policies), mdp.num_states, mdp.num_states))
    values = [mdp.chain(policy).value() for policy in policies]
    bounds = [value_bound(d, value, error=solution.error) for d, value in zip(distances, values, strict=True)]
    lowest = min(float((d - np.abs(value[:, None] - value)).min()) for d, value in zip(distances, values, strict=True))
    broken, gap = np.mean(bounds, axis=0)
    return {"gap": float(gap), "broken": float(broken), "lowest": lowest}


def _summary(rows: pd.DataFrame) -> dict[str, float]:
    gap = rows["gap"].to_numpy()
    mean, _, high = mean_interval(gap)
    spread = float(np.std(gap, ddof=1)) if gap.size > 1 else np.nan
    return {"gap": mean, "±": high - mean, "spread": spread, "broken": float(rows["broken"].mean())}


def _draw_gaps(frame: pd.DataFrame, ax: Axes) -> None:
    """Means over MDPs: a circle for each number of actions, a line with its interval over all, the paper's diamonds."""
    for metric, colour in plots.colours(frame["metric"].unique()).items():
        part = frame[frame["metric"] == metric]
        circles = part.groupby(["states", "actions"], as_index=False)["gap"].mean()
        ax.scatter(circles["states"], circles["gap"], _AREA * circles["actions"], color=colour, alpha=0.35, linewidth=0)
        by_size = [(size, *mean_interval(rows["gap"].to_numpy())) for size, rows in part.groupby("states")]
        size, mean, low, high = np.transpose(by_size)
        ax.plot(size, mean, color=colour, label=_SYMBOLS[metric])
        ax.fill_between(size, low, high, color=colour, alpha=0.2, linewidth=0)
        if metric in PAPER and like_paper(frame):
            at, ends = list(PAPER[metric]), np.array(list(PAPER[metric].values()))
            marks = {"fmt": "D", "color": colour, "markeredgecolor": "black", "ecolor": "black", "markersize": 5}
            ax.errorbar(at, ends.mean(axis=1), np.ptp(ends, axis=1) / 2, label=f"{_SYMBOLS[metric]}, paper", **marks)
    for number in frame["actions"].unique():
        ax.scatter([], [], _AREA * number, color="0.6", linewidth=0, label=f"{number} actions")
    ax.axhline(0, color="0.5", linewidth=1, zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)


def _draw_broken(frame: pd.DataFrame, ax: Axes) -> None:
    for metric, colour in plots.colours(frame["metric"].unique()).items():
        share = frame[frame["metric"] == metric].groupby("states")["broken"].mean()
        ax.plot(share.index, share, ".-", color=colour)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes) -> tuple[list, list]:
    """Lines, then diamonds, then circles."""
    named = zip(*ax.get_legend_handles_labels())
    handles, labels = zip(*sorted(named, key=lambda one: one[1].endswith("paper") + 2 * one[1].endswith("actions")))
    return list(handles), list(labels)
