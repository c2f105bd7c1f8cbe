"""The arrays of a training state, off the devices and onto the disk: Orbax writes them, our digests vouch for them."""

import errno
import hashlib
import itertools
import logging
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree, Shaped

_PIECE = 2**25  # bytes: longer leaves are written in pieces of this size, which Orbax compresses in parallel
BATCH = 2**28  # bytes: Orbax copies what it writes, so it is given this much at a time
_SYSTEM_ERROR = re.compile(r"(?:os_error_code=\D?|OS error )(\d+)")
DAMAGE = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EINVAL,
)  # what a system says of files that are not as written


class DamageError(Exception):
    """What is on the disk is not what was written."""


class Form(NamedTuple):
    """What a leaf is called and how it is laid out; `kind` is "array", or the type of the random keys in it."""

    path: str
    kind: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.path} as {self.kind} of {self.dtype}{list(self.shape)}"


class Leaf(NamedTuple):
    """A leaf of a state: a JAX or NumPy array, a number, or (in what is restored) a shape alone."""

    form: Form
    value: Any


class Entry(NamedTuple):
    """A leaf on the disk."""

    form: Form
    sha256: str


def leaves(state: PyTree) -> list[Leaf]:
    """The leaves of a state; whatever is neither an array nor a number is refused by name."""
    return [_leaf(jax.tree_util.keystr(path), value) for path, value in jax.tree_util.tree_leaves_with_path(state)]


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


def size(leaf: Leaf) -> int:
    """Bytes."""
    return math.prod(leaf.form.shape) * np.dtype(leaf.form.dtype).itemsize


def copied(leaf: Leaf) -> Leaf:
    """The leaf in host memory of its own, so that whatever becomes of the original is no matter."""
    value = leaf.value
    remote = isinstance(value, jax.Array) and all(device.platform != "cpu" for device in value.devices())
    remote = remote and value.sharding.memory_kind == "device"  # what comes from there is a copy already
    return leaf._replace(value=_on_host(leaf) if remote else _on_host(leaf).copy())


def _on_host(leaf: Leaf) -> Shaped[np.ndarray, "..."]:
    """The numbers as NumPy has them, without a copy where they are in host memory."""
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


def write(folder: Path, found: Sequence[Leaf]) -> list[Entry]:
    """Write leaves into a new folder, a bounded number of bytes at a time beyond the largest leaf."""
    folder.mkdir()
    entries: list[Entry] = []
    batch: dict[str, np.ndarray] = {}
    number = itertools.count()
    for index, leaf in enumerate(found):
        flat = _on_host(leaf).reshape(-1)
        entries.append(Entry(leaf.form, _digest(flat)))
        length = _PIECE // flat.itemsize
        for start in range(0, flat.size, length):
            batch[f"{index}-{start}"] = flat[start : start + length]
            if sum(piece.nbytes for piece in batch.values()) >= BATCH:
                _save(folder / str(next(number)), batch)
                batch = {}
    if batch:
        _save(folder / str(next(number)), batch)
    return entries


def read(folder: Path, entries: Sequence[Entry]) -> Iterator[Shaped[np.ndarray, "..."]]:
    """The leaves one after the other, each checked; DamageError where one is not what was written."""
    batches = (_load(folder / str(number)) for number in itertools.count())
    pieces: dict[str, np.ndarray] = {}
    for index, (form, digest) in enumerate(entries):
        flat = np.empty(math.prod(form.shape), np.dtype(form.dtype))
        start = 0
        while start < flat.size:
            while f"{index}-{start}" not in pieces:
                pieces |= next(batches)
            piece = pieces.pop(f"{index}-{start}")
            stop = start + piece.size
            if piece.dtype != flat.dtype or piece.ndim != 1 or not start < stop <= flat.size:
                raise DamageError(f"{form} has a piece of {piece.dtype}{list(piece.shape)}")
            flat[start:stop] = piece
            start = stop
        if _digest(flat) != digest:
            raise DamageError(f"{form} has other bytes than were written")
        yield flat.reshape(form.shape)


def place(value: Shaped[np.ndarray, "..."], like: Leaf) -> Any:
    """The numbers as a leaf of the same sort and on the same devices as another."""
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


def _digest(flat: Shaped[np.ndarray, " n"]) -> str:
    return hashlib.sha256(flat.view(np.uint8).data).hexdigest()


def _save(folder: Path, batch: dict[str, np.ndarray]) -> None:
    try:
        with _orbax() as (orbax, args):
            orbax.save(folder, args=args.PyTreeSave(batch))
    except ValueError as error:  # how TensorStore reports what the system told it
        told = _SYSTEM_ERROR.search(str(error))
        if told is None:
            raise
        raise OSError(int(told[1]), os.strerror(int(told[1])), str(folder)) from error


def _load(folder: Path) -> dict[str, np.ndarray]:
    try:
        with _orbax() as (orbax, args):
            batch = orbax.restore(folder, args=args.PyTreeRestore())
    except MemoryError:
        raise
    except Exception as error:  # on damaged files each of the parsers under Orbax raises what it likes
        _check_readable(folder, error)
        raise DamageError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(batch, dict) or not all(isinstance(piece, np.ndarray) for piece in batch.values()):
        raise DamageError(f"{folder.name} does not hold arrays")
    return batch


def _check_readable(folder: Path, error: Exception) -> None:
    """An OSError if it is the system that failed, by what Orbax was told or by another try: that is no damage."""
    told = _SYSTEM_ERROR.search(str(error))
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    if number is not None and number not in DAMAGE:
        raise OSError(number, os.strerror(number), str(folder)) from error
    try:
        for parent, _, files in os.walk(folder, onerror=_raise):
            for name in files:
                with (Path(parent) / name).open("rb") as file:
                    while file.read(_PIECE):
                        pass
    except OSError as failure:
        if failure.errno not in DAMAGE:
            raise


def _raise(error: OSError) -> NoReturn:
    raise error


@contextmanager
def _orbax() -> Iterator[tuple[Any, Any]]:
    """Orbax and its arguments, without its log, which prints the traceback of every error that it then raises."""
    import orbax.checkpoint as ocp  # takes an eighth of a second

    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with closing(ocp.Checkpointer(ocp.PyTreeCheckpointHandler())) as checkpointer:
            yield checkpointer, ocp.args
    finally:
        logger.setLevel(before)
