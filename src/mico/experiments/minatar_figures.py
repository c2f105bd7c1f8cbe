"""Tables and figures of the study on MinAtar: scores as reports have them, the sweep, and what MICo does to φ."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mico.evidence.baselines import scale_of
from mico.evidence.figures import Drawing, Undrawn, drawings
from mico.evidence.intervals import mean_intervals, paired_test, printed, welch_test
from mico.evidence.learning_speed import mean_over_steps
from mico.evidence.run_scores import LAST, NEARLY, final_scores
from mico.evidence.score_tables import score_tables
from mico.evidence.scores import with_arms
from mico.evidence.statistics import RESAMPLES, adjust_p_values
from mico.evidence.study import Choices, Study, study
from mico.experiments.minatar_plan import Weights, best_weights, paper_weights
from mico.plotting import score_plots
from mico.runs.archive import KEY
from mico.runs.sources import Sources
from mico.runs.tables import read_scores

LABELS = {
    "norm": "mean norm of φ",
    "angle": "mean angle",
    "effective_rank": "effective rank",
    "dead_units": "dead units",
    "agreement": "agreement, U and |ΔV|",
}
DIFFERENCES = (
    *("measure", "agent", "metric", "env", "value", "low", "high", "count"),
    *("unpaired value", "unpaired low", "unpaired high", "p", "unpaired p"),
)
Looks = Mapping[str, score_plots.Style]
_LEVEL = 0.95
_POINTS = 50


def scored(frame: pd.DataFrame) -> Study | None:
    """The runs of the study as a report sees them; none if there are none.

    Returns are on the scale of DQN alone, or of the first agent that there is: 0 is that arm's mean first return,
    1 its mean final return. Runs that were stopped do not count.
    """
    rows = whole(frame)[0].dropna(subset="score")
    if rows.empty:
        return None
    runs = with_arms(read_scores(_named(rows)))
    plain = runs.loc[runs["metric"] == "none", "arm"].unique()
    unit = "dqn" if "dqn" in plain else next(iter(plain), None)
    scale = "none"
    if unit is not None:
        found, _ = scale_of(unit, runs)
        scale = unit if any(found(env) is not None for env in runs["env"].unique()) else "none"
    choices = Choices(scale, None, LAST, None, _POINTS, RESAMPLES, seed=0)
    return study(Sources(runs.drop(columns="arm"), [], []), choices)


def whole(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows of the runs of the study that came to their end, as far as any; and a sentence for those that did not.

    Others would move all runs of their game to the step at which they were stopped.
    """
    rows = frame[frame["phase"] == "study"]
    if rows.empty:
        return rows, []
    ends = rows.groupby(KEY, dropna=False)["step"].transform("max")
    stopped = ends < NEARLY * ends.max()
    counts = rows[stopped].drop_duplicates(KEY).groupby(["agent", "env"], sort=False).size()
    said = [f"{agent} in {env}: {count} unfinished runs are left out" for (agent, env), count in counts.items()]
    return rows[~stopped], said


