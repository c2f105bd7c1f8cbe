"""JAX's persistent compilation cache, on by default: a program that was compiled once is read from the disk again.

It is a folder in the user's cache folder, or where MICO_COMPILATION_CACHE says; `off` turns it off. Whoever gives JAX
a cache folder of their own keeps it as it is.
"""

import os
import platform
import re
import time
import warnings
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

_JAXLIB = metadata.version("jaxlib")
VARIABLE = "MICO_COMPILATION_CACHE"
_LIMIT = 2**30  # bytes of all programs; those of one training are about a million
_PRUNED_TO = 0.75  # of the limit, so that pruning stays rare
_PERIOD = 3600.0  # seconds between looks at how much there is
_MARKER = ".pruned"
_FOLDER = re.compile(r"jaxlib-.+-[0-9a-f]{12}")
_MINIMUM = "jax_persistent_cache_min_compile_time_secs"
_JAX_MINIMUM = 1.0  # its default: most programs of a training take less


def enable() -> Path | None:
    """Turn on the persistent compilation cache unless the user chose otherwise; calling it again changes nothing.

    Programs depend on the CPU and on how many threads compute, which JAX's own keys leave out: each kind of machine
    and each version of jaxlib has a folder of its own. Where no folder can be written, there is no cache. Processes
    may share it; one that reads what another is still writing compiles for itself.

    Returns:
        The folder, or None if there is no cache or it is not ours.

    Example:
        >>> enable()
        PosixPath('/home/me/.cache/mico/jaxlib-0.10.2-1f0c65a1d2b3')
    """
    given = os.environ.get(VARIABLE, "")
    if given.lower() == "off" or not _setting("enable_compilation_cache"):
        return None
    root = Path(given).expanduser().absolute() if given else _user_folder()
    folder = root / f"jaxlib-{_JAXLIB}-{_machine()}"
    chosen = _setting("compilation_cache_dir")
    if chosen is not None:
        return folder if chosen == str(folder) else None
    if not _is_writable(folder):
        if given:
            _warn(f"{VARIABLE} is {given}, which cannot be written: compiled programs are not kept")
        return None
    # Reading and writing may fail at any time, as on a full disk; then JAX compiles, and there is nothing to do.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if _MINIMUM.upper() not in os.environ and _setting(_MINIMUM.removeprefix("jax_")) == _JAX_MINIMUM:
        jax.config.update(_MINIMUM, 0.0)
    with suppress(OSError):  # what another process removes at the same time
        _prune_if_due(root)
    return folder


def _setting(name: str) -> Any:
    return getattr(jax.config, f"jax_{name}")


@cache
def _warn(message: str) -> None:
    """Say something once."""
    warnings.warn(message, stacklevel=3)


def prune(root: Path, limit: int) -> None:
    """Delete the programs that were not used for longest until all take less than `limit` bytes, if they take more.

    Only what the cache has written is deleted: files in folders that it has named.
    """
    files = []
    for folder in root.iterdir():
        if _FOLDER.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            for path in folder.rglob("*"):
                if path.is_file():
                    found = path.stat()
                    # Where the file system notes no reading, the oldest go first.
                    files.append((max(found.st_atime, found.st_mtime), found.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        if total <= _PRUNED_TO * limit:
            return
        path.unlink(missing_ok=True)
        total -= size


def _prune_if_due(root: Path) -> None:
    """Prune once an hour at most, however many processes start."""
    marker = root / _MARKER
    if marker.exists() and time.time() - marker.stat().st_mtime < _PERIOD:
        return
    marker.touch()
    prune(root, _LIMIT)


def _user_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("mico"))


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _machine() -> str:
    """A digest of what compiled code depends on: the kind of CPU, what it can do, and how many threads compute."""
    about = [platform.system(), platform.machine(), platform.processor()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
        about += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    about.append(f"threads {threads()}")
    return sha256("\n".join(about).encode()).hexdigest()[:12]


def threads() -> int:
    """How many threads XLA computes with on a CPU: NPROC says so, or else as many as the cores we may use."""
    given = os.environ.get("NPROC", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
