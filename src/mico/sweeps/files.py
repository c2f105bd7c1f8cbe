"""Read the entries of a sweep: by name, from a TOML file, or from the manifest of another sweep."""

import difflib
import tomllib
from pathlib import Path
from typing import Any

from mico.runs.files import read_regular
from mico.sweeps.grid import read_entry
from mico.sweeps.manifest import read_manifest
from mico.sweeps.named import SWEEPS


def entries(source: str) -> dict[str, Any]:
    """Read the entries of a sweep, by its name or from a file.

    Args:
        source: The name of a sweep, or the path of a TOML file or of the sweep.json of another sweep.

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
    if path.suffix == ".json":
        return read_manifest(path)[0].as_json()
    meant = difflib.get_close_matches(source.lower(), SWEEPS, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"the named sweeps are {', '.join(SWEEPS)}"
    raise ValueError(f"sweep must be a name or a .toml or .json file, got {source!r}: {hint}")


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(read_regular(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    try:
        return {name: read_entry(name, value) for name, value in found.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
