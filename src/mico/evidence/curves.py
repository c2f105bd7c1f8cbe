"""How scores grow with steps: runs brought to common steps, and their aggregates with intervals."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Int

from mico.evidence.exclusion import Exclusion
from mico.evidence.normalise import NORMALISATIONS, normalised
from mico.evidence.run_scores import CELL, LAST, NEARLY, common_steps, cut
from mico.evidence.scores import checked, tabulate
from mico.evidence.statistics import CURVE_RESAMPLES, estimate
from mico.runs.returns import mean_returns

_NEAR = 0.01  # of the range of all values: lines so near lie on one another
_SHARED = 0.2  # of the steps, at which they do


def training_curves(frame: pd.DataFrame, *, points: int = 50) -> pd.DataFrame:
    """The returns of every run at steps that the runs in its environment have in common, a row for each.

    These steps split the longest run evenly, at most as often as it has returns; the end of a run that ends before the
    first of them is one more, so that every run has a point. A value is the mean return of the
    episodes since the step before, or the last value where there are none; a run ends with its last row. An infinite
    value, with which no mean over runs is a number, is left out.
    """
    frame = checked(frame)
    none = frame.loc[[], [*CELL, "step", "value"]]
    parts = [
        at_steps(own, _with_short_runs(own, _even(own, points, int(own["step"].max()))))
        .reset_index()
        .melt(CELL, var_name="step")
        for _, own in frame.groupby("env", sort=False)
        if (own["name"] == "return").any()
    ]
    curves = pd.concat(parts or [none], ignore_index=True)
    curves = curves[np.isfinite(curves["value"].astype(float))].astype({"step": int})
    about = frame.drop(columns=["step", "name", "value"]).drop_duplicates(CELL)
    return curves.merge(about, on=CELL, validate="many_to_one")


def aggregate_curves(
    frame: pd.DataFrame,
    aggregate: str,
    *,
    seed: int,
    points: int = 50,
    last: float = LAST,
    steps: Mapping[str, int] | None = None,
    normalisation: str = "none",
    resamples: int = CURVE_RESAMPLES,
    level: float = 0.95,
) -> tuple[pd.DataFrame, tuple[Exclusion, ...]]:
    """An aggregate of every arm against steps, with intervals: arm, step, value, low, high; and what is left out.

    The runs are those that `tabulate` takes with the same `last` and `steps`, and the curves end where the first of
    them does, at the latest where scores are taken.
    """
    frame = checked(frame)
    steps = common_steps(frame) if steps is None else steps
    scores = tabulate(frame, last=last, normalisation=normalisation, steps=steps)
    frame, _ = normalised(cut(frame, steps), NORMALISATIONS[normalisation])
    cells = {(arm, env, run) for arm, table in scores.tables.items() for env in table for run in table.index}
    kept = [cell in cells for cell in zip(*(frame[name] for name in CELL))]
    frame = frame[np.array(kept, dtype=bool)]
    reached = frame.groupby(CELL)["step"].max()
    rows, lost = [], list(scores.excluded)
    if reached.min() < NEARLY * reached.max():
        lost.append(Exclusion(f"what lies beyond step {reached.min():,}", "not every environment's runs are so long"))
    wide = at_steps(frame, _even(frame, points, int(reached.min()))) if cells else frame
    for arm, table in scores.tables.items():
        runs = wide.loc[arm].reindex(pd.MultiIndex.from_product([table.columns, table.index]))
        values = runs.to_numpy().T.reshape(-1, *table.T.shape).swapaxes(1, 2)
        full = np.isfinite(values).all(axis=(1, 2))
        if not full.all():
            missing = f"a part of {(~full).sum()} of {len(full)} steps"
            lost.append(Exclusion(f"{arm}: {missing}", "not every run has a finite score there"))
        for step, own in zip(wide.columns[full], values[full]):
            rows.append((arm, step, *estimate(own, aggregate, seed=seed, resamples=resamples, level=level)))
    return pd.DataFrame(rows, columns=["arm", "step", "value", "low", "high"]), tuple(lost)


def coinciding(curves: pd.DataFrame) -> list[list[str]]:
    """Group the arms whose lines lie on one another: at a fifth of their steps or more they are nearly equal.

    Args:
        curves: A row for each `arm` and `step`, with its `value`.

    Returns:
        The groups of two arms or more. Nearly equal to the first of its group is an arm that is no farther from it
        than a hundredth of the range of all values, which no eye can tell apart.
    """
    values = curves.pivot_table(index="arm", columns="step", values="value", sort=False)
    near = _NEAR * np.ptp(curves["value"].dropna().to_numpy(dtype=float)) if len(values) else 0.0
    groups: list[list[str]] = []
    for arm, own in values.iterrows():
        first = (group for group in groups if _is_near(values.loc[group[0]], own, near))
        group = next(first, None)
        if group is None:
            groups.append([str(arm)])
        else:
            group.append(str(arm))
    return [group for group in groups if len(group) > 1]


def _is_near(one: pd.Series, other: pd.Series, near: float) -> bool:
    apart = (one - other).abs().dropna()
    return len(apart) > 0 and float((apart <= near).mean()) >= _SHARED


def at_steps(frame: pd.DataFrame, steps: Int[np.ndarray, " points"]) -> pd.DataFrame:
    """A row for each run and a column for each step: the mean return of the episodes since the step before."""
    returns = frame[frame["name"] == "return"]
    place = np.searchsorted(steps, returns["step"])
    means = mean_returns(returns, [*(returns[name] for name in CELL), place])
    table = means.unstack().reindex(columns=range(len(steps))).set_axis(steps, axis="columns").ffill(axis="columns")
    reached = frame.groupby(CELL)["step"].max().reindex(table.index)
    return table.where(steps <= reached.to_numpy()[:, None])


def _with_short_runs(frame: pd.DataFrame, steps: Int[np.ndarray, " points"]) -> Int[np.ndarray, " more_points"]:
    """The steps, and the ends of runs that would have no point there."""
    ends = frame.groupby(CELL)["step"].max()
    return np.unique([*steps, *ends[ends < steps[0]]]).astype(int)


def _even(frame: pd.DataFrame, points: int, end: int) -> Int[np.ndarray, " points"]:
    if points < 1:
        raise ValueError(f"points must be 1 or more, but are {points}")
    returns = frame[(frame["name"] == "return") & (frame["step"] <= end)]
    most = int(returns.groupby(CELL).size().max()) if len(returns) else 1
    return np.unique(np.linspace(0, end, min(points, most) + 1)[1:].round().astype(int))
