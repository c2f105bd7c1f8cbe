"""The parameters of each run, for whoever wants to use what it learnt."""

import hashlib
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from mico.results.folders import write_whole

_SAVED = re.compile(r"(0|[1-9][0-9]*)\.eqx")
_OURS = re.compile(rf"{_SAVED.pattern}|\.[0-9]+\.eqx(\.[0-9a-f]{{16}})?\.tmp")  # and what killed processes left
_TRIES = 100  # a run would have to save so often between two looks at its folder


def save_parameters(folders: Sequence[Path], step: int | Int[np.ndarray, " N"], params: Any) -> None:
    """Save the parameters of each run as params/STEP.eqx, and remove those of earlier saves.

    A file ends with the digest of all that comes before it, as Equinox reads no further than the last array. Only
    files that were written here are removed, not what else is in params/. The caller holds the lock of the folder.

    Args:
        folders: The folder of each run.
        step: The step of all runs, or that of each.
        params: A pytree of arrays; row i of each belongs to run i.

    Raises:
        OSError: If they cannot be written.
    """
    on_host = jax.device_get(params)
    for index, (folder, own) in enumerate(zip(folders, np.broadcast_to(step, len(folders)))):
        where = folder / "params"
        where.mkdir(exist_ok=True)
        data = BytesIO()
        eqx.tree_serialise_leaves(data, jax.tree.map(lambda rows: rows[index], on_host))  # noqa: B023
        whole = where / f"{own}.eqx"
        write_whole(whole, data.getvalue() + _digest(data.getvalue()))
        for other in where.iterdir():
            if other != whole and _OURS.fullmatch(other.name) and (other.is_file() or other.is_symlink()):
                other.unlink()


def parameter_files(folder: Path) -> dict[int, Path]:
    """The files with the parameters of a run by their steps, the newest first; other files are not ours.

    Args:
        folder: The folder of the run.
    """
    found = {file: _SAVED.fullmatch(file.name) for file in (folder / "params").glob("[0-9]*.eqx")}
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
                data = file.read_bytes()
            except FileNotFoundError:
                if step in vanished:  # and yet it is listed again: take the next newest
                    continue
                vanished.add(step)
                break  # a run that is still training has just replaced it: look again
            return step, _parsed(file, data, like)
    raise ValueError(f"{folder} has no parameters yet: they are saved with the first checkpoint")


def _parsed(file: Path, data: bytes, like: Any) -> Any:
    """The parameters in a file, which has its digest and nothing else than they."""
    size = len(data) - hashlib.sha256().digest_size
    if size < 0 or data[size:] != _digest(data[:size]):
        raise ValueError(f"{file} is damaged: it does not have its digest")
    stream = BytesIO(data[:size])
    try:
        params = eqx.tree_deserialise_leaves(stream, like)
    except RuntimeError as error:
        raise ValueError(f"{file} holds the parameters of other settings: {error}") from error
    if stream.tell() != size:
        raise ValueError(f"{file} holds the parameters of other settings: there are more of them")
    return params


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
