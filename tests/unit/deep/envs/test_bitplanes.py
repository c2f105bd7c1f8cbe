"""Numbers in 32 places at once, against lists of numbers."""

import jax.numpy as jnp
import numpy as np

from mico.deep.envs.minatar import bitplanes as bits

RNG = np.random.default_rng(0)


def packed(values, count):
    """Word by word, bit by bit."""
    words = [sum(((int(value) >> digit) & 1) << place for place, value in enumerate(values)) for digit in range(count)]
    return tuple(jnp.uint32(word) for word in words)


def places(word):
    return [bool((int(word) >> place) & 1) for place in range(32)]


def unpacked(number):
    return [sum(bit << digit for digit, bit in enumerate(bits)) for bits in zip(*map(places, number), strict=True)]


def test_the_places_of_a_value():
    values = RNG.integers(0, 16, 32)
    for wanted in range(16):
        assert places(bits.where(packed(values, 4), wanted)) == (values == wanted).tolist()
    assert places(bits.where(packed(values, 4), jnp.int32(-1))) == (values == 15).tolist()


def test_the_same_value_everywhere():
    assert unpacked(bits.digits(6, 3)) == [6] * 32
    assert unpacked(bits.digits(jnp.int32(9), 4)) == [9] * 32
    assert places(bits.spread(True)) == [True] * 32
    assert places(bits.spread(jnp.array(False))) == [False] * 32


def test_some_of_one_and_some_of_the_other():
    these, others, chosen = RNG.integers(0, 8, 32), RNG.integers(0, 8, 32), RNG.integers(0, 2, 32)
    found = bits.mixed(packed(chosen, 1)[0], packed(these, 3), packed(others, 3))
    assert unpacked(found) == np.where(chosen, these, others).tolist()


def test_steps_up_and_down_and_round():
    values, moves, up = RNG.permutation(np.arange(32) % 16), RNG.integers(0, 2, 32), RNG.integers(0, 2, 32)
    found = bits.stepped(packed(values, 4), packed(moves, 1)[0], packed(up, 1)[0])
    assert unpacked(found) == ((values + moves * (2 * up - 1)) % 16).tolist()
