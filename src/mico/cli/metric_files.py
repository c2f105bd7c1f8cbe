"""The files of a measurement: matrix, table and figures."""

import errno
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mico.cli.measurement import Measurement
from mico.plotting import plots
from mico.runs.csv_bytes import csv_bytes
from mico.runs.files import write_whole
from mico.tabular._archives import DAMAGE
from mico.tabular.metrics._solution_files import solution_fields

_TABLE_STATES = 300  # whose table has 90,000 lines
_ENDINGS = (".npz", ".csv", ".png", ".pdf", "-map.png", "-map.pdf")


def file_name(problem: str, metric: str) -> str:
    """The name of a measurement's files, without an ending."""
    return f"{problem}-{metric}"


def check_replaceable(path: Path) -> None:
    """Raise a FileExistsError if files would be replaced that an earlier measurement did not write.

    Its archive, which is written first, tells them.
    """
    there = [file for ending in _ENDINGS if (file := Path(f"{path}{ending}")).exists()]
    if there and not _is_archive(Path(f"{path}.npz")):
        raise FileExistsError(errno.EEXIST, "is there already, and was not written by mico metric", str(there[0]))


def _is_archive(path: Path) -> bool:
    """Whether a file is the archive of a measurement."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {"metric", "problem", "options"} <= set(stored.files)
    except (OSError, AttributeError, *DAMAGE):  # an .npy array in disguise has no files
        return False


def write_files(measurement: Measurement, out: Path, origin: int | None) -> Iterator[str]:
    """Write NAME.npz, .csv, .png and .pdf, and the map from `origin` where there is one; say what was written.

    Files of an earlier measurement are replaced, and named.
    """
    path = out / file_name(measurement.problem_name, measurement.solution.metric)
    problem = measurement.problem
    files = {Path(f"{path}{ending}"): data for ending, data in _contents(measurement, origin).items()}
    there = [file for ending in _ENDINGS if (file := Path(f"{path}{ending}")).exists()]
    replaced = [file for file in there if file in files and file.read_bytes() != files[file]]
    left = [file for file in there if file not in files]
    for file, data in files.items():
        write_whole(file, data)
    yield f"wrote {path}.npz, .png, .pdf"
    if problem.mdp.num_states > _TABLE_STATES:
        yield f"left out {path}.csv: {problem.mdp.num_states} states are more than {_TABLE_STATES}"
    else:
        yield f"wrote {path}.csv"
    if problem.layout is not None and origin is None:
        yield "left out the map: it has no goal, and no --state was given"
    elif problem.layout is not None:
        yield f"wrote {path}-map.png, .pdf: distances from state {origin}"
    if replaced:
        yield f"replaced what another measurement had written: {_listed(replaced)}"
    if left:
        yield f"left what another measurement had written: {_listed(left)}"


def _contents(measurement: Measurement, origin: int | None) -> dict[str, bytes]:
    """The content of each file, by the ending of its name."""
    problem = measurement.problem
    archive = io.BytesIO()
    np.savez_compressed(archive, **_arrays(measurement))
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    measurement.solution.plot(figure.subplots())
    files = {".npz": archive.getvalue(), **plots.drawn(figure)}
    if problem.mdp.num_states <= _TABLE_STATES:
        files[".csv"] = csv_bytes(measurement.solution.to_frame())
    if problem.layout is not None and origin is not None:
        figure = Figure(figsize=(5.2, 4.4), layout="constrained")
        measurement.solution.plot_from(origin, figure.subplots())
        drawn = plots.drawn(figure)
        files.update({f"-map{ending}": data for ending, data in drawn.items()})
    return files


def _listed(files: list[Path]) -> str:
    return ", ".join(map(str, files))


def _arrays(measurement: Measurement) -> dict[str, Any]:
    """The arrays of the archive, from which `Solution.load` makes the solution again."""
    named = {
        "problem": measurement.problem_name,
        "options": json.dumps(measurement.options, default=str),
        "discount": measurement.problem.discount,
    }
    return solution_fields(measurement.solution) | {key: np.asarray(entry) for key, entry in named.items()}
