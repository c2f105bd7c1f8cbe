"""From rows of runs to tables of scores, one an arm, with a sentence about everything that is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mico.evidence.arms import arm_names
from mico.evidence.normalise import NORMALISATIONS, normalised
from mico.evidence.run_scores import CELL, LAST, final_scores
from mico.runs.columns import RESULTS, check_columns, check_has, rename_columns
from mico.runs.log import COLUMNS, REACHED
from mico.runs.returns import EPISODES

_LARGEST = 2**63 - 1
_LARGEST_FLOAT = 2**53  # beyond, floating point skips whole numbers


@dataclass(frozen=True)
class Scores:
    """A table for each arm, seeds as rows and environments as columns, and what is in none of them."""

    tables: dict[str, pd.DataFrame]
    excluded: tuple[str, ...]


def tabulate(
    frame: pd.DataFrame, *, last: float = LAST, normalisation: str = "none", steps: Mapping[str, int] | None = None
) -> Scores:
    """Tabulate the scores of runs (`final_scores`), normalised, in tables without a gap.

    Left out are environments that cannot be normalised, runs without a score, and, as long as a cell of a table is
    empty, the seed or environment that lacks the largest share.
    """
    if normalisation not in NORMALISATIONS:
        raise ValueError(f"normalisation must be one of {', '.join(NORMALISATIONS)}, but is {normalisation!r}")
    frame, lost = normalised(checked(frame), NORMALISATIONS[normalisation])
    cells, unfinished = final_scores(frame, last=last, steps=steps)
    lost += unfinished
    tables = {}
    for arm in frame["arm"].unique():
        own = cells[cells["arm"] == arm]
        table, gaps = complete(own.pivot(index="seed", columns="env", values="value"))
        lost += [f"{arm}: {sentence}" for sentence in gaps]
        if table.size:
            tables[arm] = table
    return Scores(tables, tuple(lost))


def complete(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table without its empty cells: again and again the row or column that lacks the largest share goes."""
    lost = []
    while table.size and table.isna().to_numpy().any():
        gaps = table.isna()
        seeds, envs = gaps.mean(axis="columns"), gaps.mean(axis="index")
        if seeds.max() >= envs.max():
            seed = seeds.idxmax()
            lost.append(f"seed {seed} is left out: it has no score in {_few(table.columns[gaps.loc[seed]])}")
            table = table.drop(index=seed)
        else:
            env = envs.idxmax()
            lost.append(f"{env} is left out: it has no score of seed {_few(table.index[gaps[env]])}")
            table = table.drop(columns=env)
    return table, lost


def _few(labels: pd.Index) -> str:
    return ", ".join(map(str, labels[:3])) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def shared(scores: Scores, arms: Sequence[str]) -> Scores:
    """Some of the arms with the seeds and environments that all of these have, so that they can be compared."""
    if not arms or not set(arms) <= set(scores.tables):
        raise ValueError(f"arms must be some of {', '.join(scores.tables)}, but are {', '.join(arms) or 'none'}")
    tables = {arm: scores.tables[arm] for arm in arms}
    seeds, envs = (sorted(set.intersection(*(set(table.axes[axis]) for table in tables.values()))) for axis in (0, 1))
    if not seeds or not envs:
        raise ValueError(f"arms must share seeds and environments, but {', '.join(arms)} do not")
    lost = [
        f"{arm}: {word}{label} is left out, because not every arm has it"
        for arm, table in tables.items()
        for word, labels, kept in (("seed ", table.index, seeds), ("", table.columns, envs))
        for label in labels.difference(kept)
    ]
    return Scores({arm: table.loc[seeds, envs] for arm, table in tables.items()}, (*scores.excluded, *lost))


def checked(frame: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame with its arms; a ValueError if two of its runs have the same arm, environment and seed."""
    needed = [name for name in COLUMNS if name != EPISODES]
    lacking = [name for name in needed if name not in frame.columns]
    if lacking:
        raise ValueError(f"frame must have the columns {', '.join(needed)}, but lacks {', '.join(lacking)}")
    frame = frame if "arm" in frame.columns else with_arms(frame)
    runs = frame[[*CELL, "experiment", "run"]].drop_duplicates()
    twice = runs[runs.duplicated(CELL, keep=False)]
    if len(twice):
        arm, env, seed = twice.iloc[0][CELL]
        same = twice[(twice[CELL] == [arm, env, seed]).all(axis="columns")]
        names = ", ".join(same["experiment"] + "/" + same["run"])
        raise ValueError(f"frame must have one run of {arm} with seed {seed} in {env}, but has {names}")
    return frame


def with_arms(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column `arm` with the names that `mico.evidence.arms.arm_names` gives, such as "dqn + mico"."""
    fields = [name for name in frame.columns if name not in (*COLUMNS, "arm")]
    kinds = frame[["agent", "metric", "env", *fields]]
    groups = kinds.groupby([*kinds.columns], sort=False, dropna=False).ngroup()
    first = kinds[~groups.duplicated()].astype(object)
    names = arm_names(first.where(first.notna(), None).to_dict("records"))
    return frame.assign(arm=groups.map(dict(zip(groups[~groups.duplicated()], names))))


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
    metric = table["metric"].fillna("none").astype(str) if "metric" in table.columns else "none"
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
    _refuse(table["step"], rows["step"] < 0, source, "numbers of at least 0")
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
        table = pd.read_csv(path)
    except ValueError as error:
        raise ValueError(f"source must be a CSV file, but {path} is not: {error}") from error
    twice = names[names.duplicated() & names.notna()]  # pandas would number the second one, as score.1
    if len(twice):
        raise ValueError(f"{path} must have different names of columns, but has several {twice.iloc[0]!r}")
    return table


def numbers(column: pd.Series, source: str) -> pd.Series:
    """A column as numbers, which may be missing; a ValueError names the source and the first row that has none."""
    found = pd.to_numeric(column, errors="coerce").astype(float)
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
    return column.astype(str)


def _refuse(column: pd.Series, wrong: pd.Series, source: str, kind: str) -> None:
    """Rows are counted from 1, the first below the names of the columns."""
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        value = column.iloc[row]
        shown = "missing" if pd.isna(value) else repr(value) if isinstance(value, str) else str(value)
        raise ValueError(f"{source} must have {kind} as {column.name}, but one is {shown}, in row {row + 1}")
