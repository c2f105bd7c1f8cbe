"""Where results are written."""

import errno
import os
from pathlib import Path


def writable(folder: Path) -> Path:
    """The folder, made if need be; an OSError if nothing can be written there, before any work is spent."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(folder))
    return folder