def own_games(looked_at: Study) -> dict[str, pd.DataFrame]:
    """The scores of each arm in the games that its baseline has too, whatever others have."""
    tables, found = looked_at.scores.tables, {}
    for arm, table in tables.items():
        base = tables.get(looked_at.baseline_of.get(arm, arm), table)
        games = [env for env in table.columns if env in base]
        if games and (looked_at.scale != "none" or len(games) == 1):
            found[arm] = table[games]
    return found


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Differences that MICo makes in each game: of scores, of returns over the whole curve, and of what φ is like.

    They are means over pairs of the same seed with Student's intervals and p-values, and of all runs with Welch's. The
    p-values of the scores and curves of all agents with the paper's weights are also corrected for their number. What
    φ is like is a mean over the last tenth of the steps.
    """
    rows = _named(whole(frame)[0]).astype({"seed": int, "step": int, "score": float})
    by = ["agent", "metric", "env", "seed"]
    named = with_arms(read_scores(rows))
    arms = named.drop_duplicates("arm")[["arm", "agent", "metric"]]
    runs = (
        final_scores(named)[0].merge(arms, on="arm").set_index(by)[["value"]].rename(columns={"value": "final return"})
    )
    late = rows[rows["step"] > (1 - LAST) * rows.groupby("env")["step"].transform("max")]
    areas = {
        run: mean_over_steps(own["step"].to_numpy(), own["score"].to_numpy(), int(own["step"].max()))
        for run, own in rows.dropna(subset="score").sort_values("step", kind="stable").groupby(by)
    }
    runs = runs.join(pd.Series(areas, name="mean return").rename_axis(by)).join(late.groupby(by)[[*LABELS]].mean())
    runs = runs.melt(ignore_index=False, var_name="measure").reset_index().dropna(subset="value")
    samples = {key: own.set_index("seed")["value"] for key, own in runs.groupby(["measure", "agent", "metric", "env"])}
    found = [_compare(key, own, samples) for key, own in samples.items() if key[2] != "none"]
    table = pd.DataFrame([line for line in found if line], columns=[*DIFFERENCES])
    family = table["measure"].isin(("final return", "mean return")) & (table["metric"] == "mico (paper)")
    for kind, method in product(("p", "unpaired p"), ("benjamini-hochberg", "holm")):
        tested = family & table[kind].notna()
        table.loc[tested, f"{kind}, {method}"] = adjust_p_values(table.loc[tested, kind].to_numpy(dtype=float), method)
    return table


def _compare(
    key: tuple[str, ...], own: pd.Series, samples: Mapping[tuple[str, ...], pd.Series]
) -> dict[str, Any] | None:
    """Compare the runs of an arm in a game with those without MICo, if there are any with the same seeds."""
    measure, agent, metric, env = key
    base = samples.get((measure, agent, "none", env), own.iloc[:0])
    seeds = own.index.intersection(base.index)
    if seeds.empty:
        return None
    paired = paired_test(own[seeds].to_numpy(dtype=float), base[seeds].to_numpy(dtype=float))
    alone = welch_test(own.to_numpy(dtype=float), base.to_numpy(dtype=float))
    values = (measure, agent, metric, env, *paired[:3], len(seeds), *alone[:3], paired.p, alone.p)
    return dict(zip(DIFFERENCES, values, strict=True))


def tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Aggregates, comparisons with baselines, returns and paired differences by game, the sweep, what is left out."""
    looked_at, found = scored(frame), {}
    if looked_at is not None:
        score, lost = score_tables(looked_at)
        found |= {one.sheet.name: one.numbers for one in score}
        found["differences"] = differences(frame)
        said = [
            *whole(frame)[1],
            *lost,
            *looked_at.left_out,
            *looked_at.returns[1],
            *looked_at.scores.excluded,
            *looked_at.unshared,
        ]
        found["left-out"] = pd.DataFrame({"why": [*dict.fromkeys(map(str, said))]})
    swept = sweep_scores(frame)
    return found | ({} if swept.empty else {"alpha-beta": swept})


def figures(frame: pd.DataFrame) -> Iterator[Drawing | Undrawn]:
    """All of a report on the study, the sweep as heat maps, and the representations of each agent."""
    looked_at = scored(frame)
    if looked_at is None:
        yield Undrawn("scores", "No figure of scores: no run of the study is whole and has ended an episode.")
    else:
        yield from (Undrawn("aggregates", str(one)) for one in looked_at.unshared)
        yield from (one for one in drawings(looked_at) if not _is_replaced(one))
    yield heat_maps(frame)
    rows = frame[frame["phase"] == "study"]
    looks = _looks(rows)
    if len(rows):
        yield curves(rows, looks)
    for agent, own in rows.groupby("agent", sort=False):
        yield representations(own, str(agent), looks)


