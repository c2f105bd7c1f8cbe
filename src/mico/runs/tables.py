"""Results of other software: tables with a score in each row, as tidy frames."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from mico.runs.columns import RESULTS, check_columns, check_has, rename_columns
from mico.runs.configs import MOST_STEPS, is_showable
from mico.runs.csv_bytes import unescape_table
from mico.runs.log import COLUMNS, REACHED
from mico.runs.returns import EPISODES

_LARGEST = 2**63 - 1
_LARGEST_FLOAT = 2**53  # beyond, floating point skips whole numbers


def read_scores(source: Path | str | pd.DataFrame, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Read other people's results as a tidy frame with the columns of `mico.runs.log.COLUMNS`.

    A column `metric` may say what was added to the agent, and columns with a dot in their names, such as
    agent.learning-rate, are fields in which arms differ. A column `episodes` may say of how many episodes a score is
    the mean: it counts with these. Where it is 0 none ended, and the row only tells how far the run has come. A score
    may be missing. Further columns are not read.

    Args:
        source: A CSV file, or a DataFrame, with the columns agent, env, seed, step and score.
        columns: Other names of these columns, theirs to ours: `{"algo": "agent", "timestep": "step"}`.

    Returns:
        A row for each score, with `name` "return" and the score as `value`.

    Raises:
        ValueError: If columns are missing or hold something else than they must; the message names the file, the row
            and the value.

    Examples:
        >>> table = pd.DataFrame({"algo": ["ppo"], "env": ["Pong"], "seed": [0], "step": [100], "score": [-20.0]})
        >>> read_scores(table, columns={"algo": "agent"})[["agent", "env", "seed", "step", "value"]]
          agent   env  seed  step  value
        0   ppo  Pong     0   100  -20.0
    """
    mapping = check_columns(columns)
    if isinstance(source, pd.DataFrame):
        return _tidy(rename_columns(source, mapping), "table", "source")
    return _tidy(rename_columns(read_csv(Path(source)), mapping), Path(source).stem, str(source))


def _tidy(table: pd.DataFrame, name: str, source: str) -> pd.DataFrame:
    check_has(table, RESULTS, source)
    if table.empty:
        raise ValueError(f"{source} must have rows, but has none")
    fields = [column for column in map(str, table.columns) if "." in column]
    metric = _words(table["metric"].fillna("none"), source) if "metric" in table.columns else "none"
    for field in fields:
        _words(table[field].astype(object).fillna("none"), source)  # they become parts of names
    episodes = numbers(table[EPISODES], source) if EPISODES in table.columns else pd.Series(np.nan, table.index)
    _refuse(episodes, ~(episodes.isna() | (episodes >= 0) & np.isfinite(episodes)), source, "numbers of at least 0")
    rows = table[fields].assign(
        experiment=name,
        metric=metric,
        name=np.where(episodes == 0, REACHED, "return"),
        value=numbers(table["score"], source).mask(episodes == 0),
        episodes=episodes,
        **{column: _words(table[column], source) for column in ("agent", "env")},
        **{column: _whole_numbers(table[column], source) for column in ("seed", "step")},
    )
    _refuse(table["step"], ~rows["step"].between(0, MOST_STEPS), source, "numbers from 0 to 2⁵³")
    kind = ["agent", "metric", *fields, "env", "seed"]
    twice = rows[rows.duplicated([*kind, "step"])]
    if len(twice):
        where = ", ".join(f"{column} {twice.iloc[0][column]}" for column in (*kind, "step"))
        raise ValueError(f"{source} must have one score of a run at a step, but has several of {where}")
    runs = rows.groupby(kind, sort=False, dropna=False).ngroup()
    rows["run"] = rows["agent"] + "-" + rows["metric"] + "-seed" + rows["seed"].astype(str) + "-" + runs.astype(str)
    return rows[[*COLUMNS, *fields]].reset_index(drop=True)


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table from a file; a ValueError names a file that holds none, or a name that two columns have."""
    try:
        names = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0]
        table = unescape_table(pd.read_csv(path))
    except ValueError as error:
        raise ValueError(f"source must be a CSV file, but {path} is not: {error}") from error
    twice = names[names.duplicated() & names.notna()]  # pandas would number the second one, as score.1
    if len(twice):
        raise ValueError(f"{path} must have different names of columns, but has several {twice.iloc[0]!r}")
    return table


def numbers(column: pd.Series, source: str) -> pd.Series:
    """A column as numbers, which may be missing; a ValueError names the source and the first row that has none."""
    try:
        found = pd.to_numeric(column, errors="coerce").astype(float)
    except OverflowError:  # a whole number of hundreds of digits
        wrong = column.map(lambda value: isinstance(value, int) and abs(value) > sys.float_info.max)
        _refuse(column, wrong, source, "numbers that float64 can hold")
        raise
    _refuse(column, found.isna() & column.notna(), source, "numbers")
    return found


def _whole_numbers(column: pd.Series, source: str) -> pd.Series:
    """A column as int64; what is an integer already is not rounded on the way, as floating point would."""
    if pd.api.types.is_integer_dtype(column) and not column.isna().any():
        _refuse(column, column > _LARGEST, source, f"whole numbers up to {_LARGEST}")
        return column.astype(np.int64)
    found = numbers(column, source)
    _refuse(column, ~np.isfinite(found) | (found % 1 != 0), source, "whole numbers")
    _refuse(column, found.abs() > _LARGEST_FLOAT, source, f"whole numbers up to {_LARGEST_FLOAT} (read as floats)")
    return found.astype(np.int64)


def _words(column: pd.Series, source: str) -> pd.Series:
    _refuse(column, column.isna(), source, "words")
    odd = ~column.astype(str).map(is_showable)
    _refuse(column, odd, source, "names of at most 500 letters, without control characters,")
    return column.astype(str)


def _refuse(column: pd.Series, wrong: pd.Series, source: str, kind: str) -> None:
    """Rows are counted from 1, the first below the names of the columns."""
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        value = column.iloc[row]
        shown = "missing" if pd.isna(value) else f"{value!r:.80}" if isinstance(value, str) else f"{value!s:.80}"
        raise ValueError(f"{source} must have {kind} as {column.name}, but one is {shown}, in row {row + 1}")
