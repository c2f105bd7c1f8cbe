"""Where results are written."""

import errno
import json
import os
from pathlib import Path
from typing import Any


def writable(folder: Path) -> Path:
    """The folder, made if need be; an OSError if nothing can be written there, before any work is spent."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(folder))
    return folder


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that, whatever happens meanwhile, it is the old one or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(data)
        sync(temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk and not only on their way."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
