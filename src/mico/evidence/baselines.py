"""Baselines of a report: the arm that another is compared with, and the scale of each environment."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from mico.evidence.intervals import mean_interval
from mico.evidence.normalise import NORMALISATIONS, Scale
from mico.evidence.run_scores import LAST, final_scores, first_returns
from mico.runs.columns import SCALE, check_has, rename_columns
from mico.runs.log import COLUMNS
from mico.runs.tables import numbers, read_csv

_LEVEL = 0.75
_ROUNDING = 1e-6  # of returns, relative

ScaleOf = Callable[[str], Scale | None]


def baselines(frame: pd.DataFrame, named: str | None) -> dict[str, str]:
    """The baseline of each arm that has one: the named arm, or the same agent without a metric loss or with α = 0.

    Where there are several, such as agents with other horizons, it is the one with the same fields.
    """
    arms = frame.drop_duplicates("arm").set_index("arm")
    if named is not None:
        if named not in arms.index:
            raise ValueError(f"baseline must be one of {', '.join(arms.index)}, but is {named!r}")
        return {arm: named for arm in arms.index if arm != named}
    found, fields = {}, [name for name in arms.columns if name not in COLUMNS and not name.startswith("metric.")]
    for arm, own in arms.iterrows():
        same = arms[(arms["agent"] == own["agent"]) & (arms.index != arm)]
        without = same[same["metric"] == "none"]
        if own["metric"] != "none" and without.empty and "metric.alpha" in arms.columns and own["metric.alpha"] != 0:
            without = same[(same["metric"] == own["metric"]) & (same["metric.alpha"] == 0)]
        if len(without) > 1:
            without = without[(without[fields].astype(str) == own[fields].astype(str)).all(axis="columns")]
        if own["metric"] != "none" and len(without) == 1:
            found[str(arm)] = str(without.index[0])
    return found


def scale_of(
    name: str,
    frame: pd.DataFrame,
    *,
    baseline: str | None = None,
    last: float = LAST,
    columns: Mapping[str, str] | None = None,
) -> tuple[ScaleOf, str]:
    """A scale for each environment, and what it is in words: by name, of a baseline arm, or of a table in a file.

    `columns` maps the names of a table's columns, theirs to ours.
    """
    if name == "baseline":
        return _of_baseline(frame, baseline, last)
    if name in set(frame["arm"]):
        return _of_baseline(frame, name, last)
    if name in NORMALISATIONS:
        return NORMALISATIONS[name], _WORDS[name]
    if not Path(name).is_file():
        known = ", ".join([*NORMALISATIONS, "baseline"])
        raise ValueError(f"normalise must be one of {known}, the name of an arm, or a CSV file, but is {name!r}")
    return _of_table(Path(name), columns or {})


_WORDS = {
    "none": "raw returns",
    "human": "human-normalised returns: 0 is a random policy's, 1 a human player's",
    "thousandth": "returns divided by 1000",
}


def _of_baseline(frame: pd.DataFrame, named: str | None, last: float) -> tuple[ScaleOf, str]:
    r"""$(x - f) / (b - f)$ with the mean first return f and the mean final return b of the baseline.

    It is none where b - f is not clearly above 0, by its 75% interval over seeds: noise would be the unit.
    """
    without = frame["metric"] == "none"
    if "metric.alpha" in frame.columns and not without.any():
        without = frame["metric.alpha"] == 0
    plain = frame.loc[without, "arm"].unique()
    if named is None and len(plain) != 1:
        known = ", ".join(frame["arm"].unique())
        raise ValueError(
            f"normalise is baseline, but there are {len(plain) or 'none'}: --normalise takes one arm's name of {known}"
        )
    arm = plain[0] if named is None else named
    first = baseline_first_returns(frame, arm)
    scales = {}
    for env, own in final_scores(frame[frame["arm"] == arm], last=last)[0].groupby("env"):
        unit, low, _ = mean_interval(own["value"].to_numpy() - first[env], _LEVEL)
        if min(unit, unit if np.isnan(low) else low) > _ROUNDING * abs(first[env]):
            scales[str(env)] = Scale(first[env], unit)
    words = f"on a scale for each environment: 0 is the mean first return of {arm}, 1 its mean final return"
    return scales.get, words


def _of_table(path: Path, columns: Mapping[str, str]) -> tuple[ScaleOf, str]:
    table = rename_columns(read_csv(path), columns)
    check_has(table, SCALE, str(path))
    twice = table.loc[table["env"].duplicated(), "env"]
    if len(twice):
        raise ValueError(f"{path} must have one line for each env, but has several for {twice.iloc[0]}")
    table = table.assign(**{name: numbers(table[name], str(path)) for name in ("low", "high")})
    wrong = table[~(table["high"] > table["low"])]
    if len(wrong):
        raise ValueError(f"{path} must have a high that exceeds low, but {wrong['env'].iloc[0]} has not")
    scales = {str(row.env): Scale(float(row.low), float(row.high - row.low)) for row in table.itertuples()}
    return scales.get, f"returns on the scale of {path.name}: 0 is an environment's low, 1 its high"


def baseline_first_returns(frame: pd.DataFrame, arm: str) -> pd.Series:
    """The mean first return of an arm's runs in each environment, whatever others there are."""
    return first_returns(frame[frame["arm"] == arm]).groupby(level="env").mean()
