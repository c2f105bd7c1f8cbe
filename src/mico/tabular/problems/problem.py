"""An MDP with what is known about it beside its numbers: where its states lie, their names, a policy."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int, Num

from mico.tabular.mdp import MDP
from mico.tabular.validation import check_kind, checked_policy


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """A map: `cells` holds the state of each free cell and −1 for walls; `goals` are states."""

    cells: Int[np.ndarray, "H W"]
    goals: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        cells = np.array(self.cells)
        if cells.ndim != 2:
            raise ValueError(f"cells must have shape [H, W], but has {list(cells.shape)}")
        if cells.dtype.kind not in "iu":
            raise ValueError(f"cells must hold integers, not {cells.dtype}")
        if cells.size and cells.min() < -1:
            row, column = np.argwhere(cells < -1)[0]
            raise ValueError(f"cells[{row}, {column}] = {cells[row, column]} is neither a state nor -1")
        states, times = np.unique(cells[cells >= 0], return_counts=True)
        if states.size == 0:
            raise ValueError("cells holds no state")
        if times.max() > 1:
            raise ValueError(f"cells holds state {states[times.argmax()]} more than once")
        for goal in self.goals:
            if goal not in states:
                raise ValueError(f"goals holds {goal}, which has no cell")
        cells.setflags(write=False)
        object.__setattr__(self, "cells", cells)

    def paint(self, values: Num[np.ndarray, " S"]) -> Float[np.ndarray, "H W"]:
        """The values on the map, NaN at walls; a state that has no cell is not painted."""
        if len(values) <= self.cells.max():
            raise ValueError(f"values has {len(values)} entries, but cells holds state {self.cells.max()}")
        return np.where(self.cells >= 0, np.asarray(values, dtype=float)[self.cells], np.nan)


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """An MDP; where it has one, its map, names of states and of actions, and the policy [S, A] that it comes with."""

    mdp: MDP
    layout: Layout | None = None
    names: tuple[str, ...] | None = None
    policy: np.ndarray | None = None
    actions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_kind("mdp", self.mdp, MDP, "an MDP")
        num_states = self.mdp.num_states
        if self.names is not None and len(self.names) != num_states:
            raise ValueError(f"names has {len(self.names)} entries, but the MDP has {num_states} states")
        if self.actions is not None and len(self.actions) != self.mdp.num_actions:
            raise ValueError(f"actions has {len(self.actions)} entries, but the MDP has {self.mdp.num_actions} actions")
        if self.layout is not None and self.layout.cells.max() >= num_states:
            raise ValueError(f"layout holds state {self.layout.cells.max()}, but the MDP has {num_states} states")
        if self.policy is not None:
            object.__setattr__(self, "policy", checked_policy(self.policy, self.mdp.shape))
