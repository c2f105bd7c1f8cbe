"""Runs that folders list but do not hold: runs that never began or lost a file, and fleets that failed."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mico._checks import check_plain_name
from mico.runs.files import read_regular
from mico.runs.log import few

_DEPTHS = ("fleet.json", "*/fleet.json", "*/*/fleet.json")  # of a fleet, a sweep, a folder of sweeps


def unkept_promises(folder: Path, fleets: Iterable[Path]) -> list[str]:
    """A sentence for each fleet of which fleet.json, or a sweep's sweep.json, names runs that cannot be read."""
    sentences: list[str] = []
    promised: dict[Path, list[str]] = {}
    for sweep in sorted({*folder.glob("sweep.json"), *folder.glob("*/sweep.json")}):
        for fleet in _listed(sweep, "fleets", sentences):
            promised[sweep.parent / fleet["name"]] = [run["name"] for run in fleet["runs"]]
            sentences += _failure(sweep.parent, fleet["name"])
    known = {file.parent for depth in _DEPTHS for file in folder.glob(depth)}
    for fleet in sorted({*fleets, *known} - set(promised)):
        promised[fleet] = _listed(fleet / "fleet.json", "runs", sentences)
    for fleet, runs in promised.items():
        absent = [run for run in runs if not (fleet / run / "log.jsonl").exists()]
        nameless = [run for run in runs if run not in absent and not (fleet / run / "config.json").exists()]
        for names, why in ((absent, "have not begun"), (nameless, "are left out, for their config.json is missing")):
            if names:
                sentences.append(f"{fleet.name}: {len(names)} of {len(runs)} runs {why}: {few(names)}")
    return sentences


def reason(error: Exception) -> str:
    """The reason of the failure, as a phrase."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _listed(file: Path, key: str, sentences: list[str]) -> list[Any]:
    """The fleets or runs that a manifest lists; none, and a sentence, if it is damaged."""
    try:
        found = json.loads(read_regular(file))[key] if file.exists() else []
        if key == "fleets":
            return [
                {"name": _plain(fleet["name"]), "runs": [{"name": _plain(run["name"])} for run in fleet["runs"]]}
                for fleet in found
            ]
        return [_plain(name) for name in found]
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        sentences.append(
            f"{file.parent.name}/{file.name} is damaged, and what it promises is not known: {reason(error)}"
        )
        return []


def _plain(name: Any) -> str:
    """A name that is that of one folder: it becomes a part of a path."""
    return check_plain_name(name, "the name of a run or fleet")


def _failure(sweep: Path, fleet: str) -> list[str]:
    """Why a fleet of a sweep failed, if it did."""
    file = sweep / "status" / f"{fleet}.json"
    try:
        found = json.loads(read_regular(file)) if file.exists() else {}
        return [f"{fleet} failed: {found['error']}"] if found.get("state") == "failed" else []
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        return [f"the state of {fleet} is not known: {reason(error)}"]
