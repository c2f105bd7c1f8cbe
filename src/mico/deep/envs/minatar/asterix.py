"""MinAtar's Asterix in a few vectors, so that a step of many games is one small program on a GPU.

Enemies and treasures enter eight rows, at most one in each, and cross them; a treasure that meets the player pays 1, an
enemy ends the game. From ramp to ramp they come and move more often.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

_SPAWN, _MOVE, _RAMP = 10, 5, 100  # steps between two, at the start


class Game(NamedTuple):
    """The player, the steps between two entries and between two moves, and what is in each row from 1 to 8.

    That is its column, row, whether it goes to the right, whether it is a treasure, and whether it is there, or zeros.
    Timers count down to the next entry, move and ramp; `ramp_index` is the number of ramps so far.
    """

    player_x: Int[Array, ""]
    player_y: Int[Array, ""]
    spawn_speed: Int[Array, ""]
    spawn_timer: Int[Array, ""]
    move_speed: Int[Array, ""]
    move_timer: Int[Array, ""]
    ramp_timer: Int[Array, ""]
    ramp_index: Int[Array, ""]
    entities: Int[Array, "8 5"]
    time: Int[Array, ""]


def reset(key: Key[Array, ""]) -> Game:
    """The player starts in the middle, alone."""
    del key
    start = (5, 5, _SPAWN, _SPAWN, _MOVE, _MOVE, _RAMP, 0)
    number = lambda value: jnp.full((), value, jnp.int32)  # noqa: E731
    return Game(*map(number, start), entities=jnp.zeros((8, 5), jnp.int32), time=number(0))


def step(
    game: Game, right: Int[Array, ""], down: Int[Array, ""], fire: Bool[Array, ""], key: Key[Array, ""]
) -> tuple[Game, Float[Array, ""], Bool[Array, ""]]:
    """What is due enters, the player moves by −1, 0 or 1, then the others; what that paid, and whether it is caught."""
    del fire
    player_x, player_y = jnp.clip(game.player_x + right, 0, 9), jnp.clip(game.player_y + down, 1, 8)
    column, row, rightward, gold, there = _spawned(key, game).T
    filled, treasure, near = there != 0, gold != 0, row == player_y
    due = game.move_timer == 0
    after = jnp.where(due, column + jnp.where(rightward != 0, 1, -1), column)
    # A treasure is met once, before its move or after it; and since nothing moves the player here, all meet it at once.
    met = filled & near & ((column == player_x) | (after == player_x))
    stays = ~(met & treasure) & (~due | (filled & (after >= 0) & (after <= 9)))
    entities = jnp.where(stays[:, None], jnp.stack([after, row, rightward, gold, there], axis=1), 0)
    ramps = (game.spawn_speed > 1) | (game.move_speed > 1)
    harder = ramps & (game.ramp_timer < 0)
    faster = harder & (game.move_speed > 0) & (game.ramp_index % 2 != 0)
    later = Game(
        player_x,
        player_y,
        game.spawn_speed - (harder & (game.spawn_speed > 1)),
        jnp.where(game.spawn_timer == 0, game.spawn_speed, game.spawn_timer) - 1,
        game.move_speed - faster,
        jnp.where(due, game.move_speed, game.move_timer) - 1,
        jnp.where(ramps & ~harder, game.ramp_timer - 1, _RAMP),
        game.ramp_index + harder,
        entities,
        game.time + 1,
    )
    return later, (met & treasure).sum(dtype=jnp.float32), (met & ~treasure).any()


def frame(game: Game) -> Bool[Array, "10 10 4"]:
    """Planes of the player, the enemies, what is behind them or a treasure, and the treasures."""
    # In each row at most one column of a plane is set, or none: −1.
    column, _, rightward, gold, there = game.entities.T
    enemy, treasure = (there != 0) & (gold == 0), (there != 0) & (gold != 0)
    behind = column - jnp.where(rightward != 0, 1, -1)
    entities = [jnp.where(seen, at, -1) for seen, at in ((enemy, column), (there != 0, behind), (treasure, column))]
    player = jnp.where(jnp.arange(10) == game.player_y, game.player_x, -1)
    columns = jnp.stack([player, *(jnp.pad(of_row, 1, constant_values=-1) for of_row in entities)], axis=1)
    return jnp.arange(10)[:, None] == columns[:, None]


def _spawned(key: Key[Array, ""], game: Game) -> Int[Array, "8 5"]:
    """Where it is time, an enemy or, one time in three, a treasure enters a random free row from a random side."""
    chance = jax.random.uniform(key, (10,), jnp.float32)
    rightward, gold = chance[0] < 1 / 2, chance[1] < 1 / 3
    free = game.entities[:, 4] == 0
    row = jnp.argmax(jnp.where(free, chance[2:], -1.0))
    entity = jnp.stack([jnp.where(rightward, 0, 9), row + 1, rightward, gold, 1]).astype(jnp.int32)
    enters = (game.spawn_timer == 0) & free & (jnp.arange(8) == row)
    return jnp.where(enters[:, None], entity, game.entities)
