"""MinAtar: does MICo help five agents in five games? Of results that the package has, or that are trained."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mico.experiments.cells import Evaluation, in_turn
from mico.experiments.minatar_figures import figures, heat_maps, scored, style_of, tables, weights_of
from mico.experiments.minatar_plan import PHASES, Config, key_of
from mico.experiments.minatar_results import Known, known, lacking, parts_of, sentences
from mico.experiments.minatar_training import train
from mico.pages.report_figures import Drawing
from mico.pages.report_scores import LABELS, pairs
from mico.results import score_plots
from mico.results.condensed import COLUMNS, KEY
from mico.results.intervals import printed
from mico.results.statistics import Estimate

__all__ = ["QUICK", "Config", "figures", "plot", "run", "table", "tables"]

_LOG = logging.getLogger(__name__)
_LINES = 60  # of a table that is printed
_SHORT = {"probability of improvement": "P(improvement)", "difference of iqm": "difference of IQM"}

QUICK = Config(
    games=("breakout",), agents=("dqn",), seeds=(0, 1), steps=2_400, points=20, phases=("study",), train=True, runs=""
)


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Does MICo help? Five MinAtar games, five agents, with and without MICo, paired by seed.

    α and β are the paper's, and those that a sweep with other seeds on two games chose. A line for each run and point
    of its curve, as the committed results have them: `phase` is alpha-beta (the sweep) or study, `score` the mean
    return since the point before, then what φ is like. Runs that no results have are named, and trained if asked.
    """
    del evaluate  # results are read, and fleets trained one after the other in this process
    with _folder(config.runs) as runs:
        folder = Path(config.results) if config.results else runs / "results"
        if config.train:
            train(config, runs, folder)
        results = known(folder, config)
    parts = {part.name: part for agent in config.agents for part in parts_of(config, results, agent)}.values()
    for line in sentences([one for part in parts if (one := lacking(part, results)).cells], config):
        _LOG.info(line)
    wanted = {phase: {key_of(cell) for part in parts if part.phase == phase for cell in part.cells} for phase in PHASES}
    found = pd.concat([_rows(results, phase, wanted[phase]) for phase in PHASES], ignore_index=True)
    if found.empty:
        raise ValueError("there are no results of these runs yet: --train trains them")
    return found


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each arm: IQM and mean of its scores, and against its baseline; each with its 95% interval.

    Scores are on the scale of DQN alone. Where there is none, there are final returns by game; of a sweep alone, its.
    """
    found = tables(frame)
    if "aggregates" not in found:
        return found.get("by-environment", found.get("alpha-beta", frame)).head(_LINES)
    weights, lines = weights_of(frame), []
    for arm, own in found["aggregates"].groupby("arm", sort=False):
        numbers = own.set_index("aggregate")
        with_mico = {"α": f"{weights[arm].alpha:g}", "β": f"{weights[arm].beta:g}"} if arm in weights else {}
        line: dict[str, Any] = {"arm": arm, "α": "–", "β": "–"} | with_mico
        line |= {"games": own["environments"].iloc[0], "seeds": own["seeds"].iloc[0]}
        for name in ("iqm", "mean"):
            line[LABELS[name]] = _text(numbers.loc[name])
        compared = found.get("comparisons", pd.DataFrame(columns=["arm", "comparison"]))
        for _, one in compared[compared["arm"] == arm].iterrows():
            if one["comparison"] != "difference of mean":
                line[_SHORT[one["comparison"]]] = _text(one)
        lines.append(line)
    return pd.DataFrame(lines).fillna("–")


def plot(frame: pd.DataFrame) -> Figure:
    """IQM and mean of every arm, and how likely each is to improve on its baseline, with 95% intervals.

    Of a sweep alone, its heat maps.
    """
    looked_at = scored(frame)
    if looked_at is None:
        drawn = heat_maps(frame)
        return drawn.figure if isinstance(drawn, Drawing) else Figure()
    panels: dict[str, dict[str, Estimate]] = {}
    if looked_at.comparable and looked_at.shared_envs:
        for name in ("iqm", "mean"):
            panels[LABELS[name]] = {arm: looked_at.estimate(own, name) for arm, own in looked_at.tables.items()}
    if compared := pairs(looked_at):
        panels["probability of improvement"] = {pair.arm: pair.probability(looked_at) for pair in compared}
    arms = looked_at.frame.drop_duplicates("arm")
    styles = {arm: style_of(metric) for arm, metric in zip(arms["arm"], arms["metric"])}
    figure = Figure(figsize=(4.4 * max(len(panels), 1), 1.2 + 0.3 * len(styles)), layout="constrained")
    for ax, (label, estimates) in zip(figure.subplots(1, max(len(panels), 1), squeeze=False).flat, panels.items()):
        score_plots.interval_bars(estimates, ax, label=label, style_of=styles)
        if label.startswith("probability"):
            ax.axvline(0.5, color="0.5", linewidth=1, zorder=0)
    return figure


def _rows(results: Known, phase: str, wanted: Collection[tuple[Any, ...]]) -> pd.DataFrame:
    """Of the runs that are wanted, whether they have come to their end or not."""
    rows = results.of[phase].rows
    runs = rows[KEY].astype(object).where(rows[KEY].notna(), None)
    kept = [tuple(run) in wanted for run in runs.itertuples(index=False)]
    return rows.loc[np.array(kept, dtype=bool), list(COLUMNS)].assign(phase=phase)[["phase", *COLUMNS]]


def _text(row: pd.Series) -> str:
    value, low, high = (printed(row[name]) for name in Estimate._fields)
    return f"{value} [{low}, {high}]"


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """The folder, or one that is not kept."""
    if name:
        yield Path(name)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)
