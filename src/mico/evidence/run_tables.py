"""Tables of what was run: arms and environments, and the settings of the arms."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mico.evidence.run_scores import reached_steps
from mico.evidence.sheets import Sheet, Tabled, crossed
from mico.runs.folder import RunFolder

_NAMES = ("agent.name", "metric.name", "env.name", "seed")
_FEW = 3  # runs that are named one by one
_NOTHING = "–"
_MOST_VALUES = 4  # of one field in one arm: more are not a setting but a list


def cells_table(frame: pd.DataFrame, records: Sequence[RunFolder]) -> Tabled:
    """How many seeds of how many steps each arm has in each environment."""
    planned = {record.name: record.steps or 0 for record in records}
    runs = frame[["env", "arm", "run"]].drop_duplicates()
    reached = reached_steps(frame, ["run"])
    runs = runs.assign(reached=runs["run"].map(reached), planned=runs["run"].map(lambda run: planned.get(run, 0)))
    numbers = runs.groupby(["env", "arm"], sort=False, as_index=False).agg(
        seeds=("run", "size"), least=("reached", "min"), most=("reached", "max"), planned=("planned", "max")
    )
    cells = {(str(env), str(arm)): _cell(*own) for env, arm, *own in numbers.itertuples(index=False, name=None)}
    return Tabled(
        numbers, crossed("cells", "Seeds × steps of each arm in each environment", cells, ("environment", "arm"))
    )


def _cell(seeds: int, least: int, most: int, planned: int) -> str:
    so_far = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"{seeds} × {so_far}" + (f" of {planned:,}" if least < planned else "")


def missing_seeds(frame: pd.DataFrame) -> tuple[str, ...]:
    """A sentence for each cell that lacks seeds which another arm has in that environment, or lacks all of them."""
    runs = frame[["arm", "env", "seed"]].drop_duplicates()
    every = runs.groupby("env", sort=False)["seed"].agg(set)
    have = {cell: set(part["seed"]) for cell, part in runs.groupby(["arm", "env"], sort=False)}
    sentences = []
    for arm in runs["arm"].unique():
        for env, seeds in every.items():
            lacking = sorted(seeds - have.get((arm, env), set()))
            if lacking == sorted(seeds):
                sentences.append(f"{arm} has no run in {env}")
            elif lacking:
                sentences.append(f"{arm} in {env} lacks {_seeds(lacking)}, which another arm has")
    return tuple(sentences)


def unfinished(records: Iterable[RunFolder]) -> list[str]:
    """Sentences on how far unfinished runs are; those of a fleet that are equally far share one."""
    groups: dict[tuple[Path, str], list[str]] = {}
    for record in records:
        if record.state != "finished":
            groups.setdefault((record.fleet, record.state), []).append(record.name)
    sentences = []
    for (fleet, state), names in groups.items():
        few = len(names) <= _FEW
        sentences += (
            [f"{name} is {state}" for name in names] if few else [f"{fleet.name}: {len(names)} runs are {state}"]
        )
    return sentences


def settings_sheets(arm_of: Mapping[str, str], records: Iterable[RunFolder]) -> tuple[Sheet, ...]:
    """The fields in which arms differ, and those that all have alike."""
    known = [record for record in records if record.name in arm_of and record.config.get("settings")]
    if not known:
        return ()
    table = pd.json_normalize([record.config["settings"] for record in known]).drop(columns=[*_NAMES], errors="ignore")
    table = table.drop(columns=[name for name in table.columns if table[name].isna().all()]).astype(object)
    arms = pd.Series([arm_of[record.name] for record in known])
    of = {str(arm): {name: _values(part[name]) for name in table.columns} for arm, part in table.groupby(arms)}
    by_arm = {arm: of[arm] for arm in dict.fromkeys(arm_of.values()) if arm in of}
    found = {name: {one[name] for one in by_arm.values()} - {_NOTHING} for name in table.columns}
    cells = {(arm, name): one[name] for arm, one in by_arm.items() for name in found if len(found[name]) > 1}
    alike = tuple((name, *values) for name, values in found.items() if len(values) == 1)
    caption = "Settings that all arms share, as far as they have them"
    shared = Sheet("settings", caption, ("field", "value"), alike, folded=True)
    return (
        (crossed("differing", "Settings in which arms differ", cells, ("arm", "field")), shared) if cells else (shared,)
    )


def _values(column: pd.Series) -> str:
    found = [*dict.fromkeys(_NOTHING if _is_nothing(value) else str(value) for value in column)]
    return ", ".join(found) if len(found) <= _MOST_VALUES else f"{len(found)} values, {found[0]} to {found[-1]}"


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and pd.isna(value))


def _seeds(seeds: Sequence[Any]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
