"""Many runs as small files that can be committed: of each agent thinned curves as CSV, and as JSON where they are from.

`mico report` reads the CSV files as it does other people's results.
"""

import io
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mico._checks import check_plain_name
from mico.runs.csv_bytes import escape_formula, unescape_table
from mico.runs.files import read_regular, writable, write_json, write_whole
from mico.runs.folder import frozen_at, run_folders
from mico.runs.log import read_rows
from mico.runs.thinned import COLUMNS, MEASURES, WEIGHTS, Logged, tell_cut, thinned

_MOST_POINTS = 1_000_000
KEY = ["agent", "metric", "env", "seed", *WEIGHTS]  # of one run


class Condensed(NamedTuple):
    """Rows of runs, and a record for each fleet that they come from: settings, versions, device, seconds."""

    rows: pd.DataFrame
    records: list[dict[str, Any]]


NOTHING = Condensed(pd.DataFrame(columns=list(COLUMNS)), [])


def condense(folder: Path, *, points: int) -> Condensed:
    """The runs in a folder, or in the folders in it, finished or not.

    A run is cut into so many pieces. `score` is the mean return of the `episodes` that end in a piece, all else what
    the last row of the piece says. A log with fewer rows than that stays as it is. Of a run that is there twice the
    one that went farther counts; runs of one agent, metric loss and environment with different settings are a
    ValueError that names the field. A warning tells what an unfinished run has beyond its last whole piece.
    """
    if not 1 <= points <= _MOST_POINTS:
        raise ValueError(f"points must be from 1 to {_MOST_POINTS:,}, got {points}")
    logs = _farthest([Logged.read(run) for run in run_folders(folder)])
    tables = [thinned(one, points) for one in logs]
    tell_cut(logs, tables)
    fleets: dict[Path, list[Logged]] = {}
    for one in logs:
        fleets.setdefault(one.folder.parent, []).append(one)
    return Condensed(_joined(*tables), [_record(fleet, runs) for fleet, runs in fleets.items()])


def merged(before: Condensed, new: Condensed) -> Condensed:
    """Both together; of a run that both have, the one that went farther, and the new one if they are as far.

    A ValueError names the field if runs of one agent, metric loss and environment have different settings.
    """
    for record in new.records:
        for other in before.records:
            _check_alike(other, record)
    ends, new_ends = (_ends(one.rows) for one in (before, new))
    replaced = {run for run, step in new_ends.items() if step >= ends.get(run, 0)}
    replaced |= {run for record in new.records for run in _runs(record) if run not in ends}
    older = Condensed(
        of_runs(before.rows, ends.keys() - replaced), _only(before.records, lambda run: run not in replaced)
    )
    newer = Condensed(of_runs(new.rows, replaced), _only(new.records, lambda run: run in replaced))
    rows = _joined(older.rows, newer.rows).sort_values([*KEY, "step"], kind="stable")
    return Condensed(rows.reset_index(drop=True), [*older.records, *newer.records])


def check_alike(condensed: Condensed, settings: dict[str, Any]) -> None:
    """A ValueError names the field in which a run with these settings differs from what is there, as for `merged`."""
    described = _described(json.loads(json.dumps(settings)))  # as records have them
    for record in condensed.records:
        _check_alike(record, described)


def write(condensed: Condensed, out: Path) -> list[Path]:
    """Write two files for each agent, AGENT.csv and AGENT.json, what was measured of φ with five digits."""
    written = []
    agents = condensed.rows.groupby("agent", sort=True)
    for agent in agents.groups:
        check_plain_name(agent, "the agent of a run")  # before anything is written
    for agent, rows in agents:
        table = writable(out) / f"{agent}.csv"
        records = [record for record in condensed.records if record["agent"] == agent]
        write_json(table.with_suffix(".json"), {"fleets": records})  # first: a table without it cannot be read
        shown = {name: rows[name].map(_five_digits, na_action="ignore") for name in MEASURES}
        shown |= {name: rows[name].map(_exact, na_action="ignore") for name in ("score", *WEIGHTS)}
        shown |= {name: rows[name].map(escape_formula) for name in ("agent", "metric", "env")}
        write_whole(table, rows.assign(**shown)[list(COLUMNS)].to_csv(index=False).encode())
        written.append(table)
    return written


