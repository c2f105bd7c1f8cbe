"""The parameters of each run, for whoever wants to use what it learnt."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from mico.deep.training.array_store import (
    SUFFIX,
    DamageError,
    OtherStateError,
    open_arrays,
    read_tree,
    tree_leaves,
    write_arrays,
)
from mico.runs.files import make_subfolder

_SAVED = re.compile(rf"(0|[1-9][0-9]*){re.escape(SUFFIX)}")
_OURS = re.compile(rf"{_SAVED.pattern}|\.[0-9]+{re.escape(SUFFIX)}\.[0-9a-f]{{16}}\.tmp")  # and of killed processes
_TRIES = 100  # a run would have to save so often between two looks at its folder


def save_parameters(folders: Sequence[Path], step: int | Int[np.ndarray, " N"], params: Any) -> None:
    """Save the parameters of each run as params/STEP.arrays, and remove those of earlier saves.

    Only files that were written here are removed, not what else is in params/. The caller holds the lock of the folder.

    Args:
        folders: The folder of each run.
        step: The step of all runs, or that of each.
        params: A pytree of arrays; row i of each belongs to run i.

    Raises:
        OSError: If they cannot be written.
    """
    on_host = jax.device_get(params)
    for index, (folder, own) in enumerate(zip(folders, np.broadcast_to(step, len(folders)).tolist())):
        where = make_subfolder(folder, "params")
        whole = where / f"{own}{SUFFIX}"
        write_arrays(whole, tree_leaves(jax.tree.map(lambda rows: rows[index], on_host)), {"step": own})  # noqa: B023
        for other in where.iterdir():
            if other != whole and _OURS.fullmatch(other.name) and (other.is_file() or other.is_symlink()):
                other.unlink()


def parameter_files(folder: Path) -> dict[int, Path]:
    """The files with the parameters of a run by their steps, the newest first; other files are not ours.

    Args:
        folder: The folder of the run.
    """
    found = {file: _SAVED.fullmatch(file.name) for file in (folder / "params").glob(f"[0-9]*{SUFFIX}")}
    steps = {int(match[1]): file for file, match in found.items() if match and file.is_file()}
    return dict(sorted(steps.items(), reverse=True))


def load_parameters(folder: Path, like: Any) -> tuple[int, Any]:
    """Load the newest parameters of a run, which may still be training.

    Args:
        folder: The folder of the run.
        like: A pytree of the same structure and shapes.

    Returns:
        The step at which they were saved, and the parameters.

    Raises:
        ValueError: If there are none, or the newest are damaged or belong to other settings.
    """
    vanished: set[int] = set()
    for _ in range(_TRIES):
        files = parameter_files(folder)
        if not files:
            break
        for step, file in files.items():
            try:
                return step, _read(file, like)
            except FileNotFoundError:
                if step in vanished:  # and yet it is listed again: take the next newest
                    continue
                vanished.add(step)
                break  # a run that is still training has just replaced it: look again
    old = any((folder / "params").glob("[0-9]*.eqx"))
    hint = "those of an earlier version of MICo cannot be read" if old else "they are saved with the first checkpoint"
    raise ValueError(f"{folder} has no parameters yet: {hint}")


def _read(file: Path, like: Any) -> Any:
    """Read the parameters in a file."""
    try:
        with open_arrays(file) as stored:
            return read_tree(stored, like)
    except DamageError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    except OtherStateError as error:
        raise ValueError(f"{file} holds the parameters of other settings: {error}") from error
