"""How well linear functions of k features of states, from metrics and others, fit values: the paper's figure."""

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mico._checks import install_hint
from mico.evidence.intervals import mean_interval
from mico.experiments.cells import Evaluation, in_turn, like_paper
from mico.plotting import plots
from mico.tabular import Chain, make, random_policy
from mico.tabular.embeddings import FEATURES, Regression, regression_error
from mico.tabular.problems.gridworld import Dynamics

Grid = Literal["four-rooms", "mirrored-rooms", "dayan"]
Goals = Literal["drawn", "map"]
PolicyLaw = Literal["uniform", "dirichlet", "equal"]

_PUBLISHED_GOALS = ("mirrored-rooms",)  # the other maps leave the goal open
_SHORT = {
    "umap-reduced-mico": "UMAP of ΠU",
    "umap-pi-bisimulation": "UMAP of d_π",
    "proto-value-functions": "proto-value functions",
    "random": "random",
    "mico-embedding": "embedding of ΠU",
}
_LIKE_PAPER = ("discount", "dynamics", "goals", "policy", "regression")  # by default as we take the paper's to be
_ERRORS = {"squared": "mean squared error of V", "absolute": "mean absolute error of V"}

# Read off the paper's figures by eye: (grid, number of features) → error of each kind of features.
READINGS: dict[tuple[str, int], dict[str, float]] = {
    ("four-rooms", 2): dict(zip(FEATURES, (0.006, 0.006, 0.0065, 0.0085))),
    ("four-rooms", 48): dict(zip(FEATURES, (0.0007, 0.0007, 0.0013, 0.0045))),
    ("mirrored-rooms", 2): dict(zip(FEATURES, (0.018, 0.018, 0.021, 0.046))),
    ("dayan", 2): dict(zip(FEATURES, (0.020, 0.020, 0.012, 0.029))),
}


@dataclass(frozen=True)
class Config:
    """The grids, their discount and dynamics, what is drawn for each run, and the regression."""

    grids: Annotated[tuple[Grid, ...], tyro.conf.arg(help="Grid worlds to use.")] = get_args(Grid)
    features: Annotated[tuple[str, ...], tyro.conf.arg(help="Kinds of features to compare.")] = tuple(FEATURES)
    runs: Annotated[
        int, tyro.conf.arg(help="Runs on each grid, each with a goal, a policy and random features of its own.")
    ] = 10
    sizes: Annotated[
        int, tyro.conf.arg(help="How many different numbers of features to try, from 2 to the number of states.")
    ] = 18
    discount: Annotated[float, tyro.conf.arg(help="Discount factor γ.")] = 0.9
    dynamics: Annotated[
        Dynamics,
        tyro.conf.arg(
            help="`absorbing`: reward 1 for entering the goal, which then holds the agent. `continuing`: the same"
            " reward, -1 for bumping into a wall, and no end."
        ),
    ] = "absorbing"
    goals: Annotated[
        Goals,
        tyro.conf.arg(help="`drawn`: a random goal for each run, where no publication fixes it. `map`: the map's own."),
    ] = "drawn"
    policy: Annotated[
        PolicyLaw,
        tyro.conf.arg(
            help="Distribution of a policy's action probabilities: normalised uniform numbers, a flat Dirichlet, or all"
            " actions equal."
        ),
    ] = "uniform"
    regression: Annotated[
        Regression,
        tyro.conf.arg(help="Regression of values on the features alone (linear), or with a constant too (affine)."),
    ] = "linear"

    def __post_init__(self) -> None:
        choices = {"grids": (Grid, self.grids), "dynamics": (Dynamics, [self.dynamics]), "goals": (Goals, [self.goals])}
        choices |= {"policy": (PolicyLaw, [self.policy]), "regression": (Regression, [self.regression])}
        known = {name: (get_args(kind), given) for name, (kind, given) in choices.items()}
        for name, (names, given) in (known | {"features": (tuple(FEATURES), self.features)}).items():
            for one in given:
                if one not in names:
                    raise ValueError(f"{name} must be of {', '.join(names)}, but has {one!r}")
        for name in ("grids", "features"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must have values, all of them different, but is {values}")
        for name, number, least in (("runs", self.runs, 1), ("sizes", self.sizes, 4)):
            if number < least:
                raise ValueError(f"{name} must be at least {least}, but is {number}")
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), but is {self.discount}")


QUICK = Config(grids=("mirrored-rooms",), runs=2, sizes=6)


def check(config: Config) -> None:
    """Refuse features whose package is not installed."""
    if any(kind.startswith("umap-") for kind in config.features) and importlib.util.find_spec("umap") is None:
        others = " ".join(kind for kind in FEATURES if not kind.startswith("umap-"))
        raise ModuleNotFoundError(f"UMAP needs: {install_hint('features')}, or leave it out: --features {others}")


