"""The files of a measurement: matrix, table and figures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mico.commands.measurement import Measurement
from mico.results import plots
from mico.tabular.problems import Layout

_TABLE_STATES = 300  # whose table has 90,000 lines


def write_files(measurement: Measurement, out: Path, origin: int | None) -> Iterator[str]:
    """Write NAME.npz, .csv, .png and .pdf, and the map from `origin` where there is one; say what was written."""
    path, problem, value = out / measurement.name, measurement.problem, measurement.solution.value
    np.savez_compressed(f"{path}.npz", **_arrays(measurement))
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    ax = plots.heat_map(value, figure.subplots(), names=problem.names)
    ax.set_title(measurement.metric)
    plots.save(figure, path)
    yield f"wrote {path}.npz, .png, .pdf"
    if problem.mdp.num_states > _TABLE_STATES:
        yield f"left out {path}.csv: {problem.mdp.num_states} states are more than {_TABLE_STATES}"
    else:
        _table(value, problem.names).to_csv(f"{path}.csv", index=False)
        yield f"wrote {path}.csv"
    if problem.layout is None:
        return
    if origin is None:
        yield "left out the map: it has no goal, and no --state was given"
    else:
        _draw_map(measurement, problem.layout, origin, path)
        yield f"wrote {path}-map.png, .pdf: distances from state {origin}"


def _draw_map(measurement: Measurement, layout: Layout, origin: int, path: Path) -> None:
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    image, marks = layout.paint(measurement.solution.value[origin]), _marks(layout, origin)
    ax = plots.map_view(image, figure.subplots(), marks=marks)
    ax.set_title(f"{measurement.metric}, from state {origin}")
    plots.save(figure, path.with_name(f"{path.name}-map"))


def _arrays(measurement: Measurement) -> dict[str, Any]:
    """What the archive holds; `policy` only where there is one."""
    entries = {
        **measurement.solution._asdict(),
        "metric": measurement.metric,
        "problem": measurement.problem_name,
        "options": json.dumps(measurement.options, default=str),
        "discount": measurement.problem.mdp.discount,
        "reward": measurement.reward,
        "policy": measurement.policy,
    }
    return {key: np.asarray(entry) for key, entry in entries.items() if entry is not None}


def _table(value: np.ndarray, names: tuple[str, ...] | None) -> pd.DataFrame:
    states = np.arange(len(value)) if names is None else np.array(names)
    return pd.DataFrame(
        {"x": np.repeat(states, len(value)), "y": np.tile(states, len(value)), "distance": value.ravel()}
    )


def _marks(layout: Layout, origin: int) -> dict[tuple[int, int], str]:
    """A circle at the origin, stars at the goals."""
    circles, stars = layout.cells == origin, np.isin(layout.cells, layout.goals)
    spots = [*((spot, "o") for spot in np.argwhere(circles)), *((spot, "*") for spot in np.argwhere(stars))]
    return {(int(row), int(column)): marker for (row, column), marker in spots}
