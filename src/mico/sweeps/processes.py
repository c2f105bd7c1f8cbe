"""Worker processes that start afresh and end with the process that started them."""

import multiprocessing
import os
import threading

CORES = "NPROC"  # how many threads XLA starts on a CPU is read from it


def end_with_parent() -> None:
    """A worker whose parent is gone, however it went, ends at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def take_cores(count: float) -> None:
    """Let this process compute with so many threads; it must be said before it computes anything."""
    os.environ[CORES] = str(max(1, int(count)))
