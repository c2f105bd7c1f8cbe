"""Ctrl-C, and the request to end that a cluster sends, as something that a loop can look at."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Whether there was a Ctrl-C or a request to end, which waits for the end of a chunk; a second one does not."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt("stopped at once: --resume continues from the last checkpoint")
        seen.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
