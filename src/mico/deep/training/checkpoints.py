"""Checkpoints: a training state that is whole on the disk, or is not there."""

import hashlib
import importlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from mico import _memory
from mico.deep.training.array_store import (
    BATCH,
    DAMAGE,
    DamageError,
    Entry,
    Form,
    Leaf,
    copied,
    leaves,
    place,
    read,
    size,
    write,
)
from mico.results.folders import sync, write_json

_NONE = "none-yet"


class Restored(NamedTuple):
    """A state, the step it was saved at, and what was saved beside it."""

    step: int
    state: PyTree
    extra: dict[str, Any]


class Checkpoints:
    """The newest `keep` checkpoints of one writer, `folder/<step>` each.

    A checkpoint gets its name when all of it is on the disk, and only then do older ones go; where the disk has no
    room for one more, all but the newest may go before. Until the first one is whole, `folder/none-yet` says that
    there never was any, so that a run whose checkpoints were deleted is not taken for one that made none. One that
    restore had to skip is set aside as `folder/<step>.skipped` by the next save, until there are `keep` sound ones as
    far as it.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.folder = folder.absolute()
        self.keep = keep
        self._damaged: set[int] = set()  # steps found so by restore
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._worker.submit(importlib.import_module, "orbax.checkpoint")  # while programs are compiled
        self._pending: Future[None] | None = None

    def latest(self) -> int | None:
        """The newest step, those that restore had to skip left out."""
        return max(self._sound(), default=None)

    def awaits_first(self) -> bool:
        """Whether it is certain that there never was any."""
        return (self.folder / _NONE).exists()

    def await_first(self) -> None:
        """Write down, for whoever goes on, that there is none yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _NONE).touch()
        sync(self.folder)
        sync(self.folder.parent)

    def save(self, step: int, state: PyTree, extra: Mapping[str, Any], *, background: bool = False) -> None:
        """Save a state with what JSON can hold beside it, as a step after the latest.

        In the background the state is first copied to host memory, so that its buffers are free when this returns;
        if there is no room for the copy, it is saved in the foreground. Call `wait` before the program ends.
        """
        self.wait()
        latest = self.latest()
        if step < 0:
            raise ValueError(f"step must not be negative, got {step}")
        if latest is not None and step <= latest:
            raise ValueError(f"step {step} is not after the latest checkpoint in {self.folder}, {latest}")
        found = leaves(state)
        kept = json.loads(json.dumps(extra, allow_nan=False))
        if background and fits(state):
            self._pending = self._worker.submit(self._write, step, [copied(leaf) for leaf in found], kept)
        else:
            self._write(step, found, kept)

    def wait(self) -> None:
        """Wait for what is being saved in the background; its error is raised here."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Whatever happened, nothing is still being written in the background when others may write."""
        self.wait()

    def restore(self, *likes: PyTree) -> Restored | None:
        """The newest sound checkpoint, laid out, typed and placed as one of `likes`, whose leaves may be shapes alone.

        None without checkpoints; damaged ones are skipped with a warning; a ValueError if all are damaged, or if the
        sound one is of another structure.
        """
        self.wait()
        steps = self._steps()
        for step in reversed(steps):
            try:
                state, extra = _read(self.folder / str(step), step, likes)
            except DamageError as error:
                self._damaged.add(step)
                warnings.warn(f"checkpoint {self.folder / str(step)} is skipped: {error}", stacklevel=2)
            else:
                self._found()
                return Restored(step, state, extra)
        if steps:
            raise ValueError(f"all checkpoints in {self.folder} are damaged: {', '.join(map(str, steps))}")
        return None

    def _steps(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob("[0-9]*") if path.name.isdecimal())

    def _sound(self) -> list[int]:
        return [step for step in self._steps() if step not in self._damaged]

    def _write(self, step: int, found: Sequence[Leaf], extra: dict[str, Any]) -> None:
        target, temporary = self.folder / str(step), self.folder / f".{step}.tmp"
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(".*.tmp"):  # of a process that was killed
            shutil.rmtree(left)
        try:
            temporary.mkdir()
            self._make_room(sum(map(size, found)))
            entries = write(temporary / "state", found)
            write_json(temporary / "checkpoint.json", _signed({"step": step, "extra": extra, "leaves": entries}))
            _sync_all(temporary)
            self._set_aside()
            temporary.rename(target)
        except OSError as error:
            if error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(target)) from error
        finally:
            _clear(temporary)
        sync(self.folder)
        self._found()
        steps = self._steps()
        for old in steps[: -self.keep]:
            self._remove(self.folder / str(old))
        for aside in self.folder.glob("[0-9]*.skipped"):
            if sum(step >= int(aside.stem) for step in steps) >= self.keep:
                self._remove(aside)

    def _found(self) -> None:
        """Only once a checkpoint is whole: a process may be killed in between."""
        (self.folder / _NONE).unlink(missing_ok=True)

    def _make_room(self, wanted: int) -> None:
        """Let the oldest go until the disk has so many bytes, but never the newest sound one."""
        for old in self._sound()[:-1]:
            if shutil.disk_usage(self.folder).free > wanted:
                return
            self._remove(self.folder / str(old))

    def _set_aside(self) -> None:
        for step in sorted(self._damaged):
            aside = self.folder / f"{step}.skipped"
            if aside.exists():
                self._remove(aside)
            (self.folder / str(step)).rename(aside)
            self._damaged.discard(step)

    def _remove(self, path: Path) -> None:
        """Under another name first, so that no half of it can be taken for a checkpoint."""
        temporary = self.folder / f".{path.name}.removed.tmp"
        path.rename(temporary)
        shutil.rmtree(temporary)


def _clear(folder: Path) -> None:
    """Orbax's threads may still add files to what it failed to write; what they leave for good goes with the next."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


def fits(state: PyTree) -> bool:
    """Whether host memory has room for a copy of the state and for what writing it takes."""
    return sum(map(size, leaves(state))) + 4 * BATCH < _memory.available()


def _read(folder: Path, step: int, likes: Sequence[PyTree]) -> tuple[PyTree, dict[str, Any]]:
    try:
        data = json.loads((folder / "checkpoint.json").read_bytes())
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:
            raise
        raise DamageError(f"checkpoint.json cannot be read: {error}") from error
    if not isinstance(data, dict) or data != _signed(data) or data["step"] != step:
        raise DamageError("checkpoint.json does not have its digest")
    entries = [
        Entry(Form(path, kind, dtype, tuple(shape)), sha256) for (path, kind, dtype, shape), sha256 in data["leaves"]
    ]
    forms = [entry.form for entry in entries]
    like = next((like for like in likes if [leaf.form for leaf in leaves(like)] == forms), None)
    if like is None:
        pairs = zip_longest(forms, (leaf.form for leaf in leaves(likes[0])), fillvalue="nothing more")
        there, here = next((there, here) for there, here in pairs if there != here)
        raise ValueError(f"checkpoint {folder} is of another state: it has {there}, not {here}")
    found = [place(value, leaf) for value, leaf in zip(read(folder / "state", entries), leaves(like))]
    return jax.tree.unflatten(jax.tree.structure(like), found), data["extra"]


def _signed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with a digest of it, which the digests of the leaves are part of."""
    rest = {name: value for name, value in data.items() if name != "digest"}
    return {**rest, "digest": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def _sync_all(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        for name in files:
            sync(Path(parent) / name)
        sync(Path(parent))
