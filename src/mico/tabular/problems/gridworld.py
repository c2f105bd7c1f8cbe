"""Grid worlds from ASCII maps: four moves; a move into a wall or off the map leaves the state as it is.

Maps: `#` is a wall; a space, `.` and `S` (a start, which an MDP has no use for) are free; `G` is a goal. States are the
free cells, row by row; actions are up, down, left and right.
"""

from collections.abc import Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from mico.tabular._validation import check_kind, check_whole
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Layout, Problem

Dynamics = Literal["absorbing", "continuing"]

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
_ARROWS = ("↑", "↓", "←", "→")
_MARKS = "# .SG"

_FOUR_ROOMS = """\
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ####     #
#     ###G###
#     #     #
#     #     #
#           #
#     #     #
#############"""

_MIRRORED_ROOMS = """\
#######
#    G#
#     #
#     #
### ###
#    G#
#     #
#     #
#######"""

_DAYAN = """\
#############
#           #
#     ####  #
#     #     #
#     #G    #
#     #     #
#     ####  #
#           #
#############"""


def from_map(
    text: str | Sequence[str],
    *,
    discount: float,
    goal: int | None = None,
    dynamics: Dynamics = "absorbing",
    slip: float = 0.0,
) -> Problem:
    """Make the grid world of a map; its actions are up, down, left and right.

    Args:
        text: The map as one text or as its lines: `#` is a wall, a space a free cell, `G` a goal.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        goal: A state that replaces the goals of the map, counting free cells row by row from 0.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end (Castro,
            2020).
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.

    Returns:
        The problem, with its map.

    Raises:
        ValueError: If the map has no goal, or holds other letters.

    Examples:
        >>> from_map(["#####", "#  G#", "#####"], discount=0.9)
        Problem(num_states=3, num_actions=4, discount=0.9, map 3x5)
    """
    marks = _marks(text)
    cells = _numbered(marks != "#")
    goals = cells[marks == "G"].tolist()
    if not goals and goal is None:
        raise ValueError("the map has no goal: mark one with G, or give goal")
    return _grid(cells, goals if goal is None else [goal], discount=discount, dynamics=dynamics, slip=slip)


def open_grid(
    *,
    height: int = 10,
    width: int = 10,
    goal: int | None = None,
    discount: float = 0.9,
    dynamics: Dynamics = "absorbing",
    slip: float = 0.0,
) -> Problem:
    """A grid without walls; the goal is the lower right corner unless given as a state.

    Args:
        height: Number of rows of the grid.
        width: Number of columns of the grid.
        goal: Number of the goal state, counting free cells row by row from 0. Default: the lower right corner.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end.
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.
    """
    for name, size in (("height", height), ("width", width)):
        check_whole(name, size, 1)
    cells = _numbered(np.ones((height, width), dtype=bool))
    corner = height * width - 1
    return _grid(cells, [corner if goal is None else goal], discount=discount, dynamics=dynamics, slip=slip)


def four_rooms(
    *, goal: int | None = None, discount: float = 0.9, dynamics: Dynamics = "absorbing", slip: float = 0.0
) -> Problem:
    """Four rooms of Sutton, Precup and Singh (1999), 104 states; the goal is the right-hand hallway unless given.

    Args:
        goal: Number of the goal state, counting free cells row by row from 0. Default: the right-hand hallway.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end.
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.
    """
    return from_map(_FOUR_ROOMS, discount=discount, goal=goal, dynamics=dynamics, slip=slip)


def mirrored_rooms(
    *, goal: int | None = None, discount: float = 0.9, dynamics: Dynamics = "absorbing", slip: float = 0.0
) -> Problem:
    """Mirrored rooms of Castro (2020), 31 states: two 3×5 rooms and a door, a goal in each room's upper right corner.

    The walls and goals are the published ones; there the dynamics are the `"continuing"` ones.

    Args:
        goal: Number of the goal state, counting free cells row by row from 0. Default: the two upper right corners.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end.
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.
    """
    return from_map(_MIRRORED_ROOMS, discount=discount, goal=goal, dynamics=dynamics, slip=slip)


def dayan(
    *, goal: int | None = None, discount: float = 0.9, dynamics: Dynamics = "absorbing", slip: float = 0.0
) -> Problem:
    """The grid task of Dayan (1993), 66 states: a 7×11 room with a barrier that is open to the right.

    The goal, in the middle of the pocket, is ours.

    Args:
        goal: Number of the goal state, counting free cells row by row from 0. Default: the middle of the pocket.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end.
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.
    """
    return from_map(_DAYAN, discount=discount, goal=goal, dynamics=dynamics, slip=slip)


