"""One writer a folder."""

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 1.0  # seconds: a child that a killed process was just forking lets go as soon as it gets to run
_held: set[int] = set()


class OccupiedError(ValueError):
    """Another process writes the folder."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder; the kernel lets go of it when the process ends, however it ends."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    _held.add(descriptor)
    try:
        if not _taken(descriptor):
            holder = os.pread(descriptor, 1000, 0).decode().strip() or "another process"
            raise OccupiedError(f"{folder} is being written by {holder}")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
        yield
    finally:
        if descriptor in _held:  # a forked child has let go of it already
            _held.remove(descriptor)
            os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Whether the lock could be had."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        else:
            return True


def _let_go() -> None:
    """Forked children share the lock, and would keep it when their parent is killed."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)
