"""Lengths and cosines of representations, exact and with finite gradients for vectors of every size."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

_SHORT = 2.0**-48  # squares of lengths below this lose digits in float32
_LIFT = 2.0**60  # but not if the vector is multiplied by this first


class PairwiseCosine(NamedTuple):
    """The cosine of every x with every y (1 if both are zero, 0 if one is), and the lengths of both."""

    cosine: Float[Array, "B C"]
    length: Float[Array, " B"]
    other: Float[Array, " C"]


def pairwise_cosine(x: Float[Array, "B D"], y: Float[Array, "C D"]) -> PairwiseCosine:
    """At least in float32, whatever the networks compute in; lengths from 1e-20 to 1e15 are no matter."""
    return _compared(_wide(x), _wide(y))


def inner_products(x: Float[Array, "B D"], y: Float[Array, "C D"]) -> Float[Array, "B C"]:
    r"""$\langle x, y \rangle$ of every x with every y, in float32 at least, also where a GPU's default is less."""
    three_passes = jax.default_backend() == "gpu" and x.dtype != jnp.float64
    precision = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if three_passes else "highest"
    return jnp.einsum("bd,cd->bc", _wide(x), _wide(y), precision=precision)


@jax.custom_jvp
def _compared(x: Float[Array, "B D"], y: Float[Array, "C D"]) -> PairwiseCosine:
    length, other = _length(x), _length(y)
    cosine = inner_products(x, y * _inverse(other)[:, None]) * _inverse(length)[:, None]  # never out of float32's range
    return PairwiseCosine(cosine + jnp.outer(length == 0, other == 0), length, other)


def _tangent(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[PairwiseCosine, PairwiseCosine]:
    (x, y), (change, other_change) = primals, tangents
    found = _compared(x, y)
    by_x, length = _turned(x, found.length, change, y, found.other, found.cosine)
    by_y, other = _turned(y, found.other, other_change, x, found.length, found.cosine.T)
    return found, PairwiseCosine(by_x + by_y.T, length, other)


def _turned(
    x: Float[Array, "B D"],
    length: Float[Array, " B"],
    change: Any,
    y: Float[Array, "C D"],
    other: Float[Array, " C"],
    cosine: Float[Array, "B C"],
) -> tuple[Float[Array, "B C"], Float[Array, " B"]]:
    r"""$\dot c = (\langle\dot x, \hat y\rangle - c\,\dot l)/l$ and $\dot l = \langle\hat x, \dot x\rangle$.

    l is the length of x. Zero vectors have no direction, and changes of theirs count for nothing.
    """
    if isinstance(change, SymbolicZero):
        return jnp.zeros_like(cosine), jnp.zeros_like(length)
    inverse = _inverse(length)
    longer = (x * inverse[:, None] * change).sum(axis=-1)
    along = jnp.einsum("bd,cd->bc", change * inverse[:, None], y) * _inverse(other)  # as exact as other gradients
    return along - (longer * inverse)[:, None] * cosine, longer


_compared.defjvp(_tangent, symbolic_zeros=True)


def _inverse(length: Float[Array, " B"]) -> Float[Array, " B"]:
    """0 of zero vectors."""
    return jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1.0), 0.0)


def _length(x: Float[Array, "B D"]) -> Float[Array, " B"]:
    plain = jnp.sqrt((x**2).sum(axis=-1))
    lifted = jnp.sqrt(((_LIFT * x) ** 2).sum(axis=-1)) / _LIFT
    return jnp.where(plain > _SHORT, plain, lifted)


def _wide(x: Float[Array, "B D"]) -> Float[Array, "B D"]:
    if not isinstance(x, (jax.Array, np.ndarray)):
        raise ValueError(f"representations must be arrays, as for PyTorch's there is mico.torch, but are {type(x)}")
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