def map_file(
    *,
    path: Path,
    goal: int | None = None,
    discount: float = 0.9,
    dynamics: Dynamics = "absorbing",
    slip: float = 0.0,
) -> Problem:
    """A grid world from a text file: # walls, spaces or dots for free cells, G goals.

    Args:
        path: Text file with the map: `#` for walls, spaces or dots for free cells, `G` for goals.
        goal: Number of the goal state, counting free cells row by row from 0. Default: the cells marked G.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        dynamics: `absorbing`: reward 1 for entering a goal, which then holds the agent without reward.
            `continuing`: reward 1 for entering a goal, -1 for bumping into a wall, and episodes never end.
        slip: Probability, below 1, that the chosen move is replaced by one in a uniformly random direction.
    """
    check_kind("path", path, PathLike | str, "a path")
    try:
        text = Path(path).read_text(encoding="utf-8")  # a string will do as well
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    try:
        return from_map(text, discount=discount, goal=goal, dynamics=dynamics, slip=slip)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _marks(text: str | Sequence[str]) -> np.ndarray:
    """The characters of a map as an array [H, W], less the empty lines before and after it."""
    given = text.splitlines() if isinstance(text, str) else text
    if not isinstance(given, Sequence) or not all(isinstance(line, str) for line in given):
        raise ValueError(f"text must be a map's text or its lines, not {text!r}")
    lines = list(enumerate(given, start=1))
    while lines and not lines[-1][1]:
        lines.pop()
    while lines and not lines[0][1]:
        lines.pop(0)
    for number, line in lines:
        strange = [column for column, mark in enumerate(line, start=1) if mark not in _MARKS]
        if strange:
            mark = line[strange[0] - 1]
            raise ValueError(f"line {number}, column {strange[0]} of the map: {mark!r} is none of {_MARKS!r}")
        if len(line) != len(lines[0][1]):
            first, width = lines[0][0], len(lines[0][1])
            raise ValueError(f"line {number} of the map ends at column {len(line)}, but line {first} at {width}")
    marks = np.array([list(line) for _, line in lines])
    if not (marks != "#").any():
        raise ValueError("the map has no free cell")
    return marks


def _numbered(free: np.ndarray) -> Int[np.ndarray, "H W"]:
    cells = np.full(free.shape, -1)
    cells[free] = np.arange(free.sum())
    return cells


def _grid(cells: Int[np.ndarray, "H W"], goals: list[int], *, discount: float, dynamics: str, slip: float) -> Problem:
    if dynamics not in ("absorbing", "continuing"):
        raise ValueError(f"dynamics must be 'absorbing' or 'continuing', not {dynamics!r}")
    if not 0.0 <= slip < 1.0:
        raise ValueError(f"slip must lie in [0, 1), but is {slip}")
    num_states = int(cells.max()) + 1
    is_goal = np.zeros(num_states, dtype=bool)
    for goal in goals:
        if not isinstance(goal, Integral) or not 0 <= goal < num_states:
            raise ValueError(f"goal must be a state in 0..{num_states - 1}, but is {goal}")
        is_goal[goal] = True
    padded = np.pad(cells, 1, constant_values=-1)
    rows, columns = np.nonzero(padded >= 0)
    beside = np.stack([padded[rows + down, columns + right] for down, right in _MOVES], axis=1)
    here = np.arange(num_states)[:, None]
    bump = beside < 0
    if dynamics == "absorbing":
        following = np.where(bump | is_goal[:, None], here, beside)
        reward = (is_goal[following] & ~is_goal[:, None]).astype(float)
    else:
        following = np.where(bump, here, beside)
        reward = np.where(bump, -1.0, is_goal[following])
    return Problem(_moving(following, reward, discount, slip), Layout(cells, tuple(goals)), actions=_ARROWS)


def _moving(following: np.ndarray, reward: np.ndarray, discount: float, slip: float) -> MDP:
    """The MDP of moves [S, A] that succeed with probability 1 − slip and are drawn uniformly otherwise."""
    num_states, num_moves = following.shape
    if slip == 0:
        ones, starts = np.ones(num_states), np.arange(num_states + 1)
        kernels = [sp.csr_array((ones, column, starts), shape=(num_states, num_states)) for column in following.T]
        return MDP(kernels, reward, discount)
    chance = slip / num_moves + (1 - slip) * np.eye(num_moves)
    state, action, move = (axis.ravel() for axis in np.indices((num_states, num_moves, num_moves)))
    outcomes = Outcomes(state, action, following[state, move], chance[action, move], reward[state, move])
    return MDP.from_outcomes(outcomes, num_states, num_moves, discount)
