"""Sweeps by name, or written down: as TOML, as a small Python file that defines SWEEP, as the manifest of another."""

import runpy
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mico.deep.envs.names import near
from mico.sweeps.grid import Sweep
from mico.sweeps.manifest import read_manifest
from mico.sweeps.named import SWEEPS

_ENTRIES = [field.name for field in fields(Sweep)]


def entries(source: str) -> dict[str, Any]:
    """What a sweep of a name, or in a file, says."""
    if source in SWEEPS:
        return SWEEPS[source].sweep.as_json()
    path = Path(source)
    if path.suffix == ".toml":
        return _from_toml(path)
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix == ".json":
        return read_manifest(path)[0].as_json()
    raise ValueError(
        f"{source!r} is neither a .toml, .py or .json file nor a sweep with a name: {near(source, SWEEPS)}"
    )


def sweep_of(given: Mapping[str, Any]) -> Sweep:
    """The sweep that entries describe."""
    for name in given:
        if name not in _ENTRIES:
            raise ValueError(f"{name!r} is no entry of a sweep: did you mean {near(name, _ENTRIES)}?")
    for name in ("steps", "env"):
        if name not in given:
            raise ValueError(f"a sweep needs {name}")
    return Sweep(**given)


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error


def _from_python(path: Path) -> dict[str, Any]:
    path.read_bytes()  # an OSError that names the file, if it cannot be read
    try:
        found = runpy.run_path(str(path)).get("SWEEP")
    except Exception as error:  # whatever a file of somebody's own may do
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} must define SWEEP, a mico.sweeps.grid.Sweep, but that is {found!r}")
    return found.as_json()
