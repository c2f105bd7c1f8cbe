"""Checkpoints: a training state that is whole on the disk, or is not there."""

import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import PyTree

from mico import _memory
from mico.deep.training.array_store import (
    SUFFIX,
    WORKING_MEMORY,
    DamageError,
    Leaf,
    OtherStateError,
    copy_to_host,
    num_bytes,
    open_arrays,
    read_tree,
    tree_leaves,
    write_arrays,
)
from mico.runs.files import make_subfolder, sync, touch

_NONE = "none-yet"
_SKIPPED = ".skipped"


class Restored(NamedTuple):
    """A state, the step it was saved at, and what was saved beside it."""

    step: int
    state: PyTree
    extra: dict[str, Any]


class Checkpoints:
    """The newest `keep` checkpoints of one writer, a file `folder/STEP.arrays` each.

    A checkpoint gets its name when all of it is on the disk, and only then do older ones go; where the disk has no
    room for one more, all but the newest may go before. Until the first one is whole, `folder/none-yet` says that
    there never was any, so that a run whose checkpoints were deleted is not taken for one that made none. A damaged
    one that restore had to skip is renamed to `folder/STEP.arrays.skipped` by the next save, and deleted when there are
    `keep` sound ones as far as it.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.folder = folder.absolute()
        self.keep = keep
        self._damaged: set[int] = set()  # steps found so by restore
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def latest(self) -> int | None:
        """Find the newest step, those that restore had to skip left out."""
        return max(self._sound(), default=None)

    def awaits_first(self) -> bool:
        """Whether it is certain that there never was any."""
        return (self.folder / _NONE).exists()

    def await_first(self) -> None:
        """Note on the disk that there is no checkpoint yet."""
        make_subfolder(self.folder.parent, self.folder.name)
        touch(self.folder / _NONE)
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
        leaves = tree_leaves(state)
        beside = json.loads(json.dumps(extra, allow_nan=False))
        if background and fits(state):
            self._pending = self._worker.submit(self._write, step, [copy_to_host(leaf) for leaf in leaves], beside)
        else:
            self._write(step, leaves, beside)

    def wait(self) -> None:
        """Wait for what is being saved in the background; its error is raised here."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait for what is being saved, so that others may write here."""
        self.wait()

    def restore(self, *likes: PyTree) -> Restored | None:
        """Restore the newest sound checkpoint, laid out and placed as one of `likes`, whose leaves may be shapes alone.

        None without checkpoints; damaged ones are skipped with a warning; a ValueError if all are damaged, or if the
        sound one is of another structure.
        """
        self.wait()
        self._refuse_old_format()
        steps = self._steps()
        for step in reversed(steps):
            try:
                state, extra = self._read(step, likes)
            except (DamageError, FileNotFoundError) as error:
                self._damaged.add(step)
                warnings.warn(f"checkpoint {self._file(step)} is skipped: {error}", stacklevel=2)
            else:
                self._end_waiting()
                return Restored(step, state, extra)
        if steps:
            raise ValueError(f"all checkpoints in {self.folder} are damaged: {', '.join(map(str, steps))}")
        return None

    def _read(self, step: int, likes: Sequence[PyTree]) -> tuple[PyTree, dict[str, Any]]:
        with open_arrays(self._file(step)) as stored:
            if stored.extra.get("step") != step:
                raise DamageError(f"it is the checkpoint of step {stored.extra.get('step')}")
            try:
                return read_tree(stored, *likes), stored.extra["beside"]
            except OtherStateError as error:
                raise ValueError(f"checkpoint {self._file(step)} is of another state: {error}") from error

    def _refuse_old_format(self) -> None:
        """Refuse folders of earlier versions by name, rather than start over beside them."""
        for path in self.folder.glob("[0-9]*/checkpoint.json"):
            raise ValueError(
                f"{path.parent} is a checkpoint of an earlier version of MICo, which this one cannot read:"
                " continue with that version, or train in another folder"
            )

    def _file(self, step: int) -> Path:
        return self.folder / f"{step}{SUFFIX}"

    def _steps(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob(f"[0-9]*{SUFFIX}") if path.stem.isdecimal())

    def _sound(self) -> list[int]:
        return [step for step in self._steps() if step not in self._damaged]

    def _write(self, step: int, leaves: Sequence[Leaf], extra: dict[str, Any]) -> None:
        make_subfolder(self.folder.parent, self.folder.name)
        for abandoned in self.folder.glob(f".[0-9]*{SUFFIX}.*.tmp"):  # of a process that was killed
            abandoned.unlink()
        self._make_room(sum(map(num_bytes, leaves)))
        self._set_aside()
        write_arrays(self._file(step), leaves, {"step": step, "beside": extra})
        self._end_waiting()
        steps = self._steps()
        for old in steps[: -self.keep]:
            self._file(old).unlink()
        for aside in self.folder.glob(f"[0-9]*{SUFFIX}{_SKIPPED}"):
            if sum(step >= int(aside.name.partition(".")[0]) for step in steps) >= self.keep:
                aside.unlink()

    def _end_waiting(self) -> None:
        """Remove the note that there is none: only once a checkpoint is whole, for a process may be killed before."""
        (self.folder / _NONE).unlink(missing_ok=True)

    def _make_room(self, wanted: int) -> None:
        """Delete the oldest until the disk has so many bytes, but never the newest sound one."""
        for old in self._sound()[:-1]:
            if shutil.disk_usage(self.folder).free > wanted:
                return
            self._file(old).unlink()

    def _set_aside(self) -> None:
        """Rename what restore had to skip, so that it takes nobody's place."""
        for step in sorted(self._damaged):
            self._file(step).replace(self.folder / f"{step}{SUFFIX}{_SKIPPED}")
            self._damaged.discard(step)


def fits(state: PyTree) -> bool:
    """Whether host memory has room for a copy of the state and for what writing it takes."""
    return sum(map(num_bytes, tree_leaves(state))) + WORKING_MEMORY < _memory.available()
