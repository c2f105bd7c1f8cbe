"""MinAtar's Seaquest in a few numbers, so that a step of many games is one small program on a GPU.

A submarine with little oxygen shoots fish and enemy submarines, which pay 1 each, and takes divers aboard. It may
surface for air if it has one, who then leaves; six leave at once, and pay for what oxygen is left. An enemy, its bullet
or want of oxygen ends the game. From one time at the surface to the next enemies come and move more often.

Enemies have 32 places, older ones first, which are written in bits.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from mico.deep.envs.minatar import bitplanes as bits
from mico.deep.envs.minatar.bitplanes import Bits, Digits

_SPAWN, _MOVE, _DIVER, _DIVER_MOVE = 20, 5, 30, 5  # steps between two, those of enemies at the start
_SHOT, _RELOAD = 5, 10  # steps from one shot of the player, of an enemy, to the next
_OXYGEN, _ABOARD = 200, 6
_GONE = -3  # a column that nothing reaches, nor any that ends in the same four digits
_LAST = np.uint32(2**31)

Thing = TypeVar("Thing", "Bullet", "Diver")


class Bullet(NamedTuple):
    """One of the player's: column, row, and whether it flies to the right."""

    x: Int[Array, ""]
    y: Int[Array, ""]
    right: Bool[Array, ""]


class Diver(NamedTuple):
    """Column, row, whether it swims to the right, and the steps until it moves."""

    x: Int[Array, ""]
    y: Int[Array, ""]
    right: Bool[Array, ""]
    wait: Int[Array, ""]


class Enemies(NamedTuple):
    """The places that are filled, with what goes to the right, with submarines; columns, rows, steps until they move.

    Of submarines also the steps until they shoot, whether a bullet is in flight, even of one that is gone, and its
    column. A bullet has left when the next comes, after eleven steps. At the quickest an enemy enters each step and has
    left after 29, its bullets before it, so that its place is not needed by then.
    """

    there: Bits
    right: Bits
    sub: Bits
    x: Digits
    y: Digits
    wait: Digits
    reload: Digits
    shot: Bits
    bullet: Digits


class Game(NamedTuple):
    """The player's place, whether it looks to the right, its oxygen and divers, and what else is in the water.

    There are two bullets at most, since one has left nine steps after its shot, and two divers, of whom one comes every
    30 steps and has left after 59; older first. Timers count down to the next enemy, diver and shot; `ramp_index` is
    the number of times that it got harder.
    """

    oxygen: Int[Array, ""]
    sub_x: Int[Array, ""]
    sub_y: Int[Array, ""]
    sub_or: Bool[Array, ""]
    diver_count: Int[Array, ""]
    f_bullets: tuple[Bullet, Bullet]
    divers: tuple[Diver, Diver]
    enemies: Enemies
    e_spawn_speed: Int[Array, ""]
    e_spawn_timer: Int[Array, ""]
    d_spawn_timer: Int[Array, ""]
    move_speed: Int[Array, ""]
    ramp_index: Int[Array, ""]
    shot_timer: Int[Array, ""]
    time: Int[Array, ""]


def reset(key: Key[Array, ""]) -> Game:
    """The player starts at the surface, alone."""
    del key
    number = lambda value: jnp.full((), value, jnp.int32)  # noqa: E731
    none, no = jnp.zeros((), jnp.uint32), jnp.zeros((), bool)
    bullet, diver = Bullet(number(_GONE), number(0), no), Diver(number(_GONE), number(0), no, number(0))
    enemies = Enemies(none, none, none, (none,) * 4, (none,) * 4, (none,) * 3, (none,) * 4, none, (none,) * 4)
    timers = map(number, (_SPAWN, _SPAWN, _DIVER, _MOVE, 0, 0, 0))
    return Game(
        number(_OXYGEN), number(5), number(0), no, number(0), (bullet, bullet), (diver, diver), enemies, *timers
    )


