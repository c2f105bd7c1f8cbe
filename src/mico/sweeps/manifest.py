"""The folder of a sweep: sweep.json with its fleets, which stay as they are, and the state of each in status/."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from mico import __version__
from mico._checks import check_plain_name
from mico.runs.files import check_no_link, read_regular, write_json
from mico.runs.lock import LOCK_FILE
from mico.sweeps.grid import Cell, Sweep, arms, cells, make_sweep
from mico.sweeps.plan import Fleet, Member, plan
from mico.sweeps.status import STATUS_FOLDER

MANIFEST = "sweep.json"
_TAKEN = (MANIFEST, STATUS_FOLDER, LOCK_FILE)
_SHOWN = 80  # letters of a value in an error


class Limits(NamedTuple):
    """How large a fleet may be: in bytes, and in runs."""

    memory: int | None
    max_runs: int | None


def planned(
    sweep: Sweep, out: Path | None, limits: Limits, like: Path | None = None, without: Collection[Cell] = ()
) -> list[Fleet]:
    """The fleets of a sweep: those that its folder has, and new ones for cells that are not in them.

    A new folder begins with the fleets of the manifest `like`, if that is of the same sweep. No new fleet is made for
    the cells `without`, whose results are elsewhere.
    """
    every = cells(sweep)
    kept = [] if out is None else _kept(sweep, out)
    if not kept and like is not None:
        before, fleets = read_manifest(like)
        kept = fleets if before == sweep else []
    there = {*without, *(member.cell for fleet in kept for member in fleet.members)}
    new = [cell for cell in every if cell not in there]
    fleets = [*kept, *plan(sweep, new, memory=limits.memory, max_runs=limits.max_runs, first=len(kept))]
    if out is not None:
        for name in (STATUS_FOLDER, *(fleet.name for fleet in fleets)):
            check_no_link(out / name)  # before anything is written
    return fleets


def write_manifest(out: Path, sweep: Sweep, fleets: Sequence[Fleet]) -> None:
    """Write down what the fleets are, before any of them begins."""
    described = [
        {"name": fleet.name, "bytes": fleet.size, "runs": [_described(member, fleet) for member in fleet.members]}
        for fleet in fleets
    ]
    found = {"version": __version__, "sweep": sweep.as_json(), "fleets": described}
    if not (out / MANIFEST).exists() or json.loads((out / MANIFEST).read_bytes()) != json.loads(json.dumps(found)):
        write_json(out / MANIFEST, found)


def _described(member: Member, fleet: Fleet) -> dict[str, Any]:
    cell = asdict(member.cell) | {"fields": dict(member.cell.fields)}
    shared = fleet.shared() if member.cell.metric == "none" else None
    return {"name": member.name, **cell} | ({"computed_as": f"{shared} with alpha 0"} if shared else {})


def _kept(sweep: Sweep, out: Path) -> list[Fleet]:
    """The fleets in the folder, which must be of this sweep or of a part of it."""
    file = out / MANIFEST
    if not file.exists():
        others = sorted(entry.name for entry in out.iterdir()) if out.is_dir() else []
        others = [name for name in others if name != LOCK_FILE and not name.startswith(f".{MANIFEST}")]
        if others:
            raise ValueError(f"{out} is not empty and contains no sweep, but {others[0]}: choose another folder as out")
        return []
    before, kept = read_manifest(file)
    _check_extends(before, sweep)
    return kept


def read_manifest(file: Path) -> tuple[Sweep, list[Fleet]]:
    """Read a manifest, which somebody else may have written: its names become folders.

    Args:
        file: The sweep.json of a sweep.

    Returns:
        The sweep and its fleets.

    Raises:
        ValueError: If it is not the manifest of a sweep, with what is wrong in it.
        OSError: If it cannot be read.
    """
    try:
        found = json.loads(read_regular(file))
        sweep = make_sweep(_entry(found, "sweep", "", _OBJECT))
        told_apart = arms(sweep)
        described = _entry(found, "fleets", "", _LIST)
        fleets = [_read_fleet(fleet, f"fleets[{index}].", sweep, told_apart) for index, fleet in enumerate(described)]
        _check_names([fleet.name for fleet in fleets], "fleets", ".name")
        return sweep, fleets
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not the manifest of a sweep: {error}") from error


class _Kind(NamedTuple):
    """The types that an entry may have, and what they are called."""

    types: tuple[type, ...]
    words: str

    def has(self, value: Any) -> bool:
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))


_OBJECT, _LIST = _Kind((dict,), "an object"), _Kind((list,), "a list")
_TEXT, _COUNT = _Kind((str,), "text"), _Kind((int,), "a whole number")
_TEXT_OR_NULL = _Kind((str, NoneType), "text or null")
_VALUE = _Kind((str, int, float, bool, NoneType), "text, a number, true, false or null")


def _entry(found: Any, name: str, where: str, kind: _Kind) -> Any:
    """An entry of an object in the manifest, which must be of a kind."""
    if not isinstance(found, dict):
        raise ValueError(f"{where.rstrip('.') or 'it'} must be an object, got {_short(found)}")
    if name not in found:
        raise ValueError(f"{where}{name} is missing")
    if not kind.has(found[name]):
        raise ValueError(f"{where}{name} must be {kind.words}, got {_short(found[name])}")
    return found[name]


def _read_fleet(described: Any, where: str, sweep: Sweep, told_apart: Sequence[str]) -> Fleet:
    name = check_plain_name(_entry(described, "name", where, _TEXT), f"{where}name")
    size = _entry(described, "bytes", where, _COUNT)
    runs = _entry(described, "runs", where, _LIST)
    if not runs:
        raise ValueError(f"{where}runs must have at least one run")
    members = [_read_member(run, f"{where}runs[{index}].", told_apart) for index, run in enumerate(runs)]
    _check_names([member.name for member in members], f"{where}runs", ".name")
    return Fleet(name, sweep.steps, tuple(members), size)


def _read_member(run: Any, where: str, told_apart: Sequence[str]) -> Member:
    name = check_plain_name(_entry(run, "name", where, _TEXT), f"{where}name")
    given = _entry(run, "fields", where, _OBJECT)
    fields = tuple((field, _entry(given, field, f"{where}fields.", _VALUE)) for field in given)
    env, agent, metric = (_entry(run, part, where, _TEXT) for part in ("env", "agent", "metric"))
    preset, seed = _entry(run, "preset", where, _TEXT_OR_NULL), _entry(run, "seed", where, _COUNT)
    cell = Cell(env, agent, metric, preset, fields, seed)
    return Member(cell, name, tuple((field, value) for field, value in fields if field in told_apart))


def _check_names(names: Sequence[str], where: str, entry: str) -> None:
    """Refuse names that are there twice, or are those of files in the same folder."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"{where}[{index}]{entry} must differ from those before it, got {name!r} again")
        if name in _TAKEN:
            raise ValueError(f"{where}[{index}]{entry} must not be {name!r}, which is a file of the sweep")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _check_extends(before: Sweep, now: Sweep) -> None:
    """Refuse a sweep that is another one; more of what there were several of, and more seeds, are allowed."""
    for name in ("steps", "preset", "variants"):
        _check_equal(name, getattr(before, name), getattr(now, name))
    for name in ("env", "agent", "metric", "seeds"):
        _check_more(name, getattr(before, name), getattr(now, name))
    _check_fields(before.fields, now.fields)
    for metric in before.metric:
        _check_fields(before.fields_with(metric), now.fields_with(metric))


def _check_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if old is None or new is None or len(old) == 1:  # a single value is in the name of no run
            _check_equal(name, old, new)
        else:
            _check_more(name, old, new)


def _check_equal(name: str, old: Any, new: Any) -> None:
    if old != new:
        raise ValueError(_differs(name, old, new))


def _check_more(name: str, old: Sequence[Any], new: Sequence[Any]) -> None:
    gone = [value for value in old if value not in new]
    if gone:
        raise ValueError(_differs(name, old, new))


def _differs(name: str, old: Any, new: Any) -> str:
    return f"{name} is {_shown(new)}, but the sweep here was made with {_shown(old)}; another sweep needs another out"


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)
