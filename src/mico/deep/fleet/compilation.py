"""How many programs JAX has compiled in this process, so that speed is measured where nothing was."""

import itertools
from typing import Any

from jax import monitoring

_EVENT = "/jax/core/compile/backend_compile_duration"  # also where the program came from the persistent cache
_compiled = itertools.count(1)
_count = 0


def count() -> int:
    """Count the programs that were compiled, or read from the persistent cache, since this module was imported."""
    return _count


def _note(event: str, duration_secs: float, **kwargs: Any) -> None:
    global _count
    if event == _EVENT:
        _count = next(_compiled)  # which threads may call at once


monitoring.register_event_duration_secs_listener(_note)
