"""Folders that results are written to, and files that are written whole."""

import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_LINK = "must not be a symbolic link, as nothing is written through one: remove it"
_NO_FILE = "must be a regular file: remove it"
_ABANDONED = 3600.0  # seconds after which nobody is writing a temporary file any more


def writable(folder: Path, name: str = "out") -> Path:
    """Make a folder if need be, and check before any work is spent that files can be written there.

    Args:
        folder: The folder, whose parents are made too.
        name: What the folder is called in an error.

    Returns:
        The folder.

    Raises:
        ValueError: If the folder, or one that it is to lie in, is a file.
        OSError: If the folder cannot be made or written to.
    """
    wrong = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    if os.path.lexists(wrong) and not wrong.is_dir():
        kind = "a broken link" if wrong.is_symlink() and not wrong.exists() else "a file"
        raise ValueError(f"{name} must be a folder, but {wrong} is {kind}")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(folder))
    return folder


def make_subfolder(out: Path, *names: str) -> Path:
    """Make a folder inside one that results are written to, and refuse a link in its place.

    The folder that a user names may be a link. What lies in it may come from somebody else, and a link there would
    lead what is written or removed to any other place.

    Args:
        out: The folder of the results.
        *names: The name of a folder in it, of a folder in that one, and so on.

    Returns:
        The folder.

    Raises:
        ValueError: If it, or a folder that it is to lie in, is a file.
        OSError: If it, or a folder of `names` that it is to lie in, is a link, or it cannot be made or written to.
    """
    folder = out
    for name in names:
        folder = folder / name
        check_no_link(folder)
    return writable(folder, str(folder))


def check_no_link(path: Path) -> None:
    """Refuse a symbolic link.

    Raises:
        OSError: If it is one, with its path.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, _LINK, str(path))


def check_regular(path: Path) -> None:
    """Refuse what is there and is no regular file of its own: a link, a pipe, a folder.

    Raises:
        OSError: If it is such, with its path.
    """
    check_no_link(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, _NO_FILE, str(path))


def read_regular(path: Path) -> bytes:
    """Read a file whole; a pipe, which would wait for its writer, or a device without end is refused.

    Raises:
        OSError: If it is no regular file or cannot be read, with its path.
    """
    with open(path, "rb", opener=open_regular) as file:
        return file.read()


def open_unlinked(path: str | Path, flags: int) -> int:
    """Open a regular file to write to, and never what a link of its name points to: an `opener` for `open`.

    Raises:
        OSError: If it is a link or no regular file, or cannot be opened, with its path.
    """
    return open_regular(path, flags | os.O_NOFOLLOW)


def open_regular(path: str | Path, flags: int) -> int:
    """Open a regular file, or one that a link leads to: an `opener` for `open`.

    Raises:
        OSError: If it is no regular file or cannot be opened, with its path.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise OSError(error.errno, _LINK, str(path)) from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise OSError(error.errno, _NO_FILE, str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NO_FILE, str(path))
    return descriptor


def touch(path: Path) -> None:
    """Make an empty file where there is none, and never one that a link points to.

    Raises:
        OSError: If there is a link or something else that is no regular file, or it cannot be made, with its path.
    """
    os.close(open_unlinked(path, os.O_WRONLY | os.O_CREAT))


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder if need be; if the block fails, what was made here is removed again, as far as it is empty."""
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        yield writable(folder)
    except BaseException:
        with suppress(OSError):  # from the first that is not empty
            for path in filter(os.path.lexists, missing):
                path.rmdir()
        raise


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write bytes to a file as `whole_file` does.

    Args:
        path: The file.
        data: What it is to hold.

    Raises:
        OSError: If it cannot be written, with its path.
    """
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write so that, whatever happens meanwhile, it is the old one or the new one, never a part.

    The data go to a new file beside it, which then takes its name. Several processes may write one file at once: the
    last one to end wins. Links are replaced, never followed.

    Args:
        path: The file.

    Raises:
        OSError: If it cannot be written, with its path.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:  # "x" makes a new file, and never opens what is there
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync(path.parent)
    _remove_abandoned(path)


def is_temporary(name: str, of: str) -> bool:
    """Whether a file name is one that `write_whole` gives to a file `of` while it is written."""
    return re.fullmatch(rf"\.{re.escape(of)}\.[0-9a-f]{{16}}\.tmp", name) is not None


def _remove_abandoned(path: Path) -> None:
    """Remove what killed processes left beside a file: a writer needs seconds, so an hour is long enough."""
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if is_temporary(entry.name, path.name) and _is_old(entry):
                os.unlink(entry.path)


def _is_old(entry: os.DirEntry) -> bool:
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk and not only on their way."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