def read(folder: Path) -> Condensed:
    """Read what `write` wrote; nothing where there is no such file."""
    found = NOTHING
    for table in sorted(folder.glob("*.csv")):
        try:
            rows = unescape_table(pd.read_csv(io.BytesIO(read_regular(table)), keep_default_na=False, na_values=[""]))
        except ValueError as error:
            raise ValueError(f"{table} is not a table: {error}") from error
        lacking = [name for name in COLUMNS if name not in rows.columns]
        if lacking:
            raise ValueError(f"{table} must have the columns {', '.join(COLUMNS)}, but lacks {', '.join(lacking)}")
        for name in ("seed", "step", "score", "episodes", *WEIGHTS, *MEASURES):
            _check_numbers(rows[name], table, whole=name in ("seed", "step"))
        for agent in rows["agent"].unique():
            check_plain_name(agent, f"the agent in {table}")
        found = Condensed(_joined(found.rows, rows), found.records + _records(table.with_suffix(".json")))
    return found


def _check_numbers(column: pd.Series, table: Path, *, whole: bool) -> None:
    """Refuse a column of a table that has words, or what can be no seed or step where whole numbers must be."""
    try:
        found = pd.to_numeric(column, errors="coerce").astype(float)
    except OverflowError as error:  # a whole number of hundreds of digits
        raise ValueError(f"{table} must have numbers that float64 can hold in the column {column.name}") from error
    wrong = found.isna() & column.notna()
    if whole:
        wrong |= ~(found.abs() < 2.0**63) | (found % 1 != 0)
    if wrong.any():
        kind = "whole numbers" if whole else "numbers"
        value = f"{column[wrong].iloc[0]!r:.80}"
        raise ValueError(f"{table} must have {kind} in the column {column.name}, but has {value}")


def tables(folder: Path) -> list[Path]:
    """The tables in a folder that have beside them what says where they are from."""
    return [table for table in sorted(folder.glob("*.csv")) if table.with_suffix(".json").exists()]


def read_arms(folder: Path) -> pd.DataFrame:
    """The rows of every folder in a folder, whose name is the `arm`."""
    arms = sorted(path for path in folder.glob("*") if path.is_dir())
    found = NOTHING.rows.assign(arm="")
    for arm in arms:
        found = _joined(found, read(arm).rows.assign(arm=arm.name))
    return found


def of_length(condensed: Condensed, steps: int) -> Condensed:
    """The fleets whose runs are to have so many steps."""
    records = [record for record in condensed.records if record["steps"] == steps]
    theirs = {run for record in records for run in _runs(record)}
    return Condensed(of_runs(condensed.rows, theirs).reset_index(drop=True), records)


def of_runs(rows: pd.DataFrame, runs: Collection[tuple[Any, ...]]) -> pd.DataFrame:
    """Select the rows of some runs, by the names that `reached` gives."""
    named = rows[KEY].astype(object).where(rows[KEY].notna(), None)
    return rows[np.array([run in runs for run in named.itertuples(index=False, name=None)], dtype=bool)]


def reached(condensed: Condensed) -> dict[tuple[Any, ...], int]:
    """How far each run is, by (agent, metric, env, seed, α, β), the weights None without a metric loss.

    One that froze because it was not finite comes no farther: it counts as having come to its end.
    """
    frozen = {
        named: record["steps"]
        for record in condensed.records
        for named, run in _runs(record).items()
        if "frozen_at" in run
    }
    return _ends(condensed.rows) | frozen


def _ends(rows: pd.DataFrame) -> dict[tuple[Any, ...], int]:
    """The last step of each run."""
    ends = rows.groupby(KEY, dropna=False)["step"].max()
    return {tuple(None if pd.isna(part) else part for part in run): int(step) for run, step in ends.items()}


