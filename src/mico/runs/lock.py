"""Folders that one process writes at a time: a lock file, held through the operating system."""

import errno
import fcntl
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mico.runs.files import new_folder, open_unlinked

LOCK_FILE = "lock"

_PATIENCE = 1.0  # seconds: a child that a killed process was just forking releases the lock as soon as it gets to run
_PAUSES = (0.0005, 0.02)  # seconds between attempts: the first pause, and the longest
_OURS = re.compile(rb"[\0\s]*|process \d+ on .*", re.DOTALL)  # empty, or zeros after a power failure, or a holder
_held: set["_Lock"] = set()


class OccupiedError(ValueError):
    """Another process writes the folder."""


class _Lock:
    """An open lock file; equal to itself alone, as descriptors are numbers that are used again."""

    def __init__(self, path: Path):
        self.path = path
        self.descriptor = open_unlinked(path, os.O_RDWR | os.O_CREAT)

    def is_current(self) -> bool:
        """Whether the path still names the file that is open here: a holder removes its file when it releases it."""
        try:
            again = open_unlinked(self.path, os.O_RDWR)  # which asks a file server anew, as os.stat may not
        except FileNotFoundError:
            return False
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.fstat(again))
        except OSError as error:
            if error.errno == errno.ESTALE:  # on a file server, where the holder has removed it
                return False
            raise
        finally:
            os.close(again)

    def write_holder(self) -> None:
        """Write down who holds the lock, into a file that is empty or was written here; any other is refused."""
        about = os.fstat(self.descriptor)
        if about.st_nlink > 1 or not _OURS.fullmatch(os.pread(self.descriptor, 1000, 0)):
            raise ValueError(f"{self.path} is a file of something else, where a lock has to be: move it away")
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(errors="replace"), 0)

    def remove(self) -> None:
        """Remove the file, which is safe only while the lock is held; where that cannot be, it stays."""
        with suppress(OSError):
            if self.is_current():
                os.unlink(self.path)

    def holder(self) -> str:
        """The process that holds the lock, as the file says."""
        return os.pread(self.descriptor, 1000, 0).decode(errors="replace").strip("\0 \n") or "another process"


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder while the block runs.

    The operating system releases the lock when the process ends, however it ends. The lock file is removed at the end
    of the block; one that a killed process left behind is taken over.

    Args:
        folder: A folder that exists.

    Raises:
        OccupiedError: If another process holds the lock, with its process number.
        ValueError: If the folder has a file of the same name that is no lock file.
        OSError: If the lock file cannot be made, or is a symbolic link.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with exclusive(folder):
        ...     [file.name for file in folder.iterdir()]
        ['lock']
        >>> list(folder.iterdir())
        []
    """
    lock = _acquire(folder)
    try:
        yield
    finally:
        if lock in _held:  # a forked child has closed its copy already
            lock.remove()
            _close(lock)


@contextmanager
def locked_folder(folder: Path) -> Iterator[Path]:
    """Make a folder if need be, and keep other writers out of it while the block runs.

    Folders that were made here are removed again if the block fails and nothing was written into them.

    Args:
        folder: The folder, whose parents are made too.

    Raises:
        OccupiedError: If another process holds the lock.
        OSError: If the folder cannot be made or written to.

    Examples:
        >>> import tempfile
        >>> with locked_folder(Path(tempfile.mkdtemp()) / "runs") as folder:
        ...     _ = (folder / "log.jsonl").write_text("")
    """
    with new_folder(folder), exclusive(folder):
        yield folder


def _acquire(folder: Path) -> _Lock:
    """The lock of a folder, once it can be had: of the file that the path names at that moment."""
    end, pause = time.monotonic() + _PATIENCE, _PAUSES[0]
    while True:
        lock = _Lock(folder / LOCK_FILE)
        _held.add(lock)
        try:
            if not _try_lock(lock):
                if time.monotonic() > end:
                    raise OccupiedError(f"{folder} is being written by {lock.holder()}")
            elif lock.is_current():
                lock.write_holder()
                return lock
        except BaseException:
            _close(lock)
            raise
        _close(lock)
        time.sleep(pause)
        pause = min(2 * pause, _PAUSES[1])


def _try_lock(lock: _Lock) -> bool:
    try:
        fcntl.flock(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.ESTALE:  # on a file server, where the holder has just removed it
            return False
        raise
    return True


def _close(lock: _Lock) -> None:
    if lock in _held:
        _held.remove(lock)
        os.close(lock.descriptor)


def _close_in_child() -> None:
    """Forked children share the lock, and would keep it when their parent is killed."""
    while _held:
        os.close(_held.pop().descriptor)


os.register_at_fork(after_in_child=_close_in_child)
