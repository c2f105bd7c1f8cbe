"""One file for the arrays of a pytree: compressed in pieces, with a digest of every array and of the index of them all.

    piece, piece, …, index (JSON), its length (8 bytes), its SHA-256 (32 bytes)

Checkpoints and the weights of trained runs are such files.
"""

import errno
import hashlib
import json
import math
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import zstandard
from jaxtyping import PyTree, Shaped

from mico.runs.files import whole_file

SUFFIX = ".arrays"
_FORMAT = "mico arrays 1"
_PIECE = 2**23  # bytes: arrays are compressed in pieces of this size, several at once
_LEVEL = 1  # of zstandard: higher levels take twice as long for a few percent
_LENGTH, _DIGEST = 8, hashlib.sha256().digest_size
WORKING_MEMORY = 2**28  # bytes that writing takes at most, beyond the arrays themselves
_DAMAGE = (errno.ENOTDIR, errno.EISDIR, errno.EINVAL)  # what the system says of files that are not as written


class DamageError(Exception):
    """A file does not hold what was written to it."""


class OtherStateError(ValueError):
    """A file is sound, but holds arrays of another structure."""


class Form(NamedTuple):
    """Where an array lies in its pytree, and its layout; `kind` is "array", or the type of the random keys in it."""

    path: str
    kind: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.path} as {self.kind} of {self.dtype}{list(self.shape)}"


class Leaf(NamedTuple):
    """A leaf of a pytree: a JAX or NumPy array, a number, or, as a pattern to restore, a shape alone."""

    form: Form
    value: Any


class Entry(NamedTuple):
    """An array in a file: its form, its digest, and the lengths of its compressed pieces."""

    form: Form
    sha256: str
    pieces: tuple[int, ...]


class Stored(NamedTuple):
    """An open file: what was saved beside the arrays, and the index of the arrays."""

    file: BinaryIO
    extra: dict[str, Any]
    entries: tuple[Entry, ...]


def tree_leaves(tree: PyTree) -> list[Leaf]:
    """List the leaves of a pytree; whatever is neither an array nor a number is refused by name."""
    return [_leaf(jax.tree_util.keystr(path), value) for path, value in jax.tree_util.tree_leaves_with_path(tree)]


def _leaf(path: str, value: Any) -> Leaf:
    layout, kind = value, "array"
    if isinstance(value, jax.Array | jax.ShapeDtypeStruct):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            layout, kind = jax.eval_shape(jax.random.key_data, value), str(value.dtype)
    elif isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        layout = np.asarray(value)
    else:
        raise ValueError(f"state{path} is neither an array nor a number but {value!r}")
    if not (jnp.issubdtype(layout.dtype, np.number) or jnp.issubdtype(layout.dtype, np.bool_)):
        raise ValueError(f"state{path} does not hold numbers but {layout.dtype}")
    return Leaf(Form(path, kind, layout.dtype.name, tuple(layout.shape)), value)


def num_bytes(leaf: Leaf) -> int:
    """Count the bytes of a leaf in memory."""
    return _num_bytes(leaf.form)


def _num_bytes(form: Form) -> int:
    return math.prod(form.shape) * np.dtype(form.dtype).itemsize


def copy_to_host(leaf: Leaf) -> Leaf:
    """Copy a leaf to host memory of its own, so that the original may change or be donated."""
    value = leaf.value
    remote = isinstance(value, jax.Array) and all(device.platform != "cpu" for device in value.devices())
    remote = remote and value.sharding.memory_kind == "device"  # what comes from there is a copy already
    return leaf._replace(value=_on_host(leaf) if remote else _on_host(leaf).copy())


def _on_host(leaf: Leaf) -> Shaped[np.ndarray, "..."]:
    """Convert a leaf to a NumPy array, without a copy where it is in host memory."""
    value = leaf.value
    if isinstance(value, jax.ShapeDtypeStruct):
        raise ValueError(f"state{leaf.form.path} is a shape without numbers")
    if isinstance(value, jax.Array):
        if leaf.form.kind != "array":
            value = jax.random.key_data(value)
        # JAX remembers the host's copy of an array as long as that lives: only another array of the same data forgets.
        shards = [shard.data for shard in value.addressable_shards]
        value = jax.make_array_from_single_device_arrays(value.shape, value.sharding, shards)
    return np.asarray(value, dtype=np.dtype(leaf.form.dtype), order="C")


