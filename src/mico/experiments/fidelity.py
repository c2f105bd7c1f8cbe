"""How faithful is the distance that a network learns from samples, where the exact one is known, up to 10⁶ states?

Rewards are of the state alone and the policy is uniform, so samples and exact distances speak of the same U.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist

from mico._extras import require
from mico.evidence.intervals import mean_interval
from mico.experiments.cells import Evaluation, in_turn
from mico.experiments.fidelity_measures import agreement, sample
from mico.experiments.fidelity_worlds import Kind, has_more_states, world
from mico.plotting import plots
from mico.tabular import factored_mico
from mico.tabular._validation import checked_discount

WORKERS = 1  # a program of many seeds uses all cores

LOSSES = ("released", "fixed-point")
ARMS = ("learnt", "fitted", "sham", "untrained", "observation")
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Config:
    """Problems, how networks learn on them, and the distances that are evaluated."""

    grids: Annotated[tuple[int, ...], tyro.conf.arg(help="Sides of the grid worlds, in cells.")] = (
        10,
        32,
        100,
        316,
        1_000,
    )
    garnets: Annotated[tuple[int, ...], tyro.conf.arg(help="Numbers of states of the sparse Garnets.")] = (
        100,
        1_000,
        10_000,
    )
    breakouts: Annotated[tuple[int, ...], tyro.conf.arg(help="Numbers of columns of the board of small Breakout.")] = (
        3,
        4,
        5,
        8,
    )
    discount: Annotated[float, tyro.conf.arg(help="Discount factor γ.")] = 0.9
    seeds: Annotated[
        int,
        tyro.conf.arg(
            help="Networks of each kind, each with its own initial weights, transitions and shuffled rewards."
        ),
    ] = 5
    steps: Annotated[int, tyro.conf.arg(help="Gradient updates of each network.")] = 10_000
    batch: Annotated[int, tyro.conf.arg(help="Transitions in the batch of an update, which compares all pairs.")] = 32
    width: Annotated[int, tyro.conf.arg(help="Units of both layers of the encoder, so the size of φ.")] = 128
    learning_rate: Annotated[float, tyro.conf.arg(help="Learning rate of Adam.")] = 1e-3
    target_period: Annotated[int, tyro.conf.arg(help="Updates between copies to the target network.")] = 100
    queries: Annotated[int, tyro.conf.arg(help="States from which distances are evaluated.")] = 100
    candidates: Annotated[int, tyro.conf.arg(help="Most states to which distances are evaluated.")] = 10_000
    pairs: Annotated[int, tyro.conf.arg(help="About how many pairs of states the rank correlation is over.")] = 20_000
    neighbours: Annotated[int, tyro.conf.arg(help="Nearest neighbours of a state that are compared.")] = 10
    seed: Annotated[int, tyro.conf.arg(help="Random seed of all problems and pairs.")] = 0

    def __post_init__(self) -> None:
        if not (self.grids or self.garnets or self.breakouts):
            raise ValueError("grids, garnets or breakouts must have sizes, but all are empty")
        least = {"grids": 6, "garnets": 12, "breakouts": 3, "batch": 2, "seed": 0}
        counts = ("seeds", "steps", "width", "target_period", "queries", "pairs", "neighbours")
        for name, bound in (least | dict.fromkeys(counts, 1)).items():
            if np.min(getattr(self, name), initial=bound) < bound:
                raise ValueError(f"{name} must be at least {bound}, but is {getattr(self, name)}")
        if self.candidates <= self.neighbours:
            raise ValueError(f"candidates must be more than neighbours, {self.neighbours}, but is {self.candidates}")
        for kind, size in self.worlds:
            if not has_more_states(kind, size, self.neighbours):
                most = f"fewer than the states of a {kind} of size {size}"
                raise ValueError(f"neighbours must be {most}, but is {self.neighbours}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, but is {self.learning_rate}")
        checked_discount(self.discount)

    @property
    def worlds(self) -> list[tuple[Kind, int]]:
        """Every kind with every size of it."""
        sizes: dict[Kind, tuple[int, ...]] = {
            "grid": self.grids,
            "garnet": self.garnets,
            "breakout": self.breakouts,
        }
        return [(kind, size) for kind in sizes for size in sizes[kind]]


QUICK = Config(grids=(6,), garnets=(), breakouts=(), seeds=2, steps=200, batch=8, width=16, queries=10, pairs=100)


def check(config: Config) -> None:
    """Refuse to start where JAX is not installed."""
    require("jax", "training networks")


class Cell(NamedTuple):
    kind: Kind
    size: int
    config: Config


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Compare the distances that networks learn from samples with the exact MICo distances U and ΠU.

    There is a line for each world, loss, arm, seed and `target`.

    `rank` is Spearman's correlation over pairs of states, `kept` the share of the nearest neighbours that are right,
    `error` is $\|d - U\| / \|U\|$, `own` the mean self-distance over the exact one. Arms: `learnt` from transitions;
    `fitted` to the exact U, all that the network could reach; `sham`, learnt with the rewards shuffled among states;
    the `untrained` network; and the Euclidean distance of `observation`s, which has neither unit nor self-distances.
    """
    return evaluate(_measured, [Cell(kind, size, config) for kind, size in config.worlds])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds: rank correlations of each arm (± half of the 95% interval of the learnt), neighbours, error."""
    lines = []
    named = frame[frame["loss"] != "none"]
    for (problem, states, loss, target), part in named.groupby(["problem", "states", "loss", "target"], sort=False):
        same = (frame["problem"] == problem) & (frame["states"] == states) & (frame["target"] == target)
        arms = pd.concat([part, frame[same & (frame["loss"] == "none")]]).groupby("arm")
        mean = arms[["rank", "kept", "error", "own"]].mean()
        middle, low, _ = mean_interval(arms.get_group("learnt")["rank"].to_numpy())
        line = {"problem": problem, "states": states, "loss": loss, "target": target, "rank": middle, "±": middle - low}
        line |= {arm: mean.loc[arm, "rank"] for arm in ARMS[1:]}
        line |= {"kept": mean.loc["learnt", "kept"]}
        line |= {f"kept, {arm}": mean.loc[arm, "kept"] for arm in ("fitted", "sham", "observation")}
        line |= {"error": mean.loc["learnt", "error"], "error, fitted": mean.loc["fitted", "error"]}
        lines.append(line | {"own": mean.loc["learnt", "own"]})
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """A column for each problem and loss, against the number of states: ranks of U, of ΠU, and neighbours by ΠU."""
    columns = [(problem, loss) for problem in frame["problem"].unique() for loss in LOSSES]
    figure = Figure(figsize=(2.6 * len(columns), 7.4), layout="constrained")
    panels = figure.subplots(3, len(columns), sharex="col", sharey="row", squeeze=False)
    rows = {
        "rank correlation, U": ("rank", "U"),
        "rank correlation, ΠU": ("rank", "ΠU"),
        "neighbours, ΠU": ("kept", "ΠU"),
    }
    for (problem, loss), column in zip(columns, panels.T):
        part = frame[(frame["problem"] == problem) & frame["loss"].isin([loss, "none"])]
        for ax, (measure, target) in zip(column, rows.values()):
            _draw(part[part["target"] == target], measure, ax)
        column[0].set_title(f"{problem}, {loss}")
        column[-1].set_xlabel("states")
    for ax, label in zip(panels[:, 0], rows):
        ax.set_ylabel(label)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ARMS), frameon=False)
    return figure


def _draw(frame: pd.DataFrame, measure: str, ax: Axes) -> None:
    """Means over seeds with 95% intervals, a colour for each arm."""
    for arm, colour in plots.colours(ARMS).items():
        groups = frame[frame["arm"] == arm].groupby("states")[measure]
        points = [(states, *mean_interval(values.to_numpy())) for states, values in groups]
        states, mean, low, high = np.transpose(points)
        ax.plot(states, mean, ".-", color=colour, label=arm)
        ax.fill_between(states, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xscale("log")
    ax.spines[["top", "right"]].set_visible(False)


def _measured(cell: Cell) -> pd.DataFrame:
    from mico.experiments.fidelity_arms import arms, learnt_distances, losses
    from mico.experiments.fidelity_learning import Training, represented, tables_of

    config = cell.config
    here = world(cell.kind, cell.size, discount=config.discount, seed=config.seed)
    exact = factored_mico(here.mdp.chain(), tolerance=_TOLERANCE).factors
    counts = {"states": config.queries, "others": config.candidates, "pairs": config.pairs}
    looked = sample(here.mdp.num_states, **counts, seed=config.seed)
    truth = {"U": looked.exact(exact, "mico"), "ΠU": looked.exact(exact, "reduced-mico")}
    named = {"problem": cell.kind, "size": cell.size, "states": here.mdp.num_states}
    ways = {"count": config.neighbours, "tolerance": _TOLERANCE}
    training, tables = Training(*(getattr(config, name) for name in Training._fields)), tables_of(here)
    lines = []
    for name, loss in losses(config.discount).items():
        for arm, encoders in arms(loss, here.mdp, exact, tables, training, seed=config.seed):
            phi = [represented(encoders, tables, states) for states in (looked.states, looked.others)]
            for seed, (x, y) in enumerate(zip(*phi)):
                own = float(np.square(y).sum(axis=1).mean() / exact.self_distance[looked.others].mean())
                of = {"loss": name, "arm": arm, "seed": seed, "own": own}
                for target, found in learnt_distances(loss, x, y).items():
                    lines.append(named | of | {"target": target} | agreement(found, truth[target], looked, **ways))
    x, y = (here.observations[states].astype(float) for states in (looked.states, looked.others))
    of = {"loss": "none", "arm": "observation", "seed": 0, "own": np.nan}
    for target in truth:
        found = agreement(cdist(x, y), truth[target], looked, **ways)
        lines.append(named | of | {"target": target} | found | {"error": np.nan})
    return pd.DataFrame(lines)
