"""MinAtar: five agents with and without MICo in five games, from the results in the package or trained anew."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from mico.evidence.figures import Drawing
from mico.evidence.intervals import printed
from mico.evidence.score_tables import LABELS, Pair
from mico.evidence.statistics import Estimate
from mico.evidence.study import Study
from mico.experiments.cells import Evaluation, in_turn
from mico.experiments.minatar_figures import figures, heat_maps, own_games, scored, tables, weights_of
from mico.experiments.minatar_plan import PHASES, Config, key_of
from mico.experiments.minatar_results import Known, known, lacking, parts_of, sentences
from mico.experiments.minatar_training import train
from mico.plotting import score_plots
from mico.runs.archive import COLUMNS, of_runs

__all__ = ["MANNER", "QUICK", "REREADS", "Config", "figures", "plot", "run", "table", "tables"]

_LOG = logging.getLogger(__name__)
_LINES = 60  # of a table that is printed
REREADS = True  # results are read anew at every call
MANNER = ("train", "runs", "max_runs", "seconds")  # how it is trained may change before it goes on

QUICK = Config(
    games=("breakout",),
    agents=("dqn",),
    seeds=(0, 1),
    steps=24_000,
    points=20,
    phases=("study",),
    train=True,
    runs="",
    epsilon_decay=8_000,  # so that what is learnt is played
)


def run(config: Config, evaluate: Evaluation = in_turn) -> pd.DataFrame:
    r"""Compare five agents with and without MICo on five MinAtar games, paired by seed.

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
    for line in sentences([one for part in parts if (one := lacking(part, results)).cells]):
        _LOG.info(line)
    wanted = {phase: {key_of(cell) for part in parts if part.phase == phase for cell in part.cells} for phase in PHASES}
    found = pd.concat([_rows(results, phase, wanted[phase]) for phase in PHASES], ignore_index=True)
    if found.empty:
        raise ValueError("there are no results of these runs yet: --train trains them")
    return found


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each arm: IQM and mean of its scores, and against its baseline; each with its 95% interval.

    They are of the games that an arm and its baseline have, on the scale of DQN alone. Where there are none, there are
    final returns by game; of a sweep alone, its.
    """
    looked_at = scored(frame)
    own = {} if looked_at is None else own_games(looked_at)
    if looked_at is None or not own:
        found = tables(frame)
        return found.get("by-environment", found.get("alpha-beta", frame)).head(_LINES)
    weights, lines = weights_of(frame), []
    for arm, scores in own.items():
        with_mico = {"α": f"{weights[arm].alpha:g}", "β": f"{weights[arm].beta:g}"} if arm in weights else {}
        line: dict[str, Any] = {"arm": arm, "α": "–", "β": "–"} | with_mico
        line |= {"games": scores.shape[1], "seeds": len(scores)}
        line |= {LABELS[name]: _text(looked_at.estimate(scores, name)) for name in ("iqm", "mean")}
        if (pair := _pair(looked_at, own, arm)) is not None:
            gain = pair.differences(looked_at).get("iqm")
            line |= {"P(improvement)": _text(pair.probability(looked_at))}
            line |= {} if gain is None else {"difference of IQM": _text(gain)}
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
    own, panels = own_games(looked_at), {}
    for name in ("iqm", "mean") if own else ():
        panels[LABELS[name]] = {arm: looked_at.estimate(scores, name) for arm, scores in own.items()}
    pairs = [pair for arm in own if (pair := _pair(looked_at, own, arm)) is not None]
    if pairs:
        panels["probability of improvement"] = {pair.arm: pair.probability(looked_at) for pair in pairs}
    styles = score_plots.arm_styles(looked_at.frame)
    figure = Figure(figsize=(4.4 * max(len(panels), 1), 1.2 + 0.3 * len(styles)), layout="constrained")
    games = {arm: scores.shape[1] for arm, scores in own.items()}
    for ax, (label, estimates) in zip(figure.subplots(1, max(len(panels), 1), squeeze=False).flat, panels.items()):
        score_plots.interval_bars(estimates, ax, label=label, style_of=styles)
        if len(set(games.values())) > 1:
            ax.set_yticks(ax.get_yticks(), [f"{arm}, {games[arm]} game{'s' * (games[arm] > 1)}" for arm in estimates])
        if label.startswith("probability"):
            ax.axvline(0.5, color="0.5", linewidth=1, zorder=0)
    return figure


def _rows(results: Known, phase: str, wanted: Collection[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows of the runs that are wanted, finished or not."""
    return of_runs(results.of[phase].rows, wanted).assign(phase=phase)[["phase", *COLUMNS]]


def _pair(looked_at: Study, own: Mapping[str, pd.DataFrame], arm: str) -> Pair | None:
    """An arm and its baseline in the games of both, if it has one."""
    base = looked_at.baseline_of.get(arm)
    return None if base is None or base not in own else Pair(arm, base, own[arm], own[base][own[arm].columns])


def _text(estimate: Estimate) -> str:
    value, low, high = map(printed, estimate)
    return f"{value} [{low}, {high}]"


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """The folder, or one that is not kept."""
    if name:
        yield Path(name)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)
