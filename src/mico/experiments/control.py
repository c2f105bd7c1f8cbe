"""Continuous control: SAC with and without MICo, and three variants of DBC, beside the paper's curves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import tyro
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter

from mico.evidence.run_scores import LAST, final_scores
from mico.experiments.cells import Evaluation, in_turn
from mico.plotting import plots
from mico.runs import archive as condensed
from mico.runs.log import REACHED

PACKAGED = Path(__file__).parent / "data" / "control"
REREADS = True  # results are read anew at every call
_RUN = ["task", "arm", "metric", "seed"]
ALGORITHMS = {"none": "SAC", "mico": "SAC + MICo", "dbc": "DBC", "dbc-det": "DBC-Det", "dbc-mico": "DBC + MICo"}

# From pixels after 100,000 steps, read off the paper's figure by eye, where that can be done: not for DBC, nor for the
# walker, whose curves rise and fall.
PAPER = {
    "cartpole-balance": {"none": 960, "mico": 960},
    "cartpole-balance_sparse": {"none": 980, "mico": 980},
    "cartpole-swingup": {"none": 600, "mico": 710},
    "cheetah-run": {"none": 170, "mico": 170},
    "finger-spin": {"none": 180, "mico": 180},
    "hopper-hop": {"none": 12, "mico": 12},
    "hopper-stand": {"none": 50, "mico": 90},
    "pendulum-swingup": {"none": 200, "mico": 400},
    "point_mass-easy": {"none": 230, "mico": 660},
}


@dataclass(frozen=True)
class Config:
    """The tasks to compare, and the folder of the runs."""

    tasks: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help="Tasks to show, such as cartpole-swingup.", help_behavior_hint="(default: all that have results)"
        ),
    ] = ()
    results: Annotated[
        str,
        tyro.conf.arg(
            metavar="FOLDER",
            help="Folder that holds a folder written by `mico collect` for each arm, such as `pixels`.",
            help_behavior_hint="(default: the package's runs)",
        ),
    ] = ""

    def __post_init__(self) -> None:
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"tasks must all be different, but are {self.tasks}")
        if self.results and not Path(self.results).is_dir():
            raise ValueError(f"results must be a folder, but is {self.results!r}")


QUICK = Config()


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    """Compare SAC with and without MICo, DBC, DBC-Det and DBC + MICo on the DeepMind Control suite.

    Nothing is trained: runs are read. A line for each run and point of its curve: `score` is the mean return of the
    `episodes` since the point before, `arm` the folder that it is from: what the agents see, `states` or `pixels`.
    """
    del evaluate
    folder = Path(config.results) if config.results else PACKAGED
    frame = condensed.read_arms(folder)
    of_suite = frame["env"].astype(str).str.startswith("control/") & frame["metric"].isin(ALGORITHMS)
    frame = frame[of_suite].assign(task=frame["env"].astype(str).str.removeprefix("control/"))
    scored = set(frame["task"][frame["score"].notna()])
    if not scored or set(config.tasks) - scored:
        wanted = ", ".join(sorted(set(config.tasks) - scored)) or "the control suite"
        raise ValueError(
            f"results must have whole episodes of {wanted}, in a folder of `mico collect` for each arm,"
            f" but {folder} has none"
        )
    frame = frame[frame["task"].isin(config.tasks or scored)]
    repeated = frame[frame.duplicated([*_RUN, "step"])]
    if len(repeated):
        about = ", ".join(f"{name} {repeated[name].iloc[0]}" for name in _RUN)
        raise ValueError(f"results must have one run of each, but {folder} has several of {about}")
    columns = [*_RUN, "step", "score", "episodes"]
    return frame[columns].astype({"seed": int, "step": int, "episodes": int}).reset_index(drop=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each task, arm, algorithm and length of its runs: returns over all steps and over the last tenth.

    Means ± deviations over runs. `paper` is what its figure shows at the end, from pixels.
    """
    lines = []
    ends = frame.assign(end=frame.groupby(_RUN)["step"].transform("max"))
    for (task, arm), of_arm in ends.groupby(["task", "arm"]):
        for metric, label in ALGORITHMS.items():
            for end, own in of_arm[of_arm["metric"] == metric].groupby("end"):
                over, last = scores(own, last=1.0), scores(own)
                line = {"task": task, "arm": arm, "algorithm": label, "runs": len(over), "steps": end}
                line |= {"all": _text(over), "last tenth": _text(last)}
                lines.append(line | {"paper": _published(task, arm).get(metric, np.nan)})
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """Returns of each run (thin) and of the mean over runs; dotted, where the paper's curves end.

    The legend is beside the panels: curves go everywhere in them.
    """
    panels = frame.dropna(subset="score").groupby(["task", "arm"])
    colour_of = plots.colours(list(ALGORITHMS))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.0 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for ((task, arm), own), ax in zip(panels, axes):  # in this order: axes that are not used stay
        published = _published(task, arm)
        for metric, label in ALGORITHMS.items():
            runs = own[own["metric"] == metric]
            if len(runs):
                plots.runs_and_mean(runs, ax, colour=colour_of[metric], label=label)
            if metric in published:
                ax.axhline(published[metric], color=colour_of[metric], linestyle=":", linewidth=1)
        ax.set_title(f"{task}, {arm}\n{_counts(own)}", fontsize="medium")
        ax.set_xlabel("steps")
        ax.set_ylabel("return")
        ax.set_xlim(0, own["step"].max())
        ax.set_ylim(0, 1000)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes:
        ax.set_axis_off()
    shown = {str(line.get_label()): line for ax in figure.axes for line in ax.get_legend_handles_labels()[0]}
    if any(_published(task, arm) for task, arm in panels.groups):
        shown["the paper's curve at its end"] = Line2D([], [], color="0.3", linestyle=":", linewidth=1)
    figure.legend(shown.values(), list(shown), loc="outside upper center", ncols=2 * columns, frameon=False)
    return figure


def _counts(own: pd.DataFrame) -> str:
    """How many runs there are of each algorithm, in words that fit a title."""
    seeds, labels = own.groupby("metric")["seed"].nunique(), {}
    for metric, label in ALGORITHMS.items():
        if metric in seeds:
            labels.setdefault("1 run" if seeds[metric] == 1 else f"{seeds[metric]} runs", []).append(label)
    if len(labels) == 1:
        return f"{next(iter(labels))} of each"
    return "; ".join(f"{count} of {', '.join(alike)}" for count, alike in labels.items())


def _published(task: str, arm: str) -> dict[str, int]:
    return PAPER.get(task, {}) if arm == "pixels" else {}


def scores(rows: pd.DataFrame, *, last: float = LAST) -> pd.Series:
    """Score each run by its episodes in the last share of its steps."""
    named = rows.rename(columns={"score": "value", "task": "env"}).assign(arm=rows["metric"])
    silent = named["episodes"] == 0
    found, _ = final_scores(named.assign(name=np.where(silent, REACHED, "return")), last=last)
    return found.set_index("seed")["value"]


def _text(scores: pd.Series) -> str:
    if scores.empty:
        return "–"
    return f"{scores.mean():.0f}" + (f" ± {scores.std():.0f}" if len(scores) > 1 else "")
