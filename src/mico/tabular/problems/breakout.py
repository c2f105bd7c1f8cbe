"""A small Breakout, MinAtar's in outline, whose every reachable state is a state of a sparse MDP.

A ball moves diagonally, a cell at a time. At a wall it turns back sideways, at the ceiling it turns down. A brick in
its way pays 1 and is gone; the ball turns and stays in its row. So does the floor where the paddle is, which moves
first: under the ball's old column it returns the ball to the side that it goes to, under its new one to where it came
from. Elsewhere the ball is lost, and the game begins anew: all bricks, the paddle in the middle, and the ball under the
bricks at the left or at the right wall, on its way down and inwards, each with probability ½. Where the last
brick has gone, they all come back when the ball reaches the floor. What a step pays depends on the state alone.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from mico.tabular._validation import check_whole
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Problem

_MOVES = (-1, 0, 1)  # of the paddle: left, stay, right
_MOST_BRICKS = 20
_MOST_ROWS = 100  # whose states take 18 seconds to list
_MOST_COUNTED = 10_000


class Position(NamedTuple):
    """Of each game: the ball's cell, where it goes (0 or 1: up or down, left or right), paddle, bricks as bits."""

    row: Int[np.ndarray, " N"]
    column: Int[np.ndarray, " N"]
    down: Int[np.ndarray, " N"]
    right: Int[np.ndarray, " N"]
    paddle: Int[np.ndarray, " N"]
    bricks: Int[np.ndarray, " N"]


class Moved(NamedTuple):
    """Where games go if the ball is not lost, what that pays, and which balls are lost."""

    position: Position
    reward: Float[np.ndarray, " N"]
    lost: Bool[np.ndarray, " N"]