def write_arrays(path: Path, leaves: Sequence[Leaf], extra: Mapping[str, Any]) -> None:
    """Write leaves, and beside them what JSON can hold, to a file that is whole or not there.

    Args:
        path: The file; its folder must exist.
        leaves: The arrays and numbers.
        extra: A mapping that JSON can hold.

    Raises:
        OSError: If the file cannot be written, with its path.
        ValueError: If JSON cannot hold `extra`.
    """
    at_once = os.cpu_count() or 1
    with whole_file(path) as file, ThreadPoolExecutor(at_once, thread_name_prefix="compress") as pool:
        entries = [_write_leaf(file, leaf, pool, 2 * at_once) for leaf in leaves]
        index = json.dumps({"format": _FORMAT, "extra": extra, "leaves": entries}, allow_nan=False).encode()
        file.write(index + len(index).to_bytes(_LENGTH, "little") + hashlib.sha256(index).digest())


def _write_leaf(file: BinaryIO, leaf: Leaf, pool: ThreadPoolExecutor, ahead: int) -> Entry:
    """Append the pieces of one array, in order, while later ones are compressed."""
    data = _on_host(leaf).reshape(-1).view(np.uint8)
    pending: deque[Future[bytes]] = deque()
    digest, lengths = hashlib.sha256(), []

    def write_oldest() -> None:
        piece = pending.popleft().result()
        lengths.append(len(piece))
        file.write(piece)

    for start in range(0, data.size, _PIECE):
        piece = data[start : start + _PIECE]
        pending.append(pool.submit(_compress, piece))
        digest.update(piece.data)
        if len(pending) >= ahead:
            write_oldest()
    while pending:
        write_oldest()
    return Entry(leaf.form, digest.hexdigest(), tuple(lengths))


def _compress(piece: Shaped[np.ndarray, " n"]) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress(piece.data)


@contextmanager
def open_arrays(path: Path) -> Iterator[Stored]:
    """Open a file of arrays and read its index.

    Raises:
        DamageError: If its index is not what was written.
        OSError: If it is not there, or the system does not let it be read.
    """
    if path.is_fifo() or path.is_char_device():  # which may never end
        raise DamageError(f"{path.name} is no regular file")
    try:
        with path.open("rb") as file:
            yield _read_index(file)
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        raise DamageError(f"{path.name} cannot be read: {error.strerror}") from error


def _read_index(file: BinaryIO) -> Stored:
    size = file.seek(0, os.SEEK_END)
    tail = _LENGTH + _DIGEST
    file.seek(max(size - tail, 0))
    footer = file.read()
    length = int.from_bytes(footer[:_LENGTH], "little")
    if size < tail or length > size - tail:
        raise DamageError("it does not have its digest")
    file.seek(size - tail - length)
    index = file.read(length)
    if hashlib.sha256(index).digest() != footer[_LENGTH:]:
        raise DamageError("it does not have its digest")
    file.seek(0)
    try:
        data = json.loads(index)
        if data["format"] != _FORMAT:
            raise DamageError(f"its format is {data['format']!r}, not {_FORMAT!r}")
        stored = Stored(file, dict(data["extra"]), tuple(map(_parse_entry, data["leaves"])))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(f"its index cannot be read: {error!r}") from error
    found, wanted = size - tail - length, sum(sum(entry.pieces) for entry in stored.entries)
    if found != wanted:
        raise DamageError(f"its arrays have {found} bytes instead of {wanted}")
    return stored


def _parse_entry(entry: Any) -> Entry:
    (path, kind, dtype, shape), sha256, pieces = entry
    if not all(isinstance(length, int) and length >= 0 for length in pieces):
        raise ValueError(f"pieces have lengths {pieces}")
    return Entry(Form(path, kind, dtype, tuple(shape)), sha256, tuple(pieces))


