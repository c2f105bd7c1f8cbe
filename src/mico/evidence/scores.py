"""From rows of runs to tables of scores, one an arm, with everything that is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from mico.evidence.arms import arm_names
from mico.evidence.exclusion import Exclusion
from mico.evidence.normalise import NORMALISATIONS, normalised
from mico.evidence.run_scores import CELL, LAST, final_scores
from mico.runs.log import COLUMNS
from mico.runs.returns import EPISODES


@dataclass(frozen=True)
class Scores:
    """A table for each arm, seeds as rows and environments as columns, and what is in none of them."""

    tables: dict[str, pd.DataFrame]
    excluded: tuple[Exclusion, ...]


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
        lost += [gap._replace(what=f"{arm}: {gap.what}") for gap in gaps]
        if table.size:
            tables[arm] = table
    return Scores(tables, tuple(lost))


def complete(table: pd.DataFrame) -> tuple[pd.DataFrame, list[Exclusion]]:
    """The table without its empty cells: again and again the row or column that lacks the largest share goes."""
    lost = []
    while table.size and table.isna().to_numpy().any():
        gaps = table.isna()
        seeds, envs = gaps.mean(axis="columns"), gaps.mean(axis="index")
        if seeds.max() >= envs.max():
            seed = seeds.idxmax()
            lost.append(Exclusion(f"seed {seed}", f"it has no score in {_few(table.columns[gaps.loc[seed]])}"))
            table = table.drop(index=seed)
        else:
            env = envs.idxmax()
            lost.append(Exclusion(env, f"it has no score of seed {_few(table.index[gaps[env]])}"))
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
        Exclusion(f"{arm}: {word}{label}", "not every arm has it")
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
