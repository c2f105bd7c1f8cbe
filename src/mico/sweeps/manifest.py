"""What a sweep's folder holds: sweep.json with its fleets, which are kept, and the state of each in status/."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from mico import __version__
from mico.results.folders import write_json
from mico.sweeps.grid import Cell, Sweep, arms, cells
from mico.sweeps.plan import Fleet, Member, plan

_FILE = "sweep.json"


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
    return [*kept, *plan(sweep, new, memory=limits.memory, max_runs=limits.max_runs, first=len(kept))]


def write_manifest(out: Path, sweep: Sweep, fleets: Sequence[Fleet]) -> None:
    """Write down what the fleets are, before any of them begins."""
    described = [
        {"name": fleet.name, "bytes": fleet.size, "runs": [_described(member, fleet) for member in fleet.members]}
        for fleet in fleets
    ]
    found = {"version": __version__, "sweep": sweep.as_json(), "fleets": described}
    if not (out / _FILE).exists() or json.loads((out / _FILE).read_bytes()) != json.loads(json.dumps(found)):
        write_json(out / _FILE, found)


def _described(member: Member, fleet: Fleet) -> dict[str, Any]:
    cell = asdict(member.cell) | {"fields": dict(member.cell.fields)}
    shared = fleet.shared() if member.cell.metric == "none" else None
    return {"name": member.name, **cell} | ({"computed_as": f"{shared} with alpha 0"} if shared else {})


def _kept(sweep: Sweep, out: Path) -> list[Fleet]:
    """The fleets in the folder, which must be of this sweep or of a part of it."""
    file = out / _FILE
    if not file.exists():
        others = sorted(entry.name for entry in out.iterdir()) if out.is_dir() else []
        others = [name for name in others if name != "lock" and not name.startswith(f".{_FILE}")]
        if others:
            raise ValueError(f"{out} is not empty and holds no sweep: {others[0]}")
        return []
    before, kept = read_manifest(file)
    _check_extends(before, sweep)
    return kept


def read_manifest(file: Path) -> tuple[Sweep, list[Fleet]]:
    """The sweep and its fleets."""
    try:
        found = json.loads(file.read_bytes())
        sweep = Sweep(**found["sweep"])
        told_apart = arms(sweep)
        return sweep, [_revived(fleet, sweep.steps, told_apart) for fleet in found["fleets"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not the manifest of a sweep: {error!r}") from error


def _revived(described: dict[str, Any], steps: int, told_apart: Sequence[str]) -> Fleet:
    members = []
    for run in described["runs"]:
        fields = tuple(run["fields"].items())
        cell = Cell(run["env"], run["agent"], run["metric"], run["preset"], fields, run["seed"])
        varied = tuple((name, value) for name, value in fields if name in told_apart)
        members.append(Member(cell, run["name"], varied))
    return Fleet(described["name"], steps, tuple(members), described["bytes"])


def _check_extends(before: Sweep, now: Sweep) -> None:
    """Refuse a sweep that is another one; more of what there were several of, and more seeds, are welcome."""
    for name in ("steps", "preset", "variants"):
        _check_equal(name, getattr(before, name), getattr(now, name))
    for name in ("env", "agent", "metric", "seeds"):
        _check_more(name, getattr(before, name), getattr(now, name))
    for name in {**before.fields, **now.fields}:
        old, new = before.fields.get(name), now.fields.get(name)
        if old is None or new is None or len(old) == 1:  # a single value is in the name of no run
            _check_equal(name, old, new)
        else:
            _check_more(name, old, new)


def _check_equal(name: str, old: Any, new: Any) -> None:
    if old != new:
        raise ValueError(f"{name} is {_shown(new)}, but the sweep here was made with {_shown(old)}")


def _check_more(name: str, old: Sequence[Any], new: Sequence[Any]) -> None:
    gone = [value for value in old if value not in new]
    if gone:
        raise ValueError(f"{name} is {_shown(new)}, but the sweep here was made with {_shown(old)}")


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)
