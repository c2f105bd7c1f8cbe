"""Ctrl-C, the request to end that a cluster sends, and a lost terminal, as something that a loop can look at."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_REQUESTS = (signal.SIGINT, signal.SIGTERM)
_OUTPUTS = (1, 2)


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Collect Ctrl-C and requests to end, for a loop that looks whether there was one between two chunks.

    A second Ctrl-C or request to end raises KeyboardInterrupt at once. A hangup that is ignored, as under nohup, stays
    ignored.

    Yields:
        A function that says whether there was a signal.
    """
    seen: list[int] = []
    terminals = [number for number in _OUTPUTS if os.isatty(number)]

    def note(number: int, frame: Any) -> None:
        _silence([terminal for terminal in terminals if not os.isatty(terminal)])
        if seen and number != signal.SIGHUP:  # which a shell and the system send both
            raise KeyboardInterrupt("stopped at once: --resume continues from the last checkpoint")
        seen.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    before = {number: signal.signal(number, note) for number in (*_REQUESTS, *([] if nohup else [signal.SIGHUP]))}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _silence(outputs: Sequence[int]) -> None:
    """Let outputs lead nowhere: to write to a lost terminal is an error, which would come before anything is saved."""
    for output in outputs:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)
