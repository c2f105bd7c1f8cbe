"""An encoder: two layers, the first twice as wide as the second."""

import math

import jax

from mico.deep.networks import Dense


def two_wide(shape, network, key):
    """Two layers, of twice the width and of the width."""
    first, second = jax.random.split(key)
    size, width = math.prod(shape), network.width
    return (
        Dense(size, 2 * width, network.initialiser, key=first),
        Dense(2 * width, width, network.initialiser, key=second),
    )
