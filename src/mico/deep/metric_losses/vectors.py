"""Lengths, products and cosines of representations, with finite gradients for vectors of every size."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SHORT = 2.0**-48  # squares of lengths below this lose digits in float32
_LIFT = 2.0**60  # but not if the vector is multiplied by this first


class Measured(NamedTuple):
    """Vectors, their lengths, the same as constants (1 in place of 0), and 1 for zero vectors."""

    vector: Float[Array, "... D"]
    length: Float[Array, "..."]
    size: Float[Array, "..."]
    zero: Float[Array, "..."]


def measured(x: Float[Array, "... D"]) -> Measured:
    """At least in float32, whatever the networks compute in; sizes from 1e-20 to 1e15 are no matter."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    length = _length(x)
    size = jax.lax.stop_gradient(_positive(length))
    return Measured(x, length, size, (length == 0).astype(x.dtype))


def square(x: Measured) -> Float[Array, "..."]:
    r"""$\|x\|^2$."""
    return x.length**2


def product(x: Measured, y: Measured) -> Float[Array, ""]:
    r"""$\langle x, y \rangle$ of two vectors."""
    return (x.vector * y.vector).sum(axis=-1)


def products(x: Measured, y: Measured) -> Float[Array, "B C"]:
    """The product of every x with every y."""
    return _gram(x.vector, y.vector)


def cosine(x: Measured, y: Measured) -> Float[Array, ""]:
    r"""$\langle x, y \rangle / \|x\|\|y\|$ of two vectors; 1 if both are zero, 0 if one is."""
    return (x.vector * _unit(y)).sum(axis=-1) / x.size / (_ratio(x) * _ratio(y)) + x.zero * y.zero


def cosines(x: Measured, y: Measured) -> Float[Array, "B C"]:
    """The cosine of every x with every y."""
    constant = _gram(x.vector, _unit(y)) / x.size[:, None]
    return constant / (_ratio(x)[:, None] * _ratio(y)) + x.zero[:, None] * y.zero


def _unit(x: Measured) -> Float[Array, "... D"]:
    """Divided by its size: one side of a product is enough to keep it within the range of float32."""
    return x.vector / x.size[..., None]


def _ratio(x: Measured) -> Float[Array, "..."]:
    """Length over size: 1, but with the gradient of the length, which would leave that range if divided by directly."""
    return jnp.where(x.zero > 0, 1.0, x.length / x.size)


@jax.custom_jvp
def _length(x: Float[Array, "... D"]) -> Float[Array, "..."]:
    plain = jnp.sqrt((x**2).sum(axis=-1))
    lifted = jnp.sqrt(((_LIFT * x) ** 2).sum(axis=-1)) / _LIFT
    return jnp.where(plain > _SHORT, plain, lifted)


@_length.defjvp
def _length_jvp(
    primals: tuple[Float[Array, "... D"]], tangents: tuple[Float[Array, "... D"]]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$\langle x / \|x\|, \dot x \rangle$, which is 0 for zero vectors."""
    (x,), (change,) = primals, tangents
    length = _length(x)
    return length, (x / _positive(length)[..., None] * change).sum(axis=-1)


def _positive(length: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.where(length > 0, length, 1.0)


def _gram(x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
    """All products through one matrix product, in float32 or better also where a GPU's default is less."""
    three_passes = jax.default_backend() == "gpu" and x.dtype == jnp.float32
    precision = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if three_passes else "highest"
    return jnp.einsum("bd,cd->bc", x, y, precision=precision)