@final
@dataclass(frozen=True)
class Breakout:
    """A board: row 0 is free, then come `brick_rows` of bricks, and the paddle moves in the last row."""

    height: int
    width: int
    brick_rows: int

    def __post_init__(self) -> None:
        check_whole("brick_rows", self.brick_rows, 1)
        check_whole("width", self.width, 2)
        check_whole("height", self.height, self.brick_rows + 3)
        if self.brick_rows * self.width > _MOST_BRICKS:
            bricks = f"{self.brick_rows} × {self.width}"
            raise ValueError(f"brick_rows × width must be at most {_MOST_BRICKS} bricks, but is {bricks}")
        if self.height > _MOST_ROWS:
            raise ValueError(f"height must be at most {_MOST_ROWS}, but is {self.height}")

    @property
    def _sizes(self) -> tuple[int, ...]:
        return self.height, self.width, 2, 2, self.width, 2 ** (self.brick_rows * self.width)

    def starts(self) -> Position:
        """The two ways in which a game begins."""
        both = np.array([0, self.width - 1]), np.array([1, 0])
        row, middle = np.full(2, self.brick_rows + 1), np.full(2, self.width // 2)
        return Position(row, both[0], np.ones(2, int), both[1], middle, np.full(2, self._sizes[-1] - 1))

    def move(self, position: Position, action: int) -> Moved:
        """One step of games that all take the same action: 0, 1 and 2 are left, stay and right."""
        paddle = np.clip(position.paddle + _MOVES[action], 0, self.width - 1)
        column, right = position.column + 2 * position.right - 1, position.right
        wall = (column < 0) | (column >= self.width)
        column, right = np.clip(column, 0, self.width - 1), np.where(wall, 1 - right, right)
        row, down = position.row + 2 * position.down - 1, position.down
        ceiling = row < 0
        inside = (row >= 1) & (row <= self.brick_rows)
        bit = np.where(inside, (row - 1) * self.width + column, 0)
        hit = inside & ((position.bricks >> bit) & 1 == 1)
        floor = row == self.height - 1
        under, ahead = floor & (paddle == position.column), floor & (paddle == column)
        bricks = np.where(hit, position.bricks & ~(1 << bit), position.bricks)
        bricks = np.where(floor & (bricks == 0), self._sizes[-1] - 1, bricks)
        turned = ceiling | hit | under | ahead
        right = np.where(ahead & ~under, 1 - right, right)
        moved = Position(
            np.where(turned, position.row, row), column, np.where(turned, 1 - down, down), right, paddle, bricks
        )
        return Moved(moved, hit.astype(float), floor & ~under & ~ahead)

    def reachable(self, most: float = np.inf) -> Int[np.ndarray, " S"]:
        """The codes of positions that can be reached, ascending: all of them, or some more than `most`."""
        known = frontier = np.unique(np.ravel_multi_index(self.starts(), self._sizes))
        while frontier.size and known.size <= most:
            after = [self._following(frontier, action)[0] for action in range(len(_MOVES))]
            frontier = np.setdiff1d(np.concatenate(after), known)
            known = np.union1d(known, frontier)
        return known

    @cached_property
    def _compiled(self) -> tuple[Int[np.ndarray, " S"], Outcomes]:
        """The codes of all positions that can be reached, ascending, and all that can happen in them."""
        starts, known = np.ravel_multi_index(self.starts(), self._sizes), self.reachable()
        parts = []
        for action in range(len(_MOVES)):
            following, reward, lost = self._following(known, action)
            here = np.arange(known.size)
            kept = Outcomes(here, np.full(known.size, action), following, np.ones(known.size), reward)
            parts.append(Outcomes(*(column[~lost] for column in kept)))
            for start in starts:
                again = kept._replace(next_state=np.full(known.size, start), probability=np.full(known.size, 0.5))
                parts.append(Outcomes(*(column[lost] for column in again)))
        listed = Outcomes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return known, listed._replace(next_state=np.searchsorted(known, listed.next_state)).sorted()

    def _following(
        self, codes: Int[np.ndarray, " N"], action: int
    ) -> tuple[Int[np.ndarray, " N"], Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
        """Codes of where positions lead, a start's where the ball is lost; what that pays; which are lost."""
        moved, reward, lost = self.move(Position(*np.unravel_index(codes, self._sizes)), action)
        start = np.ravel_multi_index(self.starts(), self._sizes)[0]
        kept = Position(*(np.where(lost, 0, part) for part in moved))
        return np.where(lost, start, np.ravel_multi_index(kept, self._sizes)), reward, lost

    def positions(self) -> Position:
        """What each state of the MDP is."""
        return Position(*np.unravel_index(self._compiled[0], self._sizes))

    def mdp(self, discount: float) -> MDP:
        codes, outcomes = self._compiled
        return MDP.from_outcomes(outcomes, codes.size, len(_MOVES), discount)

    def screens(self) -> Bool[np.ndarray, "S H W C"]:
        """What each state looks like: planes of the paddle, the bricks, and of the ball by each of its directions."""
        at = self.positions()
        here = np.arange(at.row.size)
        screens = np.zeros((here.size, self.height, self.width, 6), dtype=bool)
        screens[here, self.height - 1, at.paddle, 0] = True
        bits = (at.bricks[:, None] >> np.arange(self.brick_rows * self.width)) & 1
        screens[:, 1 : self.brick_rows + 1, :, 1] = bits.reshape(-1, self.brick_rows, self.width)
        screens[here, at.row, at.column, 2 + 2 * at.down + at.right] = True
        return screens


def fewest_states(height: int, width: int, brick_rows: int) -> int:
    """How many states a small Breakout has; of many, only as many as are soon counted."""
    return Breakout(height, width, brick_rows).reachable(_MOST_COUNTED).size


def small_breakout(*, height: int = 5, width: int = 4, brick_rows: int = 1, discount: float = 0.9) -> Problem:
    """A Breakout small enough to list its states; a lost ball begins a new game.

    Args:
        height: Number of rows of the board; at least brick_rows + 3.
        width: Number of columns of the board, at least 2.
        brick_rows: Rows of bricks below the free top row; brick_rows times width may be at most 20.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return Problem(Breakout(height, width, brick_rows).mdp(discount), actions=("←", "stay", "→"))
