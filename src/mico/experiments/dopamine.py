"""Atari: learning curves of our agents beside those that Dopamine has published, for the first millions of frames."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, StrMethodFormatter
from scipy import stats

from mico.experiments.cells import Evaluation, in_turn
from mico.plotting import plots
from mico.runs import archive as condensed

PACKAGED = Path(__file__).parent / "data" / "atari"
ITERATION = 250_000  # agent steps, a million frames
PUBLISHED_RUNS = 5
REREADS = True  # results are read anew at every call
_LABELS = {"dqn": "DQN", "rainbow": "Rainbow", "qr-dqn": "QR-DQN"}


class Published(NamedTuple):
    """A published curve: the mean return of each iteration over five runs, and the deviation, with divisor 5."""

    agent: str
    means: tuple[float, ...]
    spreads: tuple[float, ...]

    @property
    def deviations(self) -> tuple[float, ...]:
        """Standard deviations with one degree of freedom less than runs, as ours are estimated."""
        return tuple(spread * math.sqrt(PUBLISHED_RUNS / (PUBLISHED_RUNS - 1)) for spread in self.spreads)


# Training returns of the JAX agents with the convolutional network of 2015, from google/dopamine, baselines/atari.
PUBLISHED = {
    "breakout": Published("dqn", (1.809, 7.1103, 14.186, 18.515), (0.09385, 0.8355, 0.4356, 0.4764)),
    "freeway": Published("rainbow", (0.56098, 8.7821, 22.881, 27.696), (0.2868, 2.255, 1.208, 0.1959)),
    "pong": Published("qr-dqn", (-19.756, -14.679, -5.8584, 7.3622), (0.1626, 0.9194, 3.171, 2.126)),
}


@dataclass(frozen=True)
class Config:
    """Games, each with the agent that learns it early, and where our runs are."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(help="Games: breakout, freeway or pong.")] = tuple(PUBLISHED)
    results: Annotated[
        str,
        tyro.conf.arg(
            metavar="FOLDER",
            help="Folder that holds a folder written by `mico collect` for each arm.",
            help_behavior_hint="(default: the package's runs)",
        ),
    ] = ""

    def __post_init__(self) -> None:
        for game in self.games:
            if game not in PUBLISHED:
                raise ValueError(f"games must be of {', '.join(PUBLISHED)}, but has {game!r}")
        if self.results and not Path(self.results).is_dir():
            raise ValueError(f"results must be a folder, but is {self.results!r}")
        if not self.games or len(set(self.games)) < len(self.games):
            raise ValueError(f"games must have values, all of them different, but is {self.games}")


QUICK = Config(games=("pong",))


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Compare learning curves on three Atari games with Dopamine's published ones; no agent uses MICo.

    Nothing is trained: runs of the H200 are read. A line for each run and point of its curve: `score` is the mean
    return of the `episodes` since the point before, `arm` the folder that it is from.
    """
    del evaluate
    folder = Path(config.results) if config.results else PACKAGED
    frame = condensed.read_arms(folder)
    wanted = {(f"atari/{game}", PUBLISHED[game].agent, "none"): game for game in config.games}
    games = [wanted.get(key) for key in zip(frame["env"], frame["agent"], frame["metric"])]
    frame = frame.assign(game=games)[pd.notna(pd.Series(games, dtype=object))]
    if frame.empty:
        runs = ", ".join(f"{PUBLISHED[game].agent} on {game}" for game in config.games)
        raise ValueError(
            f"results must have runs of {runs} without a metric loss, in folders made by `mico collect`,"
            f" but {folder} has none"
        )
    columns = ["game", "agent", "arm", "seed", "step", "score", "episodes"]
    return frame[columns].astype({"seed": int, "step": int, "episodes": int}).reset_index(drop=True)


def iterations(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean return of the episodes of each run's iterations, and how many `steps` of the iteration the run has."""
    known = frame.dropna(subset="score")
    of_run = known.assign(iteration=(known["step"] - 1) // ITERATION, total=known["score"] * known["episodes"])
    groups = of_run.groupby(["game", "agent", "arm", "seed", "iteration"], sort=False)
    sums = groups.agg(total=("total", "sum"), episodes=("episodes", "sum"), end=("step", "max")).reset_index()
    steps = sums["end"] - ITERATION * sums["iteration"]
    return sums.assign(score=sums["total"] / sums["episodes"], steps=steps).drop(columns=["total", "end"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each arm and iteration: mean ± deviation over runs, the published ones, and Welch's p of both.

    Runs that were cut short within it have a line of their own, and are not tested: returns rise within an iteration.
    """
    lines = []
    for (game, arm, iteration, steps), own in iterations(frame).groupby(["game", "arm", "iteration", "steps"]):
        published = PUBLISHED[game]
        if iteration >= len(published.means):
            continue
        ours = own["score"].mean(), own["score"].std()
        other = published.means[iteration], published.deviations[iteration]
        test = stats.ttest_ind_from_stats(*ours, len(own), *other, PUBLISHED_RUNS, equal_var=False)
        line = {"game": game, "arm": arm, "iteration": iteration, "steps": steps, "runs": len(own)}
        line |= {"ours": _text(*ours), "Dopamine": _text(*other), "p": test.pvalue if steps == ITERATION else np.nan}
        lines.append(line)
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """Our runs (thin) and their mean, and the published mean of each iteration, as wide as it, ± a deviation.

    Dots are the means of our runs over an iteration that they have all of.
    """
    games = [game for game in PUBLISHED if game in set(frame["game"])]
    colour_of = plots.colours(sorted(frame["arm"].unique()))
    figure = Figure(figsize=(4.6 * len(games), 3.6), layout="constrained")
    for ax, game in zip(figure.subplots(1, len(games), squeeze=False).flat, games):
        own = frame[frame["game"] == game].dropna(subset="score")
        _draw_published(ax, PUBLISHED[game], int(own["step"].max()))
        for arm, colour in colour_of.items():
            _draw_arm(ax, own[own["arm"] == arm], arm, colour)
        ax.set_title(f"{_LABELS[PUBLISHED[game].agent]} on {game.capitalize()}")
        ax.set_xlabel("steps")
        ax.set_ylabel("return")
        ax.set_xlim(left=0)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.xaxis.set_major_locator(MultipleLocator(ITERATION))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="upper left")
    return figure


def _draw_arm(ax: Axes, own: pd.DataFrame, arm: str, colour: str) -> None:
    if own.empty:
        return
    plots.runs_and_mean(own, ax, colour=colour, label=f"ours, {{}}, {arm}")
    whole = iterations(own).query("steps == @ITERATION")
    middles = (whole["iteration"] + 0.5) * ITERATION
    ax.plot(middles, whole["score"], "o", color=colour, markersize=5, alpha=0.8, markeredgewidth=0)


def _draw_published(ax: Axes, published: Published, end: int) -> None:
    count = min(len(published.means), -(-end // ITERATION))
    starts = ITERATION * np.arange(count)
    means, deviations = np.array(published.means[:count]), np.array(published.deviations[:count])
    ax.hlines(means, starts, starts + ITERATION, color="0.3", label=f"Dopamine, {PUBLISHED_RUNS} runs")
    for start, low, high in zip(starts, means - deviations, means + deviations):
        ax.fill_between([start, start + ITERATION], low, high, color="0.5", alpha=0.3, linewidth=0)


def _text(mean: float, deviation: float) -> str:
    return f"{mean:.2f}" if np.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"
