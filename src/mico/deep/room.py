"""Whether a fleet fits into the memory of the device that trains it."""

from typing import Any

import jax

from mico.deep import host_memory
from mico.deep.settings import Run


def room() -> int:
    """Bytes that the device, or the host where that is its own memory, still has; 0 if that is not known."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return host_memory.available()


def check_room(state: Any, run: Run, count: int) -> None:
    """Refuse runs whose state, of this shape, is more than the device has room for."""
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    free = room()
    if free and needed > free:
        replay = count * run.replay.size(run.env.spec)
        raise ValueError(
            f"replay.capacity is {run.replay.capacity:,}: {count} such runs take {needed / 1e9:.3g} GB"
            f" ({replay / 1e9:.3g} of it the replay), but the device has room for {free / 1e9:.3g}{_hint()}"
        )


def _hint() -> str:
    """Why a GPU seems to have less than it has."""
    more = "; JAX leaves a part of its memory to others, less with XLA_PYTHON_CLIENT_MEM_FRACTION=.95"
    return "" if jax.default_backend() == "cpu" else more
