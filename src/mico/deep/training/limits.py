"""Whether a fleet fits into the memory of the device that trains it, and its checkpoints on the disk."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import jax

from mico import _memory
from mico.deep.config.run import Run


def room() -> int:
    """Bytes that the device, or the host where that is its own memory, still has; 0 if that is not known."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return _memory.available()


def check_room(state: Any, run: Run, count: int) -> None:
    """Refuse runs whose state, of this shape, is more than the device has room for."""
    needed, free = _size(state), room()
    if free and needed > free:
        replay = count * run.replay.size(run.env.spec)
        runs = "1 such run takes" if count == 1 else f"{count} such runs take"
        raise ValueError(
            f"replay.capacity is {run.replay.capacity:,}: {runs} {needed / 1e9:.3g} GB"
            f" ({replay / 1e9:.3g} of it the replay), but {_where()} has room for {free / 1e9:.3g}{_hint()}"
        )


def warn_of_disk(state: Any, out: Path) -> None:
    """Say if two checkpoints of a state of this shape, the old and the new one, may be more than the disk has."""
    needed, free = 2 * _size(state), shutil.disk_usage(out).free
    there = sum(file.stat().st_size for file in out.glob("checkpoints/**/*") if file.is_file())
    if needed > free + there:
        warnings.warn(
            f"two checkpoints may take {needed / 1e9:.3g} GB, but {out} has room for {(free + there) / 1e9:.3g}:"
            " --checkpoint-replay empty makes small ones",
            stacklevel=2,
        )


def _size(state: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def _where() -> str:
    return "this machine" if jax.default_backend() == "cpu" else "the device"


def _hint() -> str:
    """Why a GPU seems to have less than it has."""
    more = "; JAX leaves a part of its memory to others, less with XLA_PYTHON_CLIENT_MEM_FRACTION=.95"
    return "" if jax.default_backend() == "cpu" else more