def _runs(record: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The runs of a fleet by their names."""
    return {
        (record["agent"], run["metric"], record["env"], run["seed"], run["alpha"], run["beta"]): run
        for run in record["runs"]
    }


def _only(records: Iterable[dict[str, Any]], is_kept: Callable[[tuple[Any, ...]], bool]) -> list[dict[str, Any]]:
    """Fleets without the runs that others stand in for, if any are left."""
    cut = [one | {"runs": [run for named, run in _runs(one).items() if is_kept(named)]} for one in records]
    return [record for record in cut if record["runs"]]


def _farthest(logs: Iterable[Logged]) -> list[Logged]:
    """Each run once: the one that went farther, and the later one if they are as far."""
    kept: dict[tuple[Any, ...], Logged] = {}
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in logs:
        about = _described(one.config["settings"])
        kind = tuple(about[part] for part in ("agent", "env")), *about["settings"]
        _check_alike(first.setdefault(kind, about), about, "in another run")
        run = _run(one.config, one.log)
        named = (*kind, run["seed"], run["alpha"], run["beta"])
        if named not in kept or one.last >= kept[named].last:
            kept[named] = one
    return list(kept.values())


def _record(fleet: Path, runs: Sequence[Logged]) -> dict[str, Any]:
    """The origin of the runs of a fleet, with all that is needed to train them again."""
    first = runs[0].config
    settings = {run.config["metric"] or "none": _shared(run.config["settings"]) for run in runs}
    timing = fleet / "timing.jsonl"
    return {
        "fleet": fleet.name,
        "agent": first["agent"],
        "env": first["env"],
        "steps": first["steps"],
        "seconds": _seconds(read_rows(timing)) if timing.exists() else None,
        "starts": first["starts"],
        "settings": settings,
        "runs": [_run(run.config, run.log) for run in runs],
    }


def _shared(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that runs of an agent, metric loss and environment share: all but seed and weights."""
    own = {part: value for part, value in settings.items() if part != "seed"}
    weights = [name.partition(".")[2] for name in WEIGHTS]
    metric = {name: value for name, value in (own["metric"] or {}).items() if name not in weights}
    return own | {"metric": metric or None}


def _described(settings: dict[str, Any]) -> dict[str, Any]:
    """The record of a run with these settings."""
    metric = (settings["metric"] or {"name": "none"})["name"]
    return {part: settings[part]["name"] for part in ("agent", "env")} | {"settings": {metric: _shared(settings)}}


def _run(config: dict[str, Any], log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    metric = config["settings"]["metric"] or {}
    frozen = frozen_at(log)
    weights = {name.partition(".")[2]: metric.get(name.partition(".")[2]) for name in WEIGHTS}
    found = {"metric": config["metric"] or "none", **weights, "seed": config["seed"]}
    return found | ({} if frozen is None else {"frozen_at": frozen})


def _seconds(timing: Sequence[dict[str, Any]]) -> float:
    """Seconds of all starts together, as the clock of the file begins anew with each."""
    spent = [float(row["seconds"]) for row in timing if isinstance(row.get("seconds"), int | float)]
    ends = [one for one, after in zip(spent, [*spent[1:], 0.0]) if after <= one]
    return round(sum(ends), 1)


def _check_alike(one: dict[str, Any], other: dict[str, Any], place: str = "in what is there") -> None:
    if any(one[name] != other[name] for name in ("agent", "env")):
        return
    for metric in set(one["settings"]) & set(other["settings"]):
        before, now = (_flat(record["settings"][metric]) for record in (one, other))
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if names:
            field, where = names[0], f"{one['agent']} with {metric} in {one['env']}"
            raise ValueError(f"{field} of {where} is {now.get(field)!r}, but {before.get(field)!r} {place}")


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    parts = {part: value if isinstance(value, dict) else {} for part, value in settings.items()}
    return {f"{part}.{name}": value for part, own in parts.items() for name, value in own.items()}


def _records(file: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(read_regular(file))["fleets"]
        for record in found:
            _check_record(record)
        return [record for record in found if record["runs"] and record["settings"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} does not say where runs are from: {error!r}") from error


def _check_record(record: Any) -> None:
    """Refuse the record of a fleet without what names its runs, in a form that can be looked up, or settings."""
    check_plain_name(record["agent"], "the agent of a fleet")
    if not isinstance(record["env"], str) or not isinstance(record["steps"], int):
        raise ValueError("a fleet must have the name of its environment and a number of steps")
    for named in _runs(record):
        if not isinstance(named[3], int):
            raise ValueError(f"the seed of a run must be a whole number, got {named[3]!r:.80}")
    if not all(isinstance(own, dict) for own in record["settings"].values()):
        raise ValueError("the settings of a fleet must be objects")


def _joined(*parts: pd.DataFrame) -> pd.DataFrame:
    """One below the other; empty ones would turn numbers into objects."""
    return pd.concat([part for part in parts if len(part)] or list(parts[:1]), ignore_index=True)


def _five_digits(number: float) -> str:
    return f"{number:.5g}"


def _exact(number: float) -> str:
    """The shortest text that reads as the same number: weights name runs, and scores must be those of the runs."""
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))
