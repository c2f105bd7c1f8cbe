"""Tables of scores, seeds as rows and environments as columns: what they must be before anything is made of them."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Real

Table = Real[np.ndarray, "runs tasks"] | pd.DataFrame
OtherTable = Real[np.ndarray, "other_runs tasks"] | pd.DataFrame


def matrix(table: Table, parameter: str) -> Float[np.ndarray, "runs tasks"]:
    """The scores as an array, if they are a table of finite numbers; else a ValueError that names the parameter."""
    labels = _labels(table, parameter)
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"{parameter} must be a table of runs and tasks, but its shape is {values.shape}")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        run, task = wrong[0]
        where = f"seed {labels[0][run]} of {labels[1][task]}" if labels else f"run {run} of task {task}"
        raise ValueError(f"{parameter} must be finite, but {where} is {values[run, task]}")
    return values


def on_same_tasks(
    x: Table, y: OtherTable
) -> tuple[Float[np.ndarray, "runs tasks"], Float[np.ndarray, "other_runs tasks"]]:
    """Two arms' scores on the same tasks: those of the same label where both have labels, else of the same place."""
    return _matched(x, y, ["tasks"])


def paired(x: Table, y: Table) -> tuple[Float[np.ndarray, "runs tasks"], Float[np.ndarray, "runs tasks"]]:
    """Two arms' scores of the same seeds on the same tasks."""
    return _matched(x, y, ["tasks", "seeds"])


def _matched(x: Table, y: OtherTable, parts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    first, second = matrix(x, "x"), matrix(y, "y")
    ours, theirs = _labels(x, "x"), _labels(y, "y")
    for part in parts:
        axis = ("seeds", "tasks").index(part)
        if ours and theirs:
            alone = ours[axis].symmetric_difference(theirs[axis])
            if len(alone):
                raise ValueError(f"x and y must have the same {part}, but one of them alone has {alone[0]}")
            second = second.take(theirs[axis].get_indexer(ours[axis]), axis=axis)
        elif first.shape[axis] != second.shape[axis]:
            raise ValueError(
                f"x and y must have the same {part}, but their shapes are {first.shape} and {second.shape}"
            )
    return first, second


def _labels(table: Any, parameter: str) -> tuple[pd.Index, pd.Index] | None:
    """The seeds and the environments, which tell what an array cannot: whether they have changed places."""
    if not isinstance(table, pd.DataFrame):
        return None
    rows, columns = table.index, table.columns
    numbered = [pd.api.types.is_numeric_dtype(labels) for labels in (rows, columns)]
    if rows.name == "env" or columns.name == "seed" or numbered == [False, True]:
        raise ValueError(
            f"{parameter} must have seeds as rows and environments as columns, but its rows are "
            f"{', '.join(map(str, rows[:3]))} …: transpose it"
        )
    for labels in (rows, columns):
        if labels.has_duplicates:
            twice = labels[labels.duplicated()][0]
            raise ValueError(f"{parameter} must have each seed and each environment once, but {twice} is there again")
    return rows, columns
