"""Every metric on one grid world: how it bounds differences of value, and how far each state is from the goal."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mico.tabular import MDP, METRICS, make, solve, wasserstein
from mico.tabular.plotting import add_shared_colour_bar, colour_norm, is_crowded, plot_map
from mico.tabular.problems import Layout

_ACROSS = 3  # maps in one row of the figure


@dataclass(frozen=True)
class Config:
    """A grid world by its name, and its discount; the policy is the uniform one."""

    problem: str = "four-rooms"
    discount: float = 0.99
    tolerance: float = 1e-8


def run(config: Config, track: Callable[[Iterable[str]], Iterable[str]] = iter) -> pd.DataFrame:
    r"""A line for each metric and each cell of the map, with the `distance` of that cell from the (first) goal.

    Four columns are of the metric as a whole: its certified `error`, the share of pairs where it has `broken` the bound
    $|\Delta V| \le d$ (on $V^\pi$; on $V^*$ if the metric is of the MDP alone), the mean gap $d - |\Delta V|$, seconds.
    `track` may wrap the names of the metrics to show progress.
    """
    grid = make(config.problem, discount=config.discount)
    if grid.layout is None or not grid.layout.goals:
        raise ValueError(f"problem must have a map with a goal, but {config.problem!r} has none")
    wasserstein(np.ones(1), np.ones(1), np.zeros((1, 1)))  # loads the transport solver, which is no metric's time
    parts = [_measured(name, grid.mdp, grid.layout, config.tolerance) for name in track(METRICS)]
    return pd.concat(parts, ignore_index=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """One line a metric."""
    return frame[["metric", "error", "broken", "mean_gap", "seconds"]].drop_duplicates(ignore_index=True)


def plot(frame: pd.DataFrame) -> Figure:
    """A map for each metric: the distance of every cell from the goal, which is starred.

    All maps share one scale of colours, so that they can be compared; it is by rank where linear colours would show one
    of the maps as a single colour.
    """
    names = frame["metric"].unique()
    crowded = any(is_crowded(cells) for _, cells in frame.groupby("metric")["distance"])
    norm = colour_norm(frame["distance"], "rank" if crowded else "linear")
    down = -(-len(names) // _ACROSS)
    figure = Figure(figsize=(3 * _ACROSS, 2.8 * down), layout="constrained")
    axes = figure.subplots(down, _ACROSS, squeeze=False)
    for name, ax in zip(names, axes.flat):
        cells = frame[frame["metric"] == name]
        image = cells.pivot(index="row", columns="column", values="distance").to_numpy()
        goals = cells[cells["cell"] == "goal"]
        marks = dict.fromkeys(zip(goals["row"].tolist(), goals["column"].tolist()), "*")
        plot_map(image, ax, label=None, marks=marks, colours=norm)
        ax.set_title(name)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    add_shared_colour_bar(figure, axes, norm, "d(goal, ·)")
    return figure


def _measured(name: str, mdp: MDP, layout: Layout, tolerance: float) -> pd.DataFrame:
    start = time.perf_counter()
    solution = solve(name, mdp, tolerance=tolerance)
    seconds = time.perf_counter() - start
    row, column = (axis.ravel() for axis in np.indices(layout.cells.shape))
    state = layout.cells.ravel()
    cell = np.select([state < 0, np.isin(state, layout.goals)], ["wall", "goal"], "free")
    distances = layout.paint(solution.matrix[layout.goals[0]]).ravel()
    of_cells = {"row": row, "column": column, "state": state, "cell": cell, "distance": distances}
    of_metric = {"error": solution.error, **solution.value_bound()._asdict(), "seconds": seconds}
    return pd.DataFrame({"metric": name} | of_cells | of_metric)
