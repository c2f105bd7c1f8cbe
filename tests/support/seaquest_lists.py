"""Seaquest's bits as the lists of the other implementations."""

import jax.numpy as jnp


def lists(game):
    """Of one game: names as in gymnax, rows of what is in each place, and the places that are filled."""
    enemies, bullets, divers = game.enemies, game.f_bullets, game.divers
    bits = lambda of: of >> jnp.arange(32, dtype=jnp.uint32) & 1  # noqa: E731
    number = lambda digits: sum(bits(digit) << place for place, digit in enumerate(digits))  # noqa: E731
    rows = lambda *fields: jnp.stack(fields, axis=1).astype(jnp.int32)  # noqa: E731
    place = number(enemies.x), number(enemies.y), bits(enemies.right), number(enemies.wait)
    there, sub = bits(enemies.there) > 0, bits(enemies.sub) > 0
    yield "e_fish", rows(*place), there & ~sub
    yield "e_subs", rows(*place, number(enemies.reload)), there & sub
    yield "e_bullets", rows(number(enemies.bullet), *place[1:3]), bits(enemies.shot) > 0
    for name, pair in (("f_bullets", bullets), ("divers", divers)):
        entries = jnp.stack([rows(*(field[None] for field in one))[0] for one in pair])
        yield name, entries, entries[:, 0] >= 0
