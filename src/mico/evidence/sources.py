"""Sources of a report: runs on disk, finished or not, damaged or not, and results of other software."""

import errno
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mico._checks import check_plain_name
from mico.evidence.scores import read_scores
from mico.runs.archive import tables
from mico.runs.log import COLUMNS, FROZEN, REACHED, read_rows
from mico.runs.promises import reason, unkept_promises
from mico.runs.returns import EPISODES

Source = Path | pd.DataFrame

_DEEPEST = 4  # a folder of sweeps, a sweep, a fleet, a run


@dataclass(frozen=True)
class Record:
    """A run as its folder tells it: `reached` is the step of its newest row, `frozen` that of its first bad number."""

    name: str
    fleet: Path
    config: dict[str, Any]
    steps: int | None
    reached: int
    frozen: int | None
    scored: bool

    @property
    def state(self) -> str:
        """How far the run is, as a phrase."""
        if self.frozen is not None:
            return f"frozen at step {self.frozen:,}, not finite"
        if not self.scored:
            return f"at step {self.reached:,}, without a return yet"
        if self.steps is None or self.reached >= self.steps:
            return "finished"
        return f"at step {self.reached:,} of {self.steps:,}"


class Sources(NamedTuple):
    """Returns as a tidy frame, the runs they come from, and a sentence for all that could not be read."""

    frame: pd.DataFrame
    records: list[Record]
    unread: list[str]


def read_sources(sources: Sequence[Source], columns: Mapping[str, str] | None = None) -> Sources:
    """Read everything in folders, CSV files and DataFrames; what is damaged in a folder is named instead of read.

    A folder has runs, or what `mico collect` made of them. What several paths lead to is read once. `columns` maps the
    names of columns, theirs to ours, in the CSV files and DataFrames that are given.
    """
    frames: list[pd.DataFrame] = []
    found, unread, seen = [], [], set()
    for number, table in enumerate((one for one in sources if isinstance(one, pd.DataFrame)), start=1):
        frames.append(_named(read_scores(table, columns), f"table {number}"))
    paths = [one for one in sources if not isinstance(one, pd.DataFrame)]
    for path in {path.resolve(): path for path in paths}.values():
        if path.is_dir():
            found += _read_folder(path, unread, seen, prefix="" if len(sources) == 1 else f"{path}/")
            frames += _read_tables(path, unread, seen)
        elif path.exists():
            frames += [_named(read_scores(path, columns), str(path))] if _first_time(path, seen) else []
        else:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    records, fields = [record for record, _ in found], {name for table in frames for name in table.columns}
    frames += [
        rows.assign(**_about(record), **own)
        for (record, rows), own in zip(found, _varied(records, fields), strict=True)
        if len(rows)
    ]
    given = ", ".join(map(str, paths)) or "source"
    if not frames:
        why = f"; {unread[0]}" if unread else ""
        raise ValueError(f"{given}: there is no run with a return{why}")
    frame = pd.concat(frames, ignore_index=True)
    if not np.isfinite(frame.loc[frame["name"] == "return", "value"]).any():
        raise ValueError(f"{given}: no return is a finite number")
    return Sources(frame[[*COLUMNS, *sorted(set(frame.columns) - set(COLUMNS))]], records, list(dict.fromkeys(unread)))


def _first_time(path: Path, seen: set[Path]) -> bool:
    """Whether a file was not read before, by whatever path."""
    known, file = len(seen), path.resolve()
    seen.add(file)
    return len(seen) > known