def sweep_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean final returns of the sweep: agent, env, metric, weights, value, low, high and count of seeds."""
    rows = _swept(frame)
    if rows.empty:
        return rows[["agent", "env", "metric", "metric.alpha", "metric.beta"]].assign(value=rows["score"])
    runs = with_arms(read_scores(rows))
    about = runs.drop_duplicates("arm")[["arm", "agent", "metric", "metric.alpha", "metric.beta"]]
    scores = mean_intervals(final_scores(runs)[0], ["arm", "env"], _LEVEL).merge(about, on="arm")
    return scores[["agent", "env", "metric", "metric.alpha", "metric.beta", "value", "low", "high", "count"]]


def _swept(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of the sweep that have a return."""
    return frame[(frame["phase"] == "alpha-beta") & frame["score"].notna()]


def heat_maps(frame: pd.DataFrame) -> Drawing | Undrawn:
    """Final returns of the sweep for every α and β, a row for each agent and a column for each game."""
    scores = sweep_scores(frame)
    swept = scores[scores["metric"] != "none"]
    if swept.empty:
        return Undrawn("alpha-beta", "No heat maps over α and β: there are no runs of the sweep.")
    agents, envs = swept["agent"].unique(), sorted(swept["env"].unique())
    best = {agent: best_weights(own) for agent, own in _swept(frame).groupby("agent")}
    figure = Figure(figsize=(3.6 * len(envs), 3.1 * len(agents)), layout="constrained")
    axes = figure.subplots(len(agents), len(envs), squeeze=False)
    for (i, agent), (j, env) in product(enumerate(agents), enumerate(envs)):
        here = scores[(scores["agent"] == agent) & (scores["env"] == env)]
        base = here.loc[here["metric"] == "none", "value"]
        grid = here[here["metric"] != "none"].pivot(index="metric.alpha", columns="metric.beta", values="value")
        ax = axes[i, j]
        values = grid.to_numpy(dtype=float)
        middle = base.iloc[0] if len(base) else np.nanmean(values)
        most = np.nanmax(np.abs(values - middle))
        colours = {"cmap": "RdBu", "vmin": middle - most, "vmax": middle + most}
        ax.imshow(np.ma.masked_invalid(values), aspect="auto", **colours)
        for (row, column), value in np.ndenumerate(values):
            dark = abs(value - middle) > 0.6 * most
            weights = Weights(grid.index[row], grid.columns[column])
            weight = "bold" if weights == paper_weights(agent) else "normal"
            colour = "white" if dark else "black"
            ax.text(column, row, printed(value), ha="center", va="center", color=colour, weight=weight)
            if weights == best[agent]:
                ax.add_patch(Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, fill=False, edgecolor=colour, lw=1.5))
        ax.set_xticks(range(grid.shape[1]), [f"{beta:g}" for beta in grid.columns])
        ax.set_yticks(range(grid.shape[0]), [f"{alpha:g}" for alpha in grid.index])
        ax.set(xlabel="β", ylabel=f"{agent}: α" if j == 0 else "α")
        without = f"; {printed(base.iloc[0])} without" if len(base) else ""
        ax.set_title(f"{env.rpartition('/')[2]}{without}", fontsize="medium")
    caption = (
        "Mean final returns for every weight α of the loss and β of the angle, the paper's in bold, the best of an "
        "agent over these games framed; white is what the title says, without MICo, blue is more and red is less."
    )
    return Drawing("alpha-beta", caption, figure, scores)


def curves(frame: pd.DataFrame, looks: Looks) -> Drawing | Undrawn:
    """Returns while learning, a row for each agent and a column for each game."""
    rows = _named(frame).rename(columns={"score": "value"}).dropna(subset="value")
    if rows.empty:
        return Undrawn("curves", "No curves: no run has ended an episode.")
    bands = mean_intervals(rows, ["agent", "env", "metric", "step"], _LEVEL)
    labels = {agent: f"{agent}: return" for agent in bands["agent"].unique()}
    caption = "Returns while learning: means over seeds with 95% intervals (Student)."
    return Drawing("curves", caption, _panels(bands, "agent", labels, looks), bands)


