"""Lengths, products and cosines of representations, with finite gradients for vectors of every size."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Scaled(NamedTuple):
    """Vectors whose largest entry is ±1, what they were divided by, their squared lengths, and 1 for zero vectors."""

    vector: Float[Array, "... D"]
    size: Float[Array, "..."]
    squared: Float[Array, "..."]
    zero: Float[Array, "..."]


def scaled(x: Float[Array, "... D"]) -> Scaled:
    """At least in float32, whatever the networks compute in; sizes from 1e-20 to 1e15 are no matter."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    largest = jax.lax.stop_gradient(jnp.abs(x).max(axis=-1))
    zero = largest == 0
    size = jnp.where(zero, 1.0, largest)
    vector = x / size[..., None]
    return Scaled(vector, size, (vector**2).sum(axis=-1), zero.astype(x.dtype))


def square(x: Scaled) -> Float[Array, "..."]:
    r"""$\|x\|^2$."""
    return x.size**2 * x.squared


def product(x: Scaled, y: Scaled) -> Float[Array, ""]:
    r"""$\langle x, y \rangle$ of two vectors."""
    return x.size * y.size * (x.vector * y.vector).sum(axis=-1)


def products(x: Scaled, y: Scaled) -> Float[Array, "B C"]:
    """The product of every x with every y."""
    return x.size[:, None] * y.size * _gram(x, y)


def cosine(x: Scaled, y: Scaled) -> Float[Array, ""]:
    r"""$\langle x, y \rangle / \|x\|\|y\|$ of two vectors; 1 if both are zero, 0 if one is."""
    return (x.vector * y.vector).sum(axis=-1) / (_length(x) * _length(y)) + x.zero * y.zero


def cosines(x: Scaled, y: Scaled) -> Float[Array, "B C"]:
    """The cosine of every x with every y."""
    return _gram(x, y) / (_length(x)[:, None] * _length(y)) + x.zero[:, None] * y.zero


def _length(x: Scaled) -> Float[Array, "..."]:
    """Of the scaled vector; 1 in place of 0, where a root has no gradient."""
    return jnp.sqrt(jnp.where(x.zero > 0, 1.0, x.squared))


def _gram(x: Scaled, y: Scaled) -> Float[Array, "B C"]:
    """All products through one matrix product, in float32 or better also where a GPU's default is less."""
    three_passes = jax.default_backend() == "gpu" and x.vector.dtype == jnp.float32
    precision = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if three_passes else "highest"
    return jnp.einsum("bd,cd->bc", x.vector, y.vector, precision=precision)
