"""MinAtar's Freeway in a few vectors, so that a step of many games is one small program on a GPU.

Eight cars, each in a row of its own, drive round and round; a player who gets from the lowest row to the highest is
paid 1 and starts anew, as does one whom a car hits. A car at speed ±n moves every n + 1 steps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

_START, _COLUMN = 9, 4  # the player's first row, and its only column
_REST = 3  # steps from one of its moves to the next


class Game(NamedTuple):
    """The player's row, and of the car in each row from 1 to 8: column, row, steps until it moves, speed (− leftward).

    `move_timer` counts down to where the player may move again.
    """

    pos: Int[Array, ""]
    cars: Int[Array, "8 4"]
    move_timer: Int[Array, ""]
    time: Int[Array, ""]


def reset(key: Key[Array, ""]) -> Game:
    """All cars start at the left wall."""
    number = lambda value: jnp.full((), value, jnp.int32)  # noqa: E731
    return Game(number(_START), _driven(key, jnp.zeros(8, jnp.int32)), number(_REST), number(0))


def step(
    game: Game, right: Int[Array, ""], down: Int[Array, ""], fire: Bool[Array, ""], key: Key[Array, ""]
) -> tuple[Game, Float[Array, ""], Bool[Array, ""]]:
    """The player moves by −1, 0 or 1 if rested, then the cars, at new speeds if it got home; what that paid; no end."""
    del right, fire
    moves = (down != 0) & (game.move_timer == 0)
    pos = jnp.where(moves, jnp.clip(game.pos + down, 0, 9), game.pos)
    rest = jnp.where(moves, _REST, game.move_timer)
    home = pos == 0
    pos = jnp.where(home, _START, pos)
    column, row, wait, speed = jnp.where(home, _driven(key, game.cars[:, 0]), game.cars).T
    due = wait == 0
    after = jnp.where(due, _beside(column, speed), column)
    hit = ((column == _COLUMN) | (after == _COLUMN)) & (row == pos)
    cars = jnp.stack([after, row, jnp.where(due, jnp.abs(speed), wait - 1), speed], axis=1)
    # No car is in the row where a player who was hit goes, so that cars need not take turns.
    pos = jnp.where(hit.any(), _START, pos)
    later = Game(pos, cars, jnp.maximum(rest - 1, 0), game.time + 1)
    return later, home.astype(jnp.float32), jnp.zeros((), bool)


def frame(game: Game) -> Bool[Array, "10 10 7"]:
    """Planes of the player, the cars, and, for each of five speeds, what is behind a car."""
    # In each row at most one column of a plane is set, or none: −1.
    there, speed = game.cars[:, 0], game.cars[:, 3]
    trails = jnp.where(jnp.abs(speed)[:, None] == jnp.arange(1, 6), _beside(there, -speed)[:, None], -1)
    cars = jnp.pad(jnp.concatenate([there[:, None], trails], axis=1), ((1, 1), (0, 0)), constant_values=-1)
    player = jnp.where(jnp.arange(10) == game.pos, _COLUMN, -1)
    columns = jnp.concatenate([player[:, None], cars], axis=1)
    return jnp.arange(10)[:, None] == columns[:, None]


def _beside(column: Int[Array, "8"], speed: Int[Array, "8"]) -> Int[Array, "8"]:
    """The next column in the direction of a speed; beyond a wall, at the other."""
    return (column + jnp.where(speed > 0, 1, 9)) % 10


def _driven(key: Key[Array, ""], column: Int[Array, "8"]) -> Int[Array, "8 4"]:
    """Cars in these columns at random speeds."""
    pace_key, side_key = jax.random.split(key)
    pace = jax.random.randint(pace_key, (8,), 1, 6, jnp.int32)
    side = 2 * jax.random.randint(side_key, (8,), 0, 2, jnp.int32) - 1
    return jnp.stack([column, jnp.arange(1, 9, dtype=jnp.int32), pace, side * pace], axis=1)