class Cell(NamedTuple):
    grid: str
    run: int
    features: str
    config: Config


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Measure how well linear functions of k features fit the values $V^\pi$ of three grid worlds.

    A line for each grid, run, kind of features and `size` k from 2 to the number of states: the mean `absolute` and the
    mean `squared` error over all states. `like_paper` tells whether discount, dynamics, goals, policy and regression
    are as we take the paper's to be: its readings stand beside no others. UMAP needs the extra `features`.
    """
    kinds = [(grid, run, kind) for grid in config.grids for run in range(config.runs) for kind in config.features]
    return evaluate(_measured, [Cell(*kind, config) for kind in kinds])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over runs of both errors at 2, about half and all features, beside the paper's if the settings are its.

    ± is half of the 95% interval of the squared error.
    """
    readings = READINGS if like_paper(frame) else {}
    lines = []
    for (grid, kind), part in frame.groupby(["grid", "features"], sort=False):
        for size in _shown_sizes(str(grid), part["size"].unique()):
            at_size = part[part["size"] == size]
            squared, low, _ = mean_interval(at_size["squared"].to_numpy())
            paper = readings.get((str(grid), size), {}).get(str(kind), float("nan"))
            lines.append((grid, kind, size, paper, squared, squared - low, at_size["absolute"].mean()))
    return pd.DataFrame(lines, columns=["grid", "features", "size", "paper", "squared", "±", "absolute"])


def plot(frame: pd.DataFrame) -> Figure:
    """A column for each grid and a row for each error: means over runs, 95% intervals; rings are the paper's."""
    grids = frame["grid"].unique()
    figure = Figure(figsize=(3.9 * len(grids), 6.6), layout="constrained")
    axes = figure.subplots(2, len(grids), squeeze=False)
    colour_of = plots.colours(FEATURES)
    for row, (name, label) in zip(axes, _ERRORS.items()):
        for grid, ax in zip(grids, row):
            part = frame[frame["grid"] == grid].rename(columns={"size": "step", name: "value"})
            plots.curves(part, ax, by="features", colour_of=colour_of)
            if like_paper(part):
                _mark(grid, colour_of, ax)
            ax.set(title=grid, xlabel="number of features", ylabel=label, yscale="log", ylim=_limits(part["value"]))
            ax.get_legend().remove()
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        lines, [_SHORT.get(str(name), str(name)) for name in names], loc="outside lower center", ncols=3, frameon=False
    )
    return figure


def _mark(grid: str, colour_of: dict[str, str], ax: Axes) -> None:
    read = [
        (at, kind, error) for (where, at), errors in READINGS.items() if where == grid for kind, error in errors.items()
    ]
    for at, kind, error in read:
        ax.plot(at, error, "o", color=colour_of[kind], markerfacecolor="none", markersize=8, markeredgewidth=1.5)
    if read:
        ax.plot([], [], "o", color="0.3", markerfacecolor="none", markersize=8, label="the paper's figure")


def _limits(errors: pd.Series) -> tuple[float, float]:
    """Four decades: what is less is as good as zero."""
    top = 2 * float(errors.max())
    return 1e-4 * top, top


def _measured(cell: Cell) -> pd.DataFrame:
    chain, seed = _chain(cell.grid, cell.run, cell.config)
    value, of_size = chain.value(), FEATURES[cell.features](chain, seed)
    lines = []
    for size in _sizes(cell.grid, chain.num_states, cell.config.sizes):
        error = regression_error(of_size(size), value, regression=cell.config.regression)
        lines.append({"size": size, "absolute": float(np.abs(error).mean()), "squared": float((error**2).mean())})
    same = all(getattr(cell.config, name) == getattr(Config, name) for name in _LIKE_PAPER)
    about = {"grid": cell.grid, "run": cell.run, "features": cell.features, "like_paper": same}
    return pd.DataFrame([about | line for line in lines])


def _chain(grid: str, run: int, config: Config) -> tuple[Chain, int]:
    """The chain of one run, whose goal and policy all features share, and the seed of random features."""
    options = {"discount": config.discount, "dynamics": config.dynamics}
    found = make(grid, **options)
    draw = np.random.default_rng([run, found.mdp.num_states])
    goal, policy_seed, seed = (int(draw.integers(bound)) for bound in (found.mdp.num_states, 2**31, 2**31))
    mdp = found.mdp
    if config.goals == "drawn" and grid not in _PUBLISHED_GOALS:
        mdp = make(grid, goal=goal, **options).mdp
    policy = "uniform" if config.policy == "equal" else random_policy(mdp, seed=policy_seed, law=config.policy)
    return mdp.chain(policy), seed


def _sizes(grid: str, num_states: int, count: int) -> list[int]:
    """From 2 to all states, closest at both ends; and where the paper was read."""
    half = np.rint(np.geomspace(2, num_states / 2, max(2, count // 2))).astype(int)
    read = [size for where, size in READINGS if where == grid]
    return sorted({*half.tolist(), *(num_states + 2 - half).tolist(), *read})


def _shown_sizes(grid: str, sizes: np.ndarray) -> list[int]:
    read = [size for where, size in READINGS if where == grid]
    middle = sizes[np.abs(sizes - sizes.max() / 2).argmin()]
    return sorted({int(size) for size in (sizes.min(), *([middle] if len(read) < 2 else read), sizes.max())})
