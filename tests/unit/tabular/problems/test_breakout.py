"""The compiled game against one that is played ball by ball, with its rules written down again."""

import random

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import make
from mico.tabular.problems import breakout
from mico.tabular.problems.breakout import Breakout, Position

BOARDS = [(5, 3, 1), (4, 4, 1), (6, 3, 2)]


class Played:
    """One game: the ball at (row, column) with velocity (±1, ±1), the paddle's column, bricks as a set of cells."""

    def __init__(self, height, width, brick_rows):
        self.height, self.width = height, width
        self.wall = frozenset((row, column) for row in range(1, brick_rows + 1) for column in range(width))
        first = brick_rows + 1
        middle = width // 2
        self.starts = [((first, 0), (1, 1), middle, self.wall), ((first, width - 1), (1, -1), middle, self.wall)]

    def step(self, state, action):
        """What it pays, and the state after it, or None where the ball is lost."""
        (row, column), (fall, drift), paddle, bricks = state
        if action == 0 and paddle > 0:
            paddle -= 1
        if action == 2 and paddle < self.width - 1:
            paddle += 1
        ahead = column + drift
        if ahead in (-1, self.width):
            ahead, drift = column, -drift
        below = row + fall
        if below == -1:
            return 0, ((row, ahead), (1, drift), paddle, bricks)
        if (below, ahead) in bricks:
            return 1, ((row, ahead), (-fall, drift), paddle, bricks - {(below, ahead)})
        if below < self.height - 1:
            return 0, ((below, ahead), (fall, drift), paddle, bricks)
        bricks = bricks or self.wall
        if paddle == column:
            return 0, ((row, ahead), (-1, drift), paddle, bricks)
        if paddle == ahead:
            return 0, ((row, ahead), (-1, -drift), paddle, bricks)
        return 0, None


def listed(board):
    """The states of the compiled game, in the words of the one that is played, by their numbers."""
    at = Breakout(*board).positions()
    width = board[1]
    found = {}
    for number, (row, column, down, right, paddle, bits) in enumerate(zip(*(part.tolist() for part in at))):
        bricks = {(1 + bit // width, bit % width) for bit in range(width * board[2]) if bits >> bit & 1}
        found[(row, column), (2 * down - 1, 2 * right - 1), paddle, frozenset(bricks)] = number
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_states_are_those_that_play_can_reach(board):
    game = Played(*board)
    seen, ahead = set(game.starts), list(game.starts)
    while ahead:
        state = ahead.pop()
        for action in range(3):
            after = game.step(state, action)[1]
            if after is not None and after not in seen:
                seen.add(after)
                ahead.append(after)
    assert set(listed(board)) == seen


@pytest.mark.parametrize("board", BOARDS)
def test_probabilities_and_rewards_in_every_state(board):
    game, states, mdp = Played(*board), listed(board), Breakout(*board).mdp(0.9)
    kernels = [sp.csr_array(kernel).toarray() for kernel in mdp.kernels]
    for state, number in states.items():
        for action in range(3):
            reward, after = game.step(state, action)
            row = np.zeros(mdp.num_states)
            for following in game.starts if after is None else [after]:
                row[states[following]] = 0.5 if after is None else 1.0
            np.testing.assert_array_equal(kernels[action][number], row)
            assert mdp.reward[number, action] == reward


def test_random_play_stays_in_what_is_compiled():
    """Thousands of steps on the default board, which pay, clear all bricks, and lose balls."""
    game, states, mdp = Played(5, 4, 1), listed((5, 4, 1)), make("small-breakout").mdp
    dice, state, lost, cleared, paid = random.Random(0), None, 0, 0, 0
    for _ in range(20_000):
        state = state or dice.choice(game.starts)
        action = dice.randrange(3)
        reward, after = game.step(state, action)
        landed = after or dice.choice(game.starts)
        chance = mdp.kernels[action][[states[state]], [states[landed]]].item()
        assert chance == (0.5 if after is None else 1.0)
        assert mdp.reward[states[state], action] == reward
        paid, lost, cleared = paid + reward, lost + (after is None), cleared + (not landed[3])
        state = landed
    assert min(paid, lost, cleared) > 10


def test_rewards_are_of_the_state_alone():
    reward = make("small-breakout", width=5).mdp.reward
    assert set(np.unique(reward)) == {0.0, 1.0}
    np.testing.assert_array_equal(reward, np.repeat(reward[:, :1], 3, axis=1))


def test_screens_show_paddle_bricks_and_the_ball_by_its_direction():
    board = (6, 3, 2)
    screens, states = Breakout(*board).screens(), listed(board)
    planes = {(-1, -1): 2, (-1, 1): 3, (1, -1): 4, (1, 1): 5}
    for ((row, column), velocity, paddle, bricks), number in states.items():
        drawn = np.zeros((6, 3, 6), dtype=bool)
        drawn[5, paddle, 0] = True
        for cell in bricks:
            drawn[(*cell, 1)] = True
        drawn[row, column, planes[velocity]] = True
        np.testing.assert_array_equal(screens[number], drawn)
    assert len(np.unique(screens.reshape(len(screens), -1), axis=0)) == len(states)


def test_a_ball_meets_a_brick_the_paddle_and_the_floor():
    """By hand, on 5 × 4 with all bricks but the first: ball at row 2, column 1, on its way up and to the left."""
    game = Breakout(5, 4, 1)

    def at(*numbers):
        return Position(*(np.array([number]) for number in numbers))

    free = game.move(at(2, 1, 0, 0, 2, 0b1110), 1)
    assert [part.item() for part in free.position] == [1, 0, 0, 0, 2, 0b1110]
    hit = game.move(at(2, 1, 0, 1, 2, 0b1110), 1)
    assert [part.item() for part in hit.position] == [2, 2, 1, 1, 2, 0b1010]
    assert (free.reward.item(), hit.reward.item()) == (0.0, 1.0)
    saved, lost = (game.move(at(3, 1, 1, 1, 2, 0), action) for action in (1, 2))
    assert [part.item() for part in saved.position] == [3, 2, 0, 0, 2, 0b1111]
    assert (saved.lost.item(), lost.lost.item()) == (False, True)


def test_states_of_a_large_board_are_not_all_counted(monkeypatch):
    monkeypatch.setattr(breakout, "_MOST_COUNTED", 100)
    assert 100 < breakout.fewest_states(5, 3, 1) < len(listed((5, 3, 1)))


@pytest.mark.parametrize(
    ("board", "message"),
    [
        ((3, 3, 1), "height must be at least 4, but is 3"),
        ((5, 1, 1), "width must be at least 2, but is 1"),
        ((5, 3, 0), "brick_rows must be at least 1, but is 0"),
        ((9, 11, 2), "at most 20 bricks, but is 2 × 11"),
        ((101, 3, 1), "height must be at most 100, but is 101"),
    ],
)
def test_refuses_boards(board, message):
    with pytest.raises(ValueError, match=message):
        Breakout(*board)
