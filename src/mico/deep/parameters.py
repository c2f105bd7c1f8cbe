"""The parameters of each run, for whoever wants to use what it learnt."""

import hashlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from mico.results.folders import write_whole


def save_parameters(folders: Sequence[Path], step: int | Int[np.ndarray, " N"], params: Any) -> None:
    """Row i of every array into params/STEP.eqx of folder i; older ones go once the new one is whole.

    The step is the same for all, or each run's own. The digest of all that comes before it ends a file: Equinox reads
    no further than the last array.
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
            if other != whole:
                other.unlink()


def load_parameters(folder: Path, like: Any) -> tuple[int, Any]:
    """The newest step whose parameters are there, and the parameters."""
    while files := {int(file.stem): file for file in (folder / "params").glob("[0-9]*.eqx")}:
        step = max(files)
        try:
            data = files[step].read_bytes()
        except FileNotFoundError:  # a run that is still training has just replaced it
            continue
        return step, _parsed(files[step], data, like)
    raise ValueError(f"{folder} holds no parameters yet: they come with the first checkpoint")


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
