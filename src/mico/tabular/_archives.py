"""NumPy archives of others: what is in them, and how large, is known before anything is unpacked."""

import zipfile
import zlib
from collections.abc import Collection
from math import prod
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

MOST_BYTES = 2**31  # that a file may take in memory unless the caller says otherwise
_MOST_MEMBERS = 1000  # whose headers are read
DAMAGE = (  # what NumPy and zipfile raise on archives with wrong bytes
    EOFError,
    MemoryError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


class Header(NamedTuple):
    """What an array of an archive is, without its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Bytes that the array takes in memory."""
        return prod(self.shape) * self.dtype.itemsize


def read_headers(path: str | PathLike[str]) -> dict[str, Header]:
    """Read the shape and the type of every array of an archive.

    Args:
        path: An .npz file.

    Returns:
        The headers by the names of the arrays.

    Raises:
        ValueError: If it is no archive, or damaged; the message does not name the path.
        OSError: If the file cannot be opened.
    """
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("is not an .npz archive, or is cut short")
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) > _MOST_MEMBERS:
                    raise ValueError(f"holds {len(members)} members, more than {_MOST_MEMBERS}")
                return {member.filename.removesuffix(".npy"): _header(archive, member) for member in members}
        except DAMAGE as error:
            raise ValueError(f"cannot be read as an .npz archive: {error}") from None


def read_arrays(
    path: str | PathLike[str], names: Collection[str], *, max_bytes: int = MOST_BYTES
) -> dict[str, np.ndarray]:
    """Read those arrays of an archive that have one of the names, if together they are not too large.

    Args:
        path: An .npz file.
        names: The names to read; those that the archive lacks are left out.
        max_bytes: Most bytes that the arrays may take in memory.

    Returns:
        The arrays by name.

    Raises:
        ValueError: If it is no archive, damaged, too large or holds Python objects; the message does not name the path.
        OSError: If the file cannot be opened.
    """
    headers = {name: header for name, header in read_headers(path).items() if name in names}
    size = sum(header.size for header in headers.values())
    if size > max_bytes:
        raise ValueError(f"max_bytes must be at least {size} for these arrays, got {max_bytes}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in headers}
    except DAMAGE as error:
        raise ValueError(f"cannot be read as an .npz archive: {error}") from None


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Header:
    """The header of a member, which is at most some thousand bytes of it."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError(f"{member.filename.removesuffix('.npy')} holds Python objects")
    return Header(tuple(shape), dtype)
