"""The product in IQN's hidden layer, on a GPU by kernels that never write its largest factor down."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

_ROWS = 128  # of the output that one program makes forwards
_CHUNK = 64  # features that it multiplies at once
_TILE = 64  # features whose gradients one program makes
_WARPS, _STAGES = 4, 3

Phi = Float[Array, "B D"]
Gates = Float[Array, "N D"]
Weight = Float[Array, "H D"]
Product = Float[Array, "B N H"]


def gated_product(phi: Phi, gates: Gates, weight: Weight) -> Product:
    r"""$y_{bnh} = \sum_d \phi_{bd}\, e_{nd}\, W_{hd}$, e the gates."""
    quick = has_kernels() and fits(phi, gates, weight)
    return fused(phi, gates, weight, False) if quick else plain(phi, gates, weight)


def has_kernels() -> bool:
    """Whether the device is a GPU of NVIDIA's that multiplies in bfloat16 (Ampere or newer)."""
    capability = getattr(jax.devices()[0], "compute_capability", "")
    return jax.default_backend() == "gpu" and re.match(r"([89]|\d\d)\.\d", str(capability)) is not None


def plain(phi: Phi, gates: Gates, weight: Weight) -> Product:
    """Compute the gated product by XLA."""
    return jnp.einsum("...d,hd->...h", phi[:, None, :] * gates, weight)


def fits(phi: Phi, gates: Gates, weight: Weight) -> bool:
    """Whether the kernels can do it: in bfloat16, N of 16, 32 or 64, H of these or 128, B and D in whole pieces."""
    (states, features), count, outputs = phi.shape, gates.shape[0], weight.shape[0]
    rounded = all(factor.dtype == jnp.bfloat16 for factor in (phi, gates, weight))
    powers = count in (16, 32, 64) and outputs in (16, 32, 64, 128)
    return rounded and powers and states % (_ROWS // count) == 0 and features % _CHUNK == features % _TILE == 0


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def fused(phi: Phi, gates: Gates, weight: Weight, interpret: bool) -> Product:
    """Compute the gated product by a kernel, for sizes that fit; without a GPU it can be interpreted."""
    (states, features), count, outputs = phi.shape, gates.shape[0], weight.shape[0]
    each = _ROWS // count
    some = pl.BlockSpec((each, features), lambda part: (part, 0))
    whole = [pl.BlockSpec((size, features), lambda part: (0, 0)) for size in (count, outputs)]
    made = pl.BlockSpec((each, count, outputs), lambda part: (part, 0, 0))
    shape = jax.ShapeDtypeStruct((states, count, outputs), phi.dtype)
    return _call(_forwards, states // each, [some, *whole], made, shape, interpret)(phi, gates, weight)


def _forwards(phi: Any, gates: Any, weight: Any, product: Any) -> None:
    """Some states: their gated features are made chunk by chunk."""
    states, count, outputs = product.shape

    def add(step: Any, sums: tuple[Any, ...]) -> tuple[Any, ...]:
        chunk = pl.ds(step * _CHUNK, _CHUNK)
        gate, rows = gates[:, chunk], weight[:, chunk]
        return tuple(total + _dot(phi[state, chunk] * gate, rows, (1, 1)) for state, total in enumerate(sums))

    start = tuple(jnp.zeros((count, outputs), jnp.float32) for _ in range(states))
    for state, total in enumerate(jax.lax.fori_loop(0, phi.shape[1] // _CHUNK, add, start)):
        product[state] = total.astype(product.dtype)


def _fused_forwards(
    phi: Phi, gates: Gates, weight: Weight, interpret: bool
) -> tuple[Product, tuple[Phi, Gates, Weight]]:
    return fused(phi, gates, weight, interpret), (phi, gates, weight)


def _fused_backwards(interpret: bool, factors: tuple[Phi, Gates, Weight], slope: Product) -> tuple[Phi, Gates, Weight]:
    tiles = [pl.BlockSpec((factor.shape[0], _TILE), lambda tile: (0, tile)) for factor in factors]
    whole = pl.BlockSpec(slope.shape, lambda tile: (0, 0, 0))
    shapes = [jax.ShapeDtypeStruct(factor.shape, factor.dtype) for factor in factors]
    call = _call(_backwards, factors[0].shape[1] // _TILE, [*tiles, whole], tiles, shapes, interpret)
    return tuple(call(*factors, slope))


def _backwards(phi: Any, gates: Any, weight: Any, slope: Any, of_phi: Any, of_gates: Any, of_weight: Any) -> None:
    """Some features: all is transposed, so that sums over fractions stay within a warp."""
    gate, rows = gates[...].T, weight[...].T

    def add(state: Any, sums: tuple[Any, Any]) -> tuple[Any, Any]:
        own, above = phi[state][:, None], slope[state]
        of_gated = _dot(rows, above, (1, 1))
        of_phi[state] = (of_gated * gate).sum(axis=1).astype(of_phi.dtype)
        return sums[0] + of_gated * own, sums[1] + _dot(own * gate, above, (1, 0))

    start = tuple(jnp.zeros(factor.shape, jnp.float32) for factor in (gate, rows))
    sums = jax.lax.fori_loop(0, phi.shape[0], add, start)
    of_gates[...], of_weight[...] = (total.T.astype(gates.dtype) for total in sums)


fused.defvjp(_fused_forwards, _fused_backwards)


def _dot(left: Any, right: Any, over: tuple[int, int]) -> Any:
    axes = ((over[0],), (over[1],)), ((), ())
    return jax.lax.dot_general(left, right, axes, preferred_element_type=jnp.float32)


def _call(kernel: Callable[..., None], programs: int, ins: Any, outs: Any, shapes: Any, interpret: bool) -> Any:
    from jax.experimental.pallas import triton  # only where it is used: it takes a while, and may go some day

    params = triton.CompilerParams(num_warps=_WARPS, num_stages=_STAGES)
    specs = {"grid": (programs,), "in_specs": ins, "out_specs": outs, "out_shape": shapes}
    return pl.pallas_call(kernel, **specs, compiler_params=params, interpret=interpret)
