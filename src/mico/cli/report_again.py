"""How to train runs again: their commands, versions, commits and devices."""

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mico.cli.train_line import train_line
from mico.pages.report import Again
from mico.runs.configs import are_settings
from mico.runs.files import read_regular
from mico.runs.folder import RunFolder


def commands(records: Iterable[RunFolder]) -> tuple[Again, ...]:
    """Commands that train each fleet again, in the order in which the fleets were found."""
    fleets: dict[Path, list[RunFolder]] = {}
    for record in records:
        fleets.setdefault(record.fleet, []).append(record)
    return tuple(_again(fleet, runs) for fleet, runs in fleets.items())


def _again(fleet: Path, runs: list[RunFolder]) -> Again:
    lines = []
    for run in runs:
        line = _line([run.config], run.steps, f"{fleet.name}-{run.config['run']}")
        lines.append((f"{run.config['run']}, {run.state}", line or "its config.json has no settings"))
    together = _line(_fleet_settings(fleet, runs), max((run.steps or 0 for run in runs), default=0), fleet.name)
    return Again(
        fleet.name,
        (*_origins(runs), *_shared(runs), *_sweep(fleet)),
        together if len(runs) > 1 else lines[0][1],
        tuple(lines),
    )


def _line(configs: list[dict[str, Any]], steps: int | None, out: str) -> str | None:
    settings = [config["settings"] for config in configs if config.get("settings")]
    return train_line(settings, steps=steps, out=f"again/{out}") if steps and len(settings) == len(configs) else None


def _fleet_settings(fleet: Path, runs: list[RunFolder]) -> list[dict[str, Any]]:
    """Settings of all runs of a fleet, also of those that left nothing, if the file that lists them can be read."""
    try:
        found = json.loads(read_regular(fleet / "fleet.json"))["settings"]
        return [{"settings": one if are_settings(one) else None} for one in found]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return [run.config for run in runs]


def _shared(runs: list[RunFolder]) -> list[str]:
    """A sentence if some of the runs were computed as something else than they are called."""
    names = [run.config["run"] for run in runs if run.config.get("computed_as")]
    few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [f"baselines share the program of a metric loss with α = 0, which is the same: {few}"] if names else []


def _sweep(fleet: Path) -> list[str]:
    """How to run the sweep again that it belongs to, if it does to one."""
    manifest = fleet.parent / "sweep.json"
    line = shlex.join(["mico", "sweep", str(manifest), "--out", f"again/{fleet.parent.name}"])
    return [f"the whole sweep in the same fleets: {line}"] if manifest.exists() else []


def _origins(runs: list[RunFolder]) -> Iterable[str]:
    """A sentence for each different start of these runs."""
    starts = [start for run in runs for start in run.config.get("starts", [])]
    told = {}
    for start in starts:
        versions = ", ".join(f"{name} {version}" for name, version in (start.get("versions") or {}).items() if version)
        where = f"on {start.get('device') or 'an unknown device'}, commit {start.get('commit') or 'unknown'}"
        told[f"from step {start.get('step', 0):,} {where}; {versions or 'versions unknown'}"] = None
    return told or ["versions, commit and device are unknown"]