def step(
    game: Game, right: Int[Array, ""], down: Int[Array, ""], fire: Bool[Array, ""], key: Key[Array, ""]
) -> tuple[Game, Float[Array, ""], Bool[Array, ""]]:
    """What is due enters, the player moves by −1, 0 or 1 or fires, then the others; what it paid, and if it is over."""
    enemies, divers = _spawned(key, game)
    x, y = jnp.clip(game.sub_x + right, 0, 9), jnp.clip(game.sub_y + down, 0, 8)
    looks = jnp.where(right == 0, game.sub_or, right > 0)
    fires = fire & (game.shot_timer == 0)
    flying = _entered(game.f_bullets, Bullet(x, y, looks), fires)
    divers, aboard = _rescued(divers, game.diver_count, x, y)
    enemies, bullets, shot, hit = _met(enemies, flying, game.move_speed, x, y)
    surfaces, full = (y == 0) & (game.sub_y > 0), aboard == _ABOARD
    harder = surfaces & ((game.e_spawn_speed > 1) | (game.move_speed > 2))
    later = Game(
        jnp.where(surfaces, _OXYGEN, game.oxygen - (y > 0)),
        x,
        y,
        looks,
        jnp.where(surfaces, jnp.where(full, 0, aboard) - 1, aboard),
        bullets,
        divers,
        enemies,
        game.e_spawn_speed - (harder & (game.e_spawn_speed > 1)),
        _counted(jnp.where(game.e_spawn_timer == 0, game.e_spawn_speed, game.e_spawn_timer)),
        _counted(jnp.where(game.d_spawn_timer == 0, _DIVER, game.d_spawn_timer)),
        game.move_speed - (harder & (game.move_speed > 2) & (game.ramp_index % 2 == 1)),
        game.ramp_index + harder,
        _counted(jnp.where(fires, _SHOT, game.shot_timer)),
        game.time + 1,
    )
    reward = shot + jnp.where(surfaces & full, game.oxygen * 10 // _OXYGEN, 0)
    return later, reward.astype(jnp.float32), hit | (game.oxygen <= 0) | (surfaces & (aboard == 0))


def frame(game: Game) -> Bool[Array, "10 10 10"]:
    """Planes of the player, what is behind it, its bullets, what is behind others, enemy bullets, fish, submarines,
    oxygen, divers aboard, and divers."""
    row, column = jnp.arange(10, dtype=jnp.int32)[:, None], jnp.arange(10, dtype=jnp.int32)
    at = lambda x, y: (row == y) & (column == x)  # noqa: E731
    behind = lambda x, right: x - jnp.where(right, 1, -1)  # noqa: E731
    enemies = game.enemies
    level = bits.where(enemies.y, row)
    ahead = (enemies.right & bits.where(enemies.x, column + 1)) | (~enemies.right & bits.where(enemies.x, column - 1))
    enemy = enemies.there & level & bits.where(enemies.x, column)
    bullet, other_bullet = (at(bullet.x, bullet.y) for bullet in game.f_bullets)
    diver, other_diver = (at(diver.x, diver.y) for diver in game.divers)
    trail, other_trail = (at(behind(diver.x, diver.right), diver.y) for diver in game.divers)
    planes = [
        at(game.sub_x, game.sub_y),
        at(behind(game.sub_x, game.sub_or), game.sub_y),
        bullet | other_bullet,
        ((enemies.there & level & ahead) != 0) | trail | other_trail,
        (enemies.shot & level & bits.where(enemies.bullet, column)) != 0,
        (enemy & ~enemies.sub) != 0,
        (enemy & enemies.sub) != 0,
        (row == 9) & (column < jnp.maximum(game.oxygen, 0) * 10 // _OXYGEN),
        (row == 9) & (column < 9) & (column >= 9 - game.diver_count),
        diver | other_diver,
    ]
    return jnp.stack(planes, axis=-1)


def _spawned(key: Key[Array, ""], game: Game) -> tuple[Enemies, tuple[Diver, Diver]]:
    """Where it is time, an enemy, one time in three a submarine, and a diver enter a random row from a random side.

    No enemy enters a row where one goes the other way.
    """
    of_enemy, of_diver = _parts(key)
    of_side, of_row = _parts(of_enemy)
    chance, row = jax.random.uniform(of_side, (2,), jnp.float32), _row(of_row)
    right, sub = chance[0] < 1 / 2, chance[1] < 1 / 3
    old = game.enemies
    opposed = old.there & bits.where(old.y, row) & (old.right ^ bits.spread(right))
    enters = (game.e_spawn_timer == 0) & (opposed == 0)
    column, wait = bits.digits(jnp.where(right, 0, 9), 4), bits.digits(game.move_speed, 3)
    enemy = Enemies(
        there=bits.ALL,
        right=bits.spread(right),
        sub=bits.spread(sub),
        x=column,
        y=bits.digits(row, 4),
        wait=wait,
        reload=bits.digits(_RELOAD, 4),
        shot=bits.NONE,
        bullet=(bits.NONE,) * 4,
    )
    enemies = jax.tree.map(lambda old, new: jnp.where(enters, (old >> 1) | (new & _LAST), old), old, enemy)
    of_side, of_row = _parts(of_diver)
    right = jax.random.uniform(of_side, (), jnp.float32) < 1 / 2
    diver = Diver(jnp.where(right, 0, 9), _row(of_row), right, jnp.int32(_DIVER_MOVE))
    return enemies, _entered(game.divers, diver, game.d_spawn_timer == 0)


def _parts(key: Key[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """Those of `split`, whose array of keys costs a GPU one more kernel a time."""
    return jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)


def _row(key: Key[Array, ""]) -> Int[Array, ""]:
    """That of `randint` from 1 to 8, of which eight leaves only the last three digits of one of two draws."""
    return 1 + (jax.random.bits(_parts(key)[1], (), jnp.uint32) & 7).astype(jnp.int32)


def _entered(things: tuple[Thing, Thing], new: Thing, enters: Bool[Array, ""]) -> tuple[Thing, Thing]:
    """With a new one as the younger; the older, which is gone by then, makes room."""
    older, younger = things
    choose = lambda new, old: jnp.where(enters, new, old)  # noqa: E731
    return jax.tree.map(choose, younger, older), jax.tree.map(choose, new, younger)


def _rescued(
    divers: tuple[Diver, Diver], aboard: Int[Array, ""], x: Int[Array, ""], y: Int[Array, ""]
) -> tuple[tuple[Diver, Diver], Int[Array, ""]]:
    """Divers who meet the player, before their move or after it, come aboard while there is room, older first."""

    def met(divers: Sequence[Diver], aboard: Int[Array, ""]) -> tuple[tuple[Diver, Diver], Int[Array, ""]]:
        left = []
        for diver in divers:
            enters = (diver.x == x) & (diver.y == y) & (aboard < _ABOARD)
            left.append(diver._replace(x=jnp.where(enters, _GONE, diver.x)))
            aboard = aboard + enters
        return (left[0], left[1]), aboard

    divers, aboard = met(divers, aboard)
    due = [diver.wait == 0 for diver in divers]
    moved = [
        diver._replace(
            x=jnp.where(now, _beside(diver.x, diver.right), diver.x),
            wait=jnp.where(now, _DIVER_MOVE, _counted(diver.wait)),
        )
        for diver, now in zip(divers, due, strict=True)
    ]
    return met(moved, aboard)


def _met(
    enemies: Enemies, bullets: tuple[Bullet, Bullet], speed: Int[Array, ""], x: Int[Array, ""], y: Int[Array, ""]
) -> tuple[Enemies, tuple[Bullet, Bullet], Int[Array, ""], Bool[Array, ""]]:
    """Bullets fly and strike enemies before these move and after it, the rest shoot; how many, and if one hits."""
    flown = [bullet._replace(x=_beside(bullet.x, bullet.right)) for bullet in bullets]
    spared, first, shot = _struck(flown, enemies.there, enemies.x, enemies.y, ~enemies.sub)
    due = bits.where(enemies.wait, 0)
    column = bits.stepped(enemies.x, due, enemies.right)
    after = first & _inside(column)
    spared, last, shot_after = _struck(spared, after, column, enemies.y, enemies.sub)
    empty = bits.where(enemies.reload, 0)
    shoots = last & enemies.sub & empty
    shot_from = bits.mixed(shoots, column, enemies.bullet)
    theirs = enemies.shot | shoots
    bullet = bits.stepped(shot_from, bits.ALL, enemies.right)
    left = theirs & _inside(bullet)
    met = (first & bits.where(enemies.x, x)) | (after & bits.where(column, x))
    met |= (theirs & bits.where(shot_from, x)) | (left & bits.where(bullet, x))
    wait = bits.mixed(due, bits.digits(speed, 3), bits.stepped(enemies.wait, ~due, bits.NONE))
    reload = bits.mixed(shoots, bits.digits(_RELOAD, 4), bits.stepped(enemies.reload, ~empty, bits.NONE))
    later = Enemies(last, enemies.right, enemies.sub, column, enemies.y, wait, reload, left, bullet)
    return later, spared, shot + shot_after, (met & bits.where(enemies.y, y)) != 0


def _struck(
    bullets: Sequence[Bullet], there: Bits, x: Digits, y: Digits, first: Bits
) -> tuple[tuple[Bullet, Bullet], Bits, Int[Array, ""]]:
    """Bullets and enemies without those that meet, and how many: in one place the oldest enemy, or of those `first`.

    Two bullets are never in one place: they fly apart, or one after the other, as the player does not overtake any.
    """
    left, struck = [], jnp.zeros((), jnp.int32)
    for bullet in bullets:
        met = there & bits.where(x, bullet.x) & bits.where(y, bullet.y)
        met = jnp.where((met & first) != 0, met & first, met)
        there = there & ~(met & -met)
        left.append(bullet._replace(x=jnp.where(met != 0, _GONE, bullet.x)))
        struck = struck + (met != 0)
    return (left[0], left[1]), there, struck


def _counted(timer: Int[Array, ""]) -> Int[Array, ""]:
    return jnp.maximum(timer - 1, 0)


def _beside(x: Int[Array, ""], right: Bool[Array, ""]) -> Int[Array, ""]:
    """The next column, or none beyond a wall."""
    after = x + jnp.where(right, 1, -1)
    return jnp.where((after >= 0) & (after <= 9), after, _GONE)


def _inside(column: Digits) -> Bits:
    """The places that a step has not taken beyond a wall."""
    return ~(bits.where(column, 10) | bits.where(column, -1))
