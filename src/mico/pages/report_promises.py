"""What folders of runs promise and do not hold: runs that never began, and fleets that failed."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_SHOWN = 3  # names in a sentence


def unkept_promises(folder: Path, fleets: Iterable[Path]) -> list[str]:
    """A sentence for each fleet of which fleet.json, or a sweep's sweep.json, names runs that left nothing."""
    sentences: list[str] = []
    promised: dict[Path, list[str]] = {}
    for sweep in sorted({*folder.glob("sweep.json"), *folder.glob("*/sweep.json")}):
        for fleet in _listed(sweep, "fleets", sentences):
            promised[sweep.parent / fleet["name"]] = [run["name"] for run in fleet["runs"]]
            sentences += _failure(sweep.parent, fleet["name"])
    for fleet in sorted(set(fleets) - set(promised)):
        promised[fleet] = _listed(fleet / "fleet.json", "runs", sentences)
    for fleet, runs in promised.items():
        absent = [run for run in runs if not (fleet / run / "log.jsonl").exists()]
        if absent:
            more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
            names = ", ".join(absent[:_SHOWN]) + more
            sentences.append(f"{fleet.name}: {len(absent)} of {len(runs)} runs have not begun: {names}")
    return sentences


def reason(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _listed(file: Path, key: str, sentences: list[str]) -> list[Any]:
    """What a manifest lists; nothing, and a sentence, if it is damaged."""
    try:
        found = json.loads(file.read_bytes())[key] if file.is_file() else []
        if key == "fleets":
            return [
                {"name": fleet["name"], "runs": [{"name": run["name"]} for run in fleet["runs"]]} for fleet in found
            ]
        return [str(name) for name in found]
    except (ValueError, TypeError, KeyError, OSError) as error:
        sentences.append(
            f"{file.parent.name}/{file.name} is damaged, and what it promises is not known: {reason(error)}"
        )
        return []


def _failure(sweep: Path, fleet: str) -> list[str]:
    """Why a fleet of a sweep failed, if it did."""
    file = sweep / "status" / f"{fleet}.json"
    try:
        found = json.loads(file.read_bytes()) if file.is_file() else {}
        return [f"{fleet} failed: {found['error']}"] if found.get("state") == "failed" else []
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        return [f"the state of {fleet} is not known: {reason(error)}"]
