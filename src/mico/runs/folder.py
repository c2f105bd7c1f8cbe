"""Folders of runs: the one walker over run, fleet and sweep folders, and the one reader of a run.

Nothing here fails because something on the disk is damaged, partial or still growing: it is named instead.
"""

import errno
import json
import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mico.runs.configs import NEEDED, read_config
from mico.runs.files import read_regular
from mico.runs.log import COLUMNS, FROZEN, few, read_rows
from mico.runs.promises import reason
from mico.runs.returns import EPISODES

if TYPE_CHECKING:
    import pandas  # which takes a quarter of a second to import

_DEEPEST = 4  # a folder of sweeps, a sweep, a fleet, a run

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class RunFolder:
    """A run as its folder tells it: `reached` is the step of its newest row, `frozen` that of its first bad number."""

    name: str
    folder: Path
    config: dict[str, Any]
    reached: int
    frozen: int | None
    scored: bool

    @property
    def fleet(self) -> Path:
        """The folder of the fleet that the run is part of."""
        return self.folder.parent

    @property
    def steps(self) -> int | None:
        """The steps that the run is to have, where that is known."""
        return self.config.get("steps")

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

    def columns(self) -> dict[str, Any]:
        """The columns of a tidy frame that all rows of the run share, but its name and its fleet's."""
        own = {name: self.config[name] for name in ("agent", "metric", "env", "seed")}
        return own | {"metric": "none" if own["metric"] is None else own["metric"]}  # pandas drops groups without


def find_runs(folder: Path) -> Iterator[Path]:
    """Find the runs in a folder, those of fleets and sweeps in it too: where a config.json and a log.jsonl lie."""
    for depth in range(_DEEPEST):
        for config in sorted(folder.glob("/".join([*["*"] * depth, "config.json"]))):
            if (config.parent / "log.jsonl").is_file():
                yield config.parent


def read_run(folder: Path, name: str | None = None, *, needed: Collection[str] = NEEDED) -> tuple[RunFolder, Rows]:
    """Read a run's configuration, which must have what is needed, and the rows of its log.

    A ValueError says what is damaged.
    """
    config, rows = read_config(folder / "config.json", needed), read_rows(folder / "log.jsonl")
    reached = max((int(row["step"]) for row in rows), default=0)
    scored = any("return" in row for row in rows)
    return RunFolder(name or folder.name, folder, config, reached, frozen_at(rows), scored), rows


def frozen_at(rows: Sequence[dict[str, Any]]) -> int | None:
    """The step at which a run stopped learning because a number was not finite; None if it did not."""
    return next((int(row[FROZEN]) for row in rows if FROZEN in row), None)


def read_folder(
    folder: Path, damaged: list[str], *, prefix: str = "", seen: set[Path] | None = None
) -> Iterator[tuple[RunFolder, Rows]]:
    """Read the runs in a folder one by one, each named by its path in it; add a sentence on each damaged one.

    Runs that were `seen` before, by whatever path, are left out; the prefix tells apart those of several folders.
    """
    whole, known = folder.resolve(), set() if seen is None else seen
    for run in find_runs(whole):
        if run in known:
            continue
        known.add(run)
        name = prefix + (str(run.relative_to(whole)) if run != whole else whole.name)
        try:
            yield read_run(run, name)
        except (ValueError, OSError) as error:
            damaged.append(f"{name} is left out, for it is damaged: {reason(error)}")


def run_folders(folder: Path) -> list[Path]:
    """The runs in a folder, or in the folders in it; a run is one of itself.

    A warning names those that a fleet.json promises and that lack their configuration or log.
    """
    found = [*find_runs(folder.resolve())]
    if not found:
        raise ValueError(f"{folder} holds no run" if folder.exists() else f"{folder}: there is no such folder")
    for file in sorted({*folder.resolve().glob("fleet.json"), *folder.resolve().glob("*/fleet.json")}):
        promised = _promised(file)
        absent = [name for name in promised if file.parent / name not in found]
        if absent:
            lost = f"{len(absent)} of {len(promised)} runs are left out, without config.json or log.jsonl"
            warnings.warn(f"{file.parent.name}: {lost}: {few(absent)}", stacklevel=2)
    return found


def _promised(file: Path) -> list[str]:
    """The runs that a fleet.json names; none, and a warning, if it is damaged."""
    try:
        return [str(name) for name in json.loads(read_regular(file))["runs"]]
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        warnings.warn(f"{file} is damaged, and what it promises is not known: {error!r}", stacklevel=3)
        return []


def read_runs(folder: Path) -> "pandas.DataFrame":
    """Read all runs in a folder, or in the folders in it, as a tidy frame with a row for each logged number.

    Beside the fixed columns there is one for each field in which runs of an agent, metric loss and environment differ,
    such as metric.alpha. A row named "return" has how many `episodes` that return is the mean of. Runs may still be
    going; a warning names each that is damaged.
    """
    import pandas as pd

    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(folder))
    damaged: list[str] = []
    found = [(run, _numbers(rows)) for run, rows in read_folder(folder, damaged)]
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    fields = varied_fields([run for run, _ in found])
    tables = [
        rows.assign(experiment=run.fleet.name, run=run.config["run"], **run.columns(), **own)
        for (run, rows), own in zip(found, fields, strict=True)
        if len(rows)
    ]
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.concat(tables, ignore_index=True)
    return table[[*COLUMNS, *sorted(set(table.columns) - set(COLUMNS))]]


def _numbers(rows: Rows) -> "pandas.DataFrame":
    import pandas as pd

    numbers = [
        (row["step"], name, value, row.get(EPISODES, math.nan) if name == "return" else math.nan)
        for row in rows
        for name, value in row.items()
        if name != "step"
    ]
    return pd.DataFrame(numbers, columns=["step", "name", "value", EPISODES]).astype({"value": float, EPISODES: float})


def varied_fields(runs: Sequence[RunFolder], fields: Collection[str] = ()) -> list[dict[str, Any]]:
    """For each run, the fields in which runs of one agent, metric and environment are not all alike, over all fleets.

    What a fleet says of itself is not enough: two fleets of one run each may differ, and neither has a varied field.
    The given fields are told in any case: a table of somebody else may have runs of the same arm.
    """
    import pandas as pd

    table = pd.json_normalize([run.config.get("settings") or {} for run in runs]).drop(columns="seed", errors="ignore")
    if "env.digest" in table:  # what is in a file counts, wherever it lies
        told = table["env.digest"].notna() | table["env.path"].isna()
        table = table.drop(columns="env.path" if told.all() else "env.digest")
    kinds = [tuple(str(run.config[key]) for key in ("agent", "metric", "env")) for run in runs]
    differ = table.astype(str).groupby(pd.Series(kinds, dtype=object)).nunique().max() > 1
    names = [name for name in table.columns if differ.get(name, False) or name in fields]
    own = table[names].astype(object).to_dict("records") if len(runs) else []
    return [
        {str(name): value for name, value in (one or run.config.get("varied", {})).items() if name not in COLUMNS}
        for one, run in zip(own, runs, strict=True)
    ]
