"""Sources of a report: runs on disk, finished or not, damaged or not, and results of other software."""

import errno
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mico.runs.archive import tables
from mico.runs.folder import RunFolder, read_folder, varied_fields
from mico.runs.log import COLUMNS, FROZEN, REACHED
from mico.runs.promises import reason, unkept_promises
from mico.runs.returns import EPISODES
from mico.runs.tables import read_scores

Source = Path | pd.DataFrame

_DEEPEST = 4  # a folder of sweeps, a sweep, a fleet, a run


class Sources(NamedTuple):
    """Returns as a tidy frame, the runs they come from, and a sentence for all that could not be read."""

    frame: pd.DataFrame
    records: list[RunFolder]
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
    for path in {os.path.realpath(path): path for path in paths}.values():
        if path.is_dir():
            prefix = "" if len(sources) == 1 else f"{path}/"
            here = [(run, _returns(run, rows)) for run, rows in read_folder(path, unread, prefix=prefix, seen=seen)]
            unread += unkept_promises(path.resolve(), {run.fleet for run, _ in here})
            found += here
            frames += _read_tables(path, unread, seen)
        elif path.exists():
            frames += [_named(read_scores(path, columns), str(path))] if _first_time(path, seen) else []
        else:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    records, fields = [run for run, _ in found], {name for table in frames for name in table.columns}
    frames += [
        rows.assign(experiment=str(run.fleet), run=run.name, **run.columns(), **own)
        for (run, rows), own in zip(found, varied_fields(records, fields), strict=True)
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
    known, file = len(seen), Path(os.path.realpath(path))  # which ends at a link to itself, as `resolve` does not
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
            if not table.is_file():  # a pipe would wait for its writer
                raise OSError(errno.EINVAL, "it is no regular file", str(table))
            found.append(_named(read_scores(table), str(table)))
        except (ValueError, OSError) as error:
            unread.append(f"{table} is left out, for it is damaged: {reason(error)}")
    return found


def _returns(run: RunFolder, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The returns of a run, if it has any, and a row that tells how far it has come."""
    returns = [
        (int(row["step"]), "return", float(row["return"]), float(row.get(EPISODES, math.nan)))
        for row in rows
        if "return" in row
    ]
    if returns:
        frozen = run.frozen
        reached = (run.reached, REACHED, math.nan, math.nan)
        returns.append(reached if frozen is None else (frozen, FROZEN, float(frozen), math.nan))
    return pd.DataFrame(returns, columns=["step", "name", "value", EPISODES])
