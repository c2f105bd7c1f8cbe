"""Read sweeps: by name, from TOML, from a Python file that defines SWEEP, or from the manifest of another sweep."""

import difflib
import runpy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mico.sweeps.grid import Sweep, make_sweep, read_entry
from mico.sweeps.manifest import read_manifest
from mico.sweeps.named import SWEEPS


def entries(source: str) -> dict[str, Any]:
    """Read the entries of a sweep, by its name or from a file.

    Args:
        source: The name of a sweep, or the path of a TOML file, of a Python file that defines SWEEP (which is run), or
            of the sweep.json of another sweep.

    Returns:
        Its entries, such as `Sweep` takes.

    Raises:
        ValueError: If there is no such sweep, or an entry of the file is not as it must be.
        OSError: If the file cannot be read.
    """
    if source in SWEEPS:
        return SWEEPS[source].sweep.as_json()
    path = Path(source)
    if path.suffix == ".toml":
        return _from_toml(path)
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix == ".json":
        return read_manifest(path)[0].as_json()
    meant = difflib.get_close_matches(source.lower(), SWEEPS, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"the named sweeps are {', '.join(SWEEPS)}"
    raise ValueError(f"sweep must be a name or a .toml, .py or .json file, got {source!r}: {hint}")


def sweep_of(given: Mapping[str, Any]) -> Sweep:
    """Make the sweep that entries describe."""
    return make_sweep(given)


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    try:
        return {name: read_entry(name, value) for name, value in found.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _from_python(path: Path) -> dict[str, Any]:
    path.read_bytes()  # an OSError that names the file, if it cannot be read
    try:
        found = runpy.run_path(str(path)).get("SWEEP")
    except (Exception, SystemExit) as error:  # whatever a file of somebody's own may do
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(found, Sweep):
        raise ValueError(f"{path} must define SWEEP as a mico.sweeps.grid.Sweep, got {found!r}")
    return found.as_json()