def read_tree(stored: Stored, *likes: PyTree) -> PyTree:
    """Read all arrays of an open file, placed and typed as the leaves of the first pytree that they fit.

    Args:
        stored: From `open_arrays`.
        *likes: Pytrees whose leaves may be shapes alone.

    Raises:
        OtherStateError: If the arrays fit none of them; names the first difference from the first one.
        DamageError: If an array is not what was written.
    """
    forms = [entry.form for entry in stored.entries]
    like = next((like for like in likes if [leaf.form for leaf in tree_leaves(like)] == forms), None)
    if like is None:
        pairs = zip_longest(forms, (leaf.form for leaf in tree_leaves(likes[0])), fillvalue="nothing more")
        there, here = next((there, here) for there, here in pairs if there != here)
        raise OtherStateError(f"it has {there}, not {here}")
    values = (place_array(value, leaf) for value, leaf in zip(_read_arrays(stored), tree_leaves(like)))
    return jax.tree.unflatten(jax.tree.structure(like), list(values))


def _read_arrays(stored: Stored) -> Iterator[Shaped[np.ndarray, "..."]]:
    """Read arrays one after the other, each checked; the pieces of one are decompressed several at once."""
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="decompress") as pool:
        for entry in stored.entries:
            yield _read_array(stored.file, entry, pool)


def _read_array(file: BinaryIO, entry: Entry, pool: ThreadPoolExecutor) -> Shaped[np.ndarray, "..."]:
    data = np.empty(_num_bytes(entry.form), np.uint8)
    targets = [data[start : start + _PIECE] for start in range(0, data.size, _PIECE)]
    if len(targets) != len(entry.pieces):
        raise DamageError(f"{entry.form} has {len(entry.pieces)} pieces instead of {len(targets)}")
    lock = threading.Lock()

    def read_piece(target: Shaped[np.ndarray, " n"], offset: int, length: int) -> None:
        with lock:
            file.seek(offset)
            piece = file.read(length)
        _decompress(piece, target, entry.form)

    offset, jobs = file.tell(), []
    for target, length in zip(targets, entry.pieces):
        jobs.append(pool.submit(read_piece, target, offset, length))
        offset += length
    digest = hashlib.sha256()
    for job, target in zip(jobs, targets):
        job.result()
        digest.update(target.data)
    file.seek(offset)
    if digest.hexdigest() != entry.sha256:
        raise DamageError(f"{entry.form} has other bytes than were written")
    return data.view(np.dtype(entry.form.dtype)).reshape(entry.form.shape)


def _decompress(piece: bytes, target: Shaped[np.ndarray, " n"], form: Form) -> None:
    try:
        size = zstandard.get_frame_parameters(piece).content_size  # known before anything is unpacked
        if size == target.size:
            target[...] = np.frombuffer(zstandard.ZstdDecompressor().decompress(piece), np.uint8)
    except zstandard.ZstdError as error:
        raise DamageError(f"{form} has a damaged piece: {error}") from error
    if size != target.size:
        raise DamageError(f"{form} has a piece of {size} bytes instead of {target.size}")


def place_array(value: Shaped[np.ndarray, "..."], like: Leaf) -> Any:
    """Convert an array to the type of another leaf, on its devices."""
    target = like.value
    if isinstance(target, jax.Array | jax.ShapeDtypeStruct):
        if like.form.kind != "array":
            impl = jax.random.key_impl(jnp.empty((), target.dtype))
            return jax.device_put(jax.random.wrap_key_data(jnp.asarray(value), impl=impl), target.sharding)
        placed = jax.device_put(value, target.sharding)
        if placed.dtype != value.dtype:
            raise ValueError(f"state{like.form.path} is {value.dtype}: jax_enable_x64 must be on, as when it was saved")
        return placed
    return value if isinstance(target, np.ndarray) else type(target)(value.item())