def _named(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of a table with names of runs that no other table has."""
    return frame.assign(run=f"{source}: " + frame["run"])


def _read_tables(folder: Path, unread: list[str], seen: set[Path]) -> list[pd.DataFrame]:
    """Read the tables that `mico collect` wrote into a folder."""
    found = []
    for table in tables(folder):
        if not _first_time(table, seen):
            continue
        try:
            found.append(_named(read_scores(table), str(table)))
        except (ValueError, OSError) as error:
            unread.append(f"{table} is left out, for it is damaged: {reason(error)}")
    return found


def _read_folder(given: Path, unread: list[str], seen: set[Path], *, prefix: str) -> list[tuple[Record, pd.DataFrame]]:
    """The runs in a folder with their returns; the prefix tells apart those of several folders."""
    found, folder = [], given.resolve()
    for config in _configs(folder):
        if not _first_time(config, seen):
            continue
        name = prefix + (str(config.parent.relative_to(folder)) if config.parent != folder else folder.name)
        try:
            found.append(_read_run(config, name))
        except RecursionError:
            unread.append(f"{name} is left out, for it is damaged: its JSON is nested too deeply")
        except (ValueError, TypeError, OSError) as error:
            unread.append(f"{name} is left out, for it is damaged: {reason(error)}")
    unread += unkept_promises(folder, {record.fleet for record, _ in found})
    return found


def _configs(folder: Path) -> Iterator[Path]:
    """The config.json of each run; those of experiments, which lie beside no log, are none."""
    for depth in range(_DEEPEST):
        for config in sorted(folder.glob("/".join([*["*"] * depth, "config.json"]))):
            if (config.parent / "log.jsonl").exists():
                yield config


def _read_run(path: Path, name: str) -> tuple[Record, pd.DataFrame]:
    config = json.loads(path.read_bytes())
    _check(config)
    log = read_rows(path.parent / "log.jsonl")
    returns = [
        (int(row["step"]), "return", float(row["return"]), float(row.get(EPISODES, math.nan)))
        for row in log
        if "return" in row
    ]
    frozen = [int(row["not_finite_at"]) for row in log if "not_finite_at" in row]
    record = Record(
        name=name,
        fleet=path.parent.parent,
        config=config,
        steps=config.get("steps"),
        reached=max((int(row["step"]) for row in log), default=0),
        frozen=frozen[0] if frozen else None,
        scored=bool(returns),
    )
    if returns:
        frozen = record.frozen
        reached = (record.reached, REACHED, math.nan, math.nan)
        returns.append(reached if frozen is None else (frozen, FROZEN, float(frozen), math.nan))
    return record, pd.DataFrame(returns, columns=["step", "name", "value", EPISODES])


def _check(config: Any) -> None:
    """A ValueError unless it is the configuration of a run; what is optional may be missing, but not be otherwise."""
    match config:
        case {"run": str(), "agent": str(), "metric": str() | None, "env": str(), "seed": int()}:
            settings, starts = config.get("settings"), config.get("starts", [])
        case _:
            raise ValueError("config.json does not tell run, agent, metric, env and seed")
    check_plain_name(config["run"], "the run in config.json")  # it becomes a part of paths
    if not isinstance(config.get("steps"), int | None) or not isinstance(config.get("varied", {}), dict):
        raise ValueError("config.json tells steps or varied fields that are none")
    if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
        raise ValueError("config.json tells starts that are none")
    if settings is not None and not are_settings(settings):
        raise ValueError("config.json tells settings that are none")


def are_settings(given: Any) -> bool:
    """Whether it has the form of a run's settings: parts with fields, and a seed."""
    parts = isinstance(given, dict) and all(isinstance(part, dict | int | None) for part in given.values())
    return parts and isinstance(given.get("seed"), int)


def _about(record: Record) -> dict[str, Any]:
    """The columns that all rows of a run share."""
    config = record.config
    metric = "none" if config["metric"] is None else config["metric"]
    where = {"experiment": str(record.fleet), "run": record.name}
    return where | {"agent": config["agent"], "metric": metric, "env": config["env"], "seed": config["seed"]}


def _varied(records: Sequence[Record], fields: Collection[str]) -> list[dict[str, Any]]:
    """For each run, the fields in which runs of one agent, metric and environment are not all alike, over all fleets.

    What a fleet says of itself is not enough: two fleets of one run each may differ, and neither has a varied field.
    Fields that tables have are told in any case: a run of theirs may be of the same arm.
    """
    table = pd.json_normalize([record.config.get("settings") or {} for record in records]).drop(
        columns="seed", errors="ignore"
    )
    if "env.digest" in table:  # what is in a file counts, wherever it lies
        told = table["env.digest"].notna() | table["env.path"].isna()
        table = table.drop(columns="env.path" if told.all() else "env.digest")
    kinds = [tuple(str(record.config[key]) for key in ("agent", "metric", "env")) for record in records]
    differ = table.astype(str).groupby(pd.Series(kinds, dtype=object)).nunique().max() > 1
    names = [name for name in table.columns if differ.get(name, False) or name in fields]
    own = table[names].astype(object).to_dict("records") if len(records) else []
    return [
        {name: value for name, value in (one or record.config.get("varied", {})).items() if name not in COLUMNS}
        for one, record in zip(own, records, strict=True)
    ]
