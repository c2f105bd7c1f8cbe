"""One page to look at the metrics of a finite MDP: data in, HTML out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mico.pages.assembly import assembled, packed
from mico.tabular.diagnostics import ValueBound
from mico.tabular.plotting import is_crowded
from mico.tabular.problems import Layout

_SCRIPTS = (
    "explore_data.js",
    "explore_map.js",
    "explore_matrix.js",
    "explore_plane.js",
    "explore_numbers.js",
    "explore.js",
)
_KIND = "behavioural distances"
_HEAD = 10_000  # bytes in which a page has its title


class Plane(NamedTuple):
    r"""A point for each state, and what it keeps.

    `"exact"` points are the leading axes of MICo's embedding, whose squared distances are $\Pi U$; those of `"scaling"`
    come from classical multidimensional scaling. `kept` is the share of the spread, `ranks` the rank correlation of
    distances (None where that means nothing).
    """

    points: Float[np.ndarray, "S 2"]
    kind: Literal["exact", "scaling"]
    kept: float
    ranks: float | None


@dataclass(frozen=True, eq=False)
class View:
    """A metric between all pairs of states, the values that it is to bound, and the states as points of a plane."""

    name: str
    summary: str
    on: str
    distance: Float[np.ndarray, "S S"]
    error: float
    value: Float[np.ndarray, " S"]
    bound: ValueBound
    plane: Plane


@dataclass(frozen=True, eq=False)
class Exploration:
    """A problem and its metrics; `facts` are more about the problem, `left_out` says what is missing and why."""

    title: str
    num_states: int
    num_actions: int
    discount: float
    policy: str
    facts: dict[str, str]
    views: tuple[View, ...]
    left_out: str | None = None
    layout: Layout | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.views:
            raise ValueError("views is empty: a page shows at least one metric")
        for view in self.views:
            if view.distance.shape != (self.num_states, self.num_states):
                raise ValueError(
                    f"{view.name} has shape {list(view.distance.shape)}, but num_states is {self.num_states}"
                )


def explore_page(exploration: Exploration) -> str:
    """The page, with its style, script and data inside, and a policy that lets it load nothing else."""
    title, data = exploration.title, _data(exploration)
    return assembled("explore", _SCRIPTS, data, title=title, kind=_KIND)


def is_explore_page(path: Path) -> bool:
    """Whether a file is such a page, by its title."""
    with path.open("rb") as file:
        return f": {_KIND}</title>".encode() in file.read(_HEAD)


def _data(exploration: Exploration) -> dict[str, Any]:
    layout = exploration.layout
    goals = [] if layout is None else [int(goal) for goal in layout.goals]
    start = goals[0] if goals else 0  # the state that is chosen when the page opens
    return {
        "title": exploration.title,
        "states": exploration.num_states,
        "actions": exploration.num_actions,
        "discount": exploration.discount,
        "policy": exploration.policy,
        "facts": exploration.facts,
        "names": exploration.names,
        "cells": None if layout is None else layout.cells.tolist(),
        "goals": goals,
        "metrics": [_metric(view, start) for view in exploration.views],
        "leftOut": exploration.left_out,
    }


def _metric(view: View, start: int) -> dict[str, Any]:
    """A metric's data; `crowded` says that linear colours would hide many distances, so that ranks come first."""
    return {
        "name": view.name,
        "summary": view.summary,
        "on": view.on,
        "error": view.error,
        "broken": view.bound.broken,
        "gap": view.bound.mean_gap,
        "distance": packed(view.distance),
        "crowded": is_crowded(view.distance[start]) or is_crowded(view.distance),
        "value": packed(view.value, "<f8"),
        "plane": {**view.plane._asdict(), "points": packed(view.plane.points)},
    }
