"""MinAtar's Breakout in a few numbers, so that a step of many games is one small program on a GPU.

Three rows of bricks, a ball that flies diagonally and bounces, a paddle on the lowest row; a brick pays 1, a ball that
gets past the paddle ends the game, and new bricks come when the ball is down and none is left.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

_WALL = 2**30 - 1  # all bricks: bit 10·(row − 1) + column, rows 1 to 3


class Game(NamedTuple):
    """Where the ball is, was and flies to, the paddle, the bricks as bits, and whether a brick was just struck."""

    x: Int[Array, ""]
    y: Int[Array, ""]
    last_x: Int[Array, ""]
    last_y: Int[Array, ""]
    dx: Int[Array, ""]
    dy: Int[Array, ""]
    paddle: Int[Array, ""]
    bricks: Int[Array, ""]
    struck: Bool[Array, ""]
    time: Int[Array, ""]


def reset(key: Key[Array, ""]) -> Game:
    """The ball starts below the bricks at the left or the right wall, and flies down, away from it."""
    right = jax.random.bernoulli(key)
    side = jnp.where(right, 9, 0).astype(jnp.int32)
    number = lambda value: jnp.full((), value, jnp.int32)  # noqa: E731
    away = jnp.where(right, -1, 1).astype(jnp.int32)
    start = (side, number(3), side, number(3), away, number(1), number(4), number(_WALL))
    return Game(*start, struck=jnp.zeros((), bool), time=number(0))


def step(
    game: Game, right: Int[Array, ""], down: Int[Array, ""], fire: Bool[Array, ""], key: Key[Array, ""]
) -> tuple[Game, Float[Array, ""], Bool[Array, ""]]:
    """The paddle moves by −1, 0 or 1, then the ball; what it paid, and whether the ball is lost."""
    del down, fire, key
    paddle = jnp.clip(game.paddle + right, 0, 9)
    beyond = game.x + game.dx
    x, y = jnp.clip(beyond, 0, 9), game.y + game.dy
    dx, dy = jnp.where(x == beyond, game.dx, -game.dx), game.dy
    roof = y < 0
    bit = jnp.where((y >= 1) & (y <= 3), 1 << jnp.clip(10 * (y - 1) + x, 0, 29), 0)
    brick = (game.bricks & bit) != 0
    broken = brick & ~game.struck
    floor = ~brick & (y == 9)
    bricks = jnp.where(broken, game.bricks & ~bit, jnp.where(floor & (game.bricks == 0), _WALL, game.bricks))
    straight = floor & (game.x == paddle)
    corner = floor & ~straight & (x == paddle)
    back = broken | straight | corner
    after = Game(
        x,
        jnp.where(roof, 0, jnp.where(back, game.y, y)),
        game.x,
        game.y,
        jnp.where(corner, -dx, dx),
        jnp.where(roof | back, -dy, dy),
        paddle,
        bricks,
        brick,
        game.time + 1,
    )
    return after, broken.astype(jnp.float32), floor & ~straight & ~corner


def frame(game: Game) -> Bool[Array, "10 10 4"]:
    """Planes of the paddle, the ball, where the ball was, and the bricks."""
    row, column = jnp.arange(10, dtype=jnp.int32)[:, None], jnp.arange(10, dtype=jnp.int32)
    bit = 1 << jnp.clip(10 * (row - 1) + column, 0, 29)
    wall = (row >= 1) & (row <= 3) & ((game.bricks & bit) != 0)
    paddle = (row == 9) & (column == game.paddle)
    ball, trail = ((row == y) & (column == x) for x, y in ((game.x, game.y), (game.last_x, game.last_y)))
    return jnp.stack([paddle, ball, trail, wall], axis=-1)
