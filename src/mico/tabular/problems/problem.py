"""A problem: an MDP with what is known about it beside its numbers: a map, names of states, a policy."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Num

from mico.tabular._validation import check_kind, checked_policy
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP

_LONGEST_NAME = 200


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """A map of a problem's states.

    Args:
        cells: Integers [H, W]: the state that lies in each cell, -1 for a wall.
        goals: States that are goals; each has a cell.

    Raises:
        ValueError: If a state has two cells, or a goal has none.

    Examples:
        >>> corridor = Layout(np.array([[0, 1, -1, 2]]), goals=(2,))
        >>> corridor.paint(np.array([0.5, 1.0, 3.0]))
        array([[0.5, 1. , nan, 3. ]])
    """

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
        """Place one value per state on the map; walls become NaN, and a state without a cell is left out."""
        if len(values) <= self.cells.max():
            raise ValueError(f"values has {len(values)} entries, but cells holds state {self.cells.max()}")
        return np.where(self.cells >= 0, np.asarray(values, dtype=float)[self.cells], np.nan)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """An MDP with, where it has them, a map, names of states and of actions, and a policy that it comes with.

    Every function of `mico.tabular` that takes an MDP takes a problem as well.

    Args:
        mdp: The MDP.
        layout: Where its states lie on a map.
        names: One name per state.
        policy: A policy [S, A] that belongs to the problem; `policy="problem"` asks for it.
        actions: One name per action, such as "←".

    Raises:
        ValueError: If names, map or policy do not fit the states and actions of the MDP.

    Examples:
        >>> from mico.tabular import MDP, Problem
        >>> mdp = MDP(transition=[[[0.5, 0.5]], [[0.0, 1.0]]], reward=[[1.0], [0.0]], discount=0.9)
        >>> Problem(mdp, names=("start", "end"))
        Problem(num_states=2, num_actions=1, discount=0.9, names)
    """

    mdp: MDP
    layout: Layout | None = None
    names: tuple[str, ...] | None = None
    policy: Float[np.ndarray, "S A"] | None = None
    actions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_kind("mdp", self.mdp, MDP, "an MDP")
        num_states = self.mdp.num_states
        for name, size, kind in (("names", num_states, "states"), ("actions", self.mdp.num_actions, "actions")):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_names(name, getattr(self, name), size, kind))
        if self.layout is not None:
            check_kind("layout", self.layout, Layout, "a Layout")
        if self.layout is not None and self.layout.cells.max() >= num_states:
            raise ValueError(f"layout holds state {self.layout.cells.max()}, but the MDP has {num_states} states")
        if self.policy is not None:
            object.__setattr__(self, "policy", checked_policy(self.policy, self.mdp.shape))

    @property
    def num_states(self) -> int:
        """Number of states of the MDP."""
        return self.mdp.num_states

    @property
    def num_actions(self) -> int:
        """Number of actions of the MDP."""
        return self.mdp.num_actions

    @property
    def discount(self) -> float:
        """Discount factor of the MDP."""
        return self.mdp.discount

    def __repr__(self) -> str:
        parts = [f"num_states={self.num_states}", f"num_actions={self.num_actions}", f"discount={self.discount:g}"]
        if self.layout is not None:
            parts.append("map {}x{}".format(*self.layout.cells.shape))
        parts += [name for name in ("names", "policy") if getattr(self, name) is not None]
        return f"Problem({', '.join(parts)})"


def _checked_names(name: str, given: Any, size: int, kind: str) -> tuple[str, ...]:
    """Strings that files and terminals can show, one for each state or action."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"{name} must be a sequence of strings, got {type(given).__name__}")
    if len(given) != size:
        raise ValueError(f"{name} has {len(given)} entries, but the MDP has {size} {kind}")
    for number, one in enumerate(given):
        if not isinstance(one, str):
            raise ValueError(f"{name}[{number}] must be a string, got {one!r}")
        if len(one) > _LONGEST_NAME:
            raise ValueError(f"{name}[{number}] must have at most {_LONGEST_NAME} characters, got {len(one)}")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in one):  # control characters, lone surrogates
            raise ValueError(f"{name}[{number}] must be text without control characters, got {one!a}")
    return tuple(str(one) for one in given)


Model = MDP | Chain | Problem


def as_mdp(model: Any, name: str = "mdp") -> MDP:
    """Unwrap the MDP of a problem; the boundary of every function that takes an MDP.

    Args:
        model: A Problem or an MDP.
        name: The parameter that an error names.

    Returns:
        The MDP.

    Raises:
        ValueError: If the model is neither a Problem nor an MDP.
    """
    found = model.mdp if isinstance(model, Problem) else model
    if not isinstance(found, MDP):
        raise ValueError(f"{name} must be a Problem or an MDP, got {described(model)}")
    return found


def described(value: Any) -> str:
    """A type for an error message, with what to do about the types that people pass by mistake."""
    if isinstance(value, Chain):
        return "a Chain, which has one policy and no actions"
    if isinstance(value, str):
        return f"{value!r}: make({value!r}) makes a problem of a name or a file"
    return type(value).__name__