def representations(frame: pd.DataFrame, agent: str, looks: Looks) -> Drawing | Undrawn:
    """Norms, angles, effective rank, dead units and agreement of one agent against steps, game by game."""
    rows = _named(frame).melt(["env", "metric", "step", "seed"], [*LABELS], var_name="measure").dropna(subset="value")
    if rows.empty:
        return Undrawn(
            f"representations-{agent}", f"No figure of the representations of {agent}: nothing was measured."
        )
    bands = mean_intervals(rows, ["measure", "env", "metric", "step"], _LEVEL)
    caption = f"What {agent} makes of replayed batches while it learns: means over seeds with 95% intervals (Student)."
    return Drawing(f"representations-{agent}", caption, _panels(bands, "measure", LABELS, looks), bands)


def _looks(rows: pd.DataFrame) -> Looks:
    """Style of each metric, in the colour that reports give to an arm with it."""
    metrics = _named(rows)["metric"].unique()
    return score_plots.styles(sorted(metrics, key=lambda metric: (metric != "none", metric)))


def _panels(bands: pd.DataFrame, by: str, labels: Mapping[str, str], looks: Looks) -> Figure:
    """A row for each value of a column, a column for each game, and a line with its band for each arm."""
    rows, envs = [row for row in labels if (bands[by] == row).any()], sorted(bands["env"].unique())
    figure = Figure(figsize=(max(2.7 * len(envs), 5.4), 2.1 * len(rows) + 0.6), layout="constrained")
    axes = figure.subplots(len(rows), len(envs), squeeze=False)
    for (i, row), (j, env) in product(enumerate(rows), enumerate(envs)):
        ax, own = axes[i, j], bands[(bands[by] == row) & (bands["env"] == env)]
        ax.set_title("" if i else env.rpartition("/")[2], fontsize="medium")
        if own.empty:
            ax.set_axis_off()
            continue
        own = own.sort_values("step", kind="stable").rename(columns={"metric": "arm"})
        score_plots.aggregate_lines(own, ax, label="" if j else labels[row], style_of=looks)
        ax.get_legend().remove()
        ax.set_xlabel("steps" if i == len(rows) - 1 else "")
    lines = {str(line.get_label()): line for ax in axes.flat for line in ax.lines}
    shown = [metric for metric in looks if metric in lines]
    names = ["without" if metric == "none" else metric for metric in shown]
    figure.legend([lines[one] for one in shown], names, loc="outside upper center", ncols=3, frameon=False)
    return figure


def weights_of(frame: pd.DataFrame) -> dict[str, Weights]:
    """Weights of each arm of the study that has MICo."""
    rows = _named(frame[frame["phase"] == "study"]).assign(alpha=frame["metric.alpha"], beta=frame["metric.beta"])
    arms = rows[rows["metric"] != "none"].drop_duplicates(["agent", "metric"])
    return {f"{own['agent']} + {own['metric']}": Weights(own["alpha"], own["beta"]) for _, own in arms.iterrows()}


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the study whose metric is mico (paper) or mico (chosen), by their weights, which then are not needed."""
    papers = rows["agent"].map(paper_weights)
    own = [
        Weights(alpha, beta) == paper for alpha, beta, paper in zip(rows["metric.alpha"], rows["metric.beta"], papers)
    ]
    names = np.where(own, "mico (paper)", "mico (chosen)")
    metric = np.where(rows["metric"] == "none", "none", names)
    return rows.drop(columns=["phase", "metric.alpha", "metric.beta"]).assign(metric=metric)


def _is_replaced(drawing: Drawing | Undrawn) -> bool:
    """Whether there is a figure here for it: curves by agent, and heat maps of the sweep."""
    return drawing.name in ("curves", "alpha-beta")
