"""Small numbers in 32 places at once, written in bits: bit i belongs to place i, so that one operation is for all.

A number of each place is a tuple of such words, its lowest digit first. On a GPU no place then waits for another.
"""

from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt

Bits: TypeAlias = UInt[Array, "..."] | np.uint32
Digits: TypeAlias = tuple[Bits, ...]

ALL, NONE = np.uint32(2**32 - 1), np.uint32(0)  # places


def spread(bit: Bool[Array, "..."] | bool) -> Bits:
    """All places, or none."""
    return jnp.where(bit, ALL, NONE)


def digits(value: Int[Array, "..."] | int, count: int) -> Digits:
    """Make digits that have this value in every place."""
    return tuple(spread(((value >> digit) & 1) != 0) for digit in range(count))


def where(number: Digits, value: Int[Array, "..."] | int) -> Bits:
    """The places that have this value."""
    places = ALL
    for digit, wanted in zip(number, digits(value, len(number)), strict=True):
        places = places & ~(digit ^ wanted)
    return places


def mixed(places: Bits, these: Digits, others: Digits) -> Digits:
    """Values in these places, and in the others."""
    return tuple((places & this) | (~places & other) for this, other in zip(these, others, strict=True))


def stepped(number: Digits, places: Bits, up: Bits) -> Digits:
    """One more in these places where `up`, else one less: a digit changes, and where it wraps, so does the next."""
    found, changes = [], places
    for digit in number:
        found.append(digit ^ changes)
        changes = changes & ~(digit ^ up)
    return tuple(found)
