"""The figures of a report with their data, and a sentence for each that the data do not allow."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from mico.evidence.atari_scores import random_scores
from mico.evidence.baselines import baseline_first_returns
from mico.evidence.captions import measured_games, not_aggregated, over_envs, scope, too_few_seeds
from mico.evidence.curves import aggregate_curves
from mico.evidence.improvement import improvements
from mico.evidence.intervals import LEVEL, mean_intervals
from mico.evidence.learning_speed import MEASURES, speed_estimates
from mico.evidence.score_tables import LABELS, aggregates, no_baseline, pairs
from mico.evidence.speed_tables import LABELS as SPEED_LABELS
from mico.evidence.statistics import Estimate, profile
from mico.evidence.study import Study
from mico.plotting import score_plots
from mico.runs.file_names import file_name

_POINTS = 30  # of aggregates against steps, each of which has a bootstrap
_THRESHOLDS = 81
_TOO_WIDE = 0.5  # mean width of a profile's intervals, where 1 is the height of the figure
_MOST_SPEEDS = 6  # environments in a figure of learning speed
_LETTER = 0.085  # inches of a name, about
_LINE = 0.22  # inches of each line of a legend after the first, which figures have room for


class Drawing(NamedTuple):
    """A figure, what it shows, and the numbers in it."""

    name: str
    caption: str
    figure: Figure
    data: pd.DataFrame


class Undrawn(NamedTuple):
    """A figure that there is not, and why."""

    name: str
    why: str


def drawings(study: Study) -> Iterator[Drawing | Undrawn]:
    """Every figure in turn, or why not."""
    yield from _speed(study)
    for draw in _FIGURES:
        if study.leads_with_speed and draw in _OF_FINAL_SCORES:
            continue
        yield from draw(study)
    if study.leads_with_speed:
        yield Undrawn("final-scores", "No figures of final scores: most runs of every arm end at the best score.")


def _speed(study: Study) -> Iterator[Drawing | Undrawn]:
    """The measures of learning speed, a row for each environment in which final scores say nothing."""
    envs = study.tied[:_MOST_SPEEDS]
    if not envs or study.rows_of_runs.max() < 2:
        return
    numbers = speed_estimates(study.speed, **study.bootstrap)
    arms = numbers["arm"].nunique()
    figure = Figure(figsize=(9, 0.5 + (0.75 + 0.4 * arms) * len(envs)), layout="constrained")
    for row, env in zip(figure.subplots(len(envs), len(MEASURES), squeeze=False), envs):
        for ax, measure in zip(row, MEASURES):
            own = numbers[(numbers["env"] == env) & (numbers["measure"] == measure)]
            found = {line["arm"]: Estimate(line["value"], line["low"], line["high"]) for line in own.to_dict("records")}
            score_plots.interval_bars(found, ax, label=SPEED_LABELS[measure], style_of=study.styles)
        row[0].set_title(env, fontsize="medium", loc="left", parse_math=False)
        row[-1].set_yticklabels([])
        row[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    drawn = numbers[numbers["env"].isin(envs)]
    late = drawn.loc[drawn["reached"] < drawn["runs"], "arm"].unique()
    more = f" Runs of {', '.join(late)} that never get there count with all their steps." if len(late) else ""
    caption = f"How fast arms learn: means over seeds with 95% intervals.{more}"
    yield Drawing("learning-speed", caption, figure, numbers)


def _training(study: Study) -> Iterator[Drawing | Undrawn]:
    if study.rows_of_runs.max() < 2:
        yield Undrawn("curves", "No curves: every run has a single return.")
        return
    envs = study.curves["env"].nunique()
    figure, axes = _grid(envs, columns=min(envs, 5))
    score_plots.training_grid(study.curves, axes, level=LEVEL, frame_skip=study.frame_skip, style_of=study.styles)
    caption = f"Returns while learning, in each environment: means over seeds with {LEVEL:.0%} intervals (Student)."
    _legend(figure)
    yield Drawing("curves", caption, figure, _bands(study.curves))


def _against_steps(study: Study) -> Iterator[Drawing | Undrawn]:
    why = not_aggregated(study)
    if why is None and study.rows_of_runs.max() < 2:
        why = "every run has a single return"
    if why is not None:
        yield Undrawn("aggregates-against-steps", f"No aggregates against steps: {why}.")
        return
    names = [name for name in aggregates(study) if name != "optimality-gap"]
    frame = study.scaled[study.scaled["env"].isin(study.shared_envs) & study.scaled["arm"].isin(study.aggregated)]
    parts, lost, figure = [], (), Figure(figsize=(4.6 * len(names), 3.6), layout="constrained")
    for ax, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names):
        options = {"points": _POINTS, "last": study.choices.last, "steps": study.steps, **study.curve_bootstrap}
        lines, lost = aggregate_curves(frame, name, **options)
        looks = {"frame_skip": study.frame_skip, "style_of": study.styles}
        score_plots.aggregate_lines(lines, ax, label=LABELS[name], **looks)
        parts.append(lines.assign(aggregate=name))
    _legend(figure)
    more = [f"{one}." for one in lost if one not in study.scores.excluded]
    caption = " ".join([f"Aggregates against steps with 95% intervals, {scope(study)}.", *more])
    yield Drawing("aggregates-against-steps", caption, figure, pd.concat(parts, ignore_index=True))


def _intervals(study: Study) -> Iterator[Drawing | Undrawn]:
    why = not_aggregated(study) or too_few_seeds(study)
    if why is not None:
        yield Undrawn("intervals", f"No plot of intervals: {why}.")
        return
    names, parts = aggregates(study), []
    figure = Figure(figsize=(3.6 * len(names) + 1, 0.9 + 0.45 * len(study.tables)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(names), sharey=True))
    for ax, name in zip(axes, names):
        found = {arm: study.estimate(table, name) for arm, table in study.tables.items()}
        score_plots.interval_bars(found, ax, label=LABELS[name], style_of=study.styles)
        parts.append(_as_frame(found).assign(aggregate=name))
    caption = f"Aggregates at the end with 95% intervals, {scope(study)}."
    yield Drawing("intervals", caption, figure, pd.concat(parts, ignore_index=True))


def _profiles(study: Study) -> Iterator[Drawing | Undrawn]:
    why = not_aggregated(study) or too_few_seeds(study)
    if why is not None:
        yield Undrawn("profiles", f"No performance profiles: {why}.")
        return
    scores = np.concatenate([table.to_numpy().ravel() for table in study.tables.values()])
    if scores.min() == scores.max():
        yield Undrawn("profiles", "No performance profiles: all scores are the same.")
        return
    thresholds = np.linspace(scores.min(), scores.max(), _THRESHOLDS)
    found = {arm: profile(table, thresholds, **study.bootstrap) for arm, table in study.tables.items()}
    if min(float(np.mean(one.high - one.low)) for one in found.values()) > _TOO_WIDE:
        few = max(table.size for table in study.tables.values())
        yield Undrawn(
            "profiles", f"No performance profiles: of {few} scores an arm their intervals would fill the figure."
        )
        return
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    score_plots.profile_lines(found, thresholds, figure.subplots(), label="score τ", style_of=study.styles)
    _legend(figure)
    data = pd.concat(
        [pd.DataFrame({"arm": arm, "threshold": thresholds, **one._asdict()}) for arm, one in found.items()]
    )
    caption = f"Performance profiles: the share of runs that score more than τ, with 95% intervals, {scope(study)}."
    yield Drawing("profiles", caption, figure, data)


def _improvements(study: Study) -> Iterator[Drawing | Undrawn]:
    means = study.returns[0].pivot_table(index="arm", columns="env", values="value")
    both = [(arm, base) for arm, base in study.baseline_of.items() if {arm, base} <= set(means.index)]
    if not both:
        yield Undrawn("improvement", f"No bars of improvement: {no_baseline(study)}.")
    for arm, base in both:
        ours, theirs = (means.loc[[one]].dropna(axis="columns") for one in (arm, base))
        percent, lost = improvements(ours, theirs, _random_scores(study, base))
        if len(percent) < 2:
            yield Undrawn(
                "improvement", f"No bars of improvement of {arm} on {base}: they need two environments at least."
            )
            continue
        figure = Figure(figsize=(max(4.5, 0.24 * len(percent) + 1.5), 3.8), layout="constrained")
        score_plots.improvement_bars(percent, figure.subplots())
        zero = "a random policy's" if study.scale == "human" else "its mean first return"
        words = (
            f"{arm} against {base}: difference of mean final returns in per cent of what the baseline has above {zero}."
        )
        caption = " ".join([words, *measured_games(study, percent.index), *(f"{one}." for one in lost)])
        data = percent.rename_axis("env").reset_index()
        yield Drawing(f"improvement-{file_name(arm)}", caption, figure, data)


def _probabilities(study: Study) -> Iterator[Drawing | Undrawn]:
    several = [pair for pair in pairs(study) if min(len(pair.x), len(pair.y)) > 1]
    if not several:
        why = "it needs two seeds of either arm" if pairs(study) else no_baseline(study)
        yield Undrawn("probability-of-improvement", f"No probability of improvement as a figure: {why}.")
        return
    found = {f"{pair.arm} > {pair.base}": pair.probability(study) for pair in several}
    wide = 3 + _LETTER * max(map(len, found))
    figure = Figure(figsize=(max(6, wide), 1 + 0.4 * len(found)), layout="constrained")
    looks = dict(zip(found, (study.styles[pair.arm] for pair in several)))
    ax = score_plots.interval_bars(found, figure.subplots(), label="probability of improvement", style_of=looks)
    ax.axvline(0.5, color="0.5", linewidth=1, zorder=0)
    over = {}
    for pair in several:
        over.setdefault(over_envs(study, pair.x.columns), []).append(pair.arm)
    means = "; ".join(f"{words} ({', '.join(arms)})" if len(over) > 1 else words for words, arms in over.items())
    caption = f"How likely a run of one arm scores more than a run of the other, 95% intervals, mean {means}."
    yield Drawing("probability-of-improvement", caption, figure, _as_frame(found))


def _sweeps(study: Study) -> Iterator[Drawing | Undrawn]:
    fields, curves = ["metric.alpha", "metric.beta"], study.curves
    grids = 0
    for agent, own in curves.groupby("agent", sort=False) if set(fields) <= set(curves.columns) else ():
        swept, base = own[own["metric"] != "none"], own[own["metric"] == "none"]
        lines = swept.groupby(fields)["arm"].nunique()
        words = swept[fields].apply(pd.to_numeric, errors="coerce").isna().to_numpy().any()
        few = min(swept[name].nunique() for name in fields) < 2
        if few or words or lines.max() > 1 or base["arm"].nunique() > 1:
            continue
        rows, columns = swept[fields[0]].nunique(), swept["env"].nunique()
        figure, axes = _grid(rows * columns, columns=columns)
        score_plots.sweep_grid(own, axes, level=LEVEL, frame_skip=study.frame_skip)
        caption = f"{agent} with every α and β, {LEVEL:.0%} intervals (Student); grey is the arm without a metric loss."
        yield Drawing(f"alpha-beta-{file_name(str(agent))}", caption, figure, _bands(own))
        grids += 1
    if not grids:
        yield Undrawn(
            "alpha-beta", "No grid over α and β: no agent has several values of both and nothing else that varies."
        )


_OF_FINAL_SCORES = (_intervals, _profiles, _probabilities, _improvements)
_FIGURES: Sequence[Callable[[Study], Iterator[Drawing | Undrawn]]] = (
    _against_steps,
    _intervals,
    _profiles,
    _probabilities,
    _improvements,
    _sweeps,
    _training,
)


def _random_scores(study: Study, base: str) -> dict[str, float]:
    """Scores of a random policy: published ones for Atari, elsewhere the first returns of the baseline."""
    if study.scale == "human":
        return random_scores(study.frame["env"].unique())
    return baseline_first_returns(study.frame, base).to_dict()


def _grid(count: int, columns: int) -> tuple[Figure, np.ndarray]:
    rows = ceil(count / columns)
    figure = Figure(figsize=(max(2.7 * columns, 5.4), 2.2 * rows + 0.9), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _legend(figure: Figure) -> None:
    """One for all Axes, above them, with as many columns as the figure has room for, which grows by its lines."""
    for legend in [*figure.legends, *(ax.get_legend() for ax in figure.axes)]:
        if legend is not None:
            legend.remove()
    shown = score_plots.legend_lines(figure.axes)
    wide = 0.5 + _LETTER * max(map(len, shown))
    columns = max(1, min(len(shown), int(figure.get_figwidth() / wide)))
    figure.set_figheight(figure.get_figheight() + _LINE * (ceil(len(shown) / columns) - 1))
    figure.legend(shown.values(), list(shown), loc="outside upper center", ncols=columns, frameon=False)


def _bands(curves: pd.DataFrame) -> pd.DataFrame:
    return mean_intervals(curves, ("env", "arm", "step"), LEVEL)


def _as_frame(estimates: dict[str, Estimate]) -> pd.DataFrame:
    return pd.DataFrame([{"arm": arm, **one._asdict()} for arm, one in estimates.items()])
