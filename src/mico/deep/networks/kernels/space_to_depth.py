"""Convolutions one after another over blocks of 2×2 pixels: GPUs are slow where channels are few."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Shaped

from mico.deep.networks.layers import Conv, convolve, pad, pixels_to_channels, relu, to_float

_KERNEL = 3
_FEW = 32  # channels
_NOTHING, _ZEROS = [(0, 0), (0, 0)], [(1, 1), (1, 1)]  # around a picture


class SpaceToDepthConvs(eqx.Module):
    """Convolutions of 3×3 with a ReLU after each, computed over blocks whose four pixels are channels of one.

    A block of outputs sees two by two blocks of inputs if these begin one pixel before it. So blocks begin at pixel −1
    and at pixel 0 in turn, and at 0 in the end. From −1 on they reach out of the picture, where all must stay 0.
    """

    layers: tuple[Conv, ...]

    def __call__(self, x: Shaped[Array, "H W C"], precision: DTypeLike) -> Float[Array, "I J O"]:
        first, *others = self.layers
        shape, early = first.outputs(x.shape), len(others) % 2 == 1
        weight, bias = _placed(first, precision)
        x = _narrowed(to_float(_deep(x, first, early), precision), weight) + bias
        for layer in others:
            weight, bias = _placed(layer, precision)
            x = _narrowed(relu(x + _outside(shape, x)), weight) if early else _widened(relu(x), weight)
            x, early = x + bias, not early
        return _apart(relu(x))  # whoever does so again changes nothing; here it is part of the convolution


def is_faster(layers: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether layers with a ReLU after each can be done over blocks of pictures of this shape, and gain by it."""
    if len(layers) < 2 or not all(isinstance(layer, Conv) for layer in layers):
        return False
    first, *others = layers
    alike = all((layer.kernel, layer.padding) == (_KERNEL, "same") for layer in layers)
    steps = first.stride <= 2 and all(layer.stride == 1 for layer in others)
    even = all(count % 2 == 0 for count in first.outputs(shape))
    return alike and steps and even and all(layer.bias.size <= _FEW for layer in layers)


def _deep(x: Shaped[Array, "H W C"], layer: Conv, early: bool) -> Shaped[Array, "I J P"]:
    """Squares of pixels, of which a block of a layer's outputs sees two by two."""
    size = 2 * layer.stride
    wanted = [size * (count // 2 + early + 1) for count in layer.outputs(x.shape)]
    before = [low + early * layer.stride for low, _ in layer.around(x.shape)]
    return pixels_to_channels(
        pad(x, [(low, want - low - old) for low, want, old in zip(before, wanted, x.shape)]), size
    )


def _placed(layer: Conv, precision: DTypeLike) -> tuple[Float[Array, "2 2 P Q"], Float[Array, " Q"]]:
    """For each pixel of a block of outputs the kernel, where it lies among the squares that are seen; and its bias."""
    stride, outputs = layer.stride, layer.bias.size
    kernel = layer.kernels().reshape(_KERNEL, _KERNEL, -1)

    def at(*pixel: int) -> Float[Array, "2 2 P O"]:
        before = [stride * place for place in pixel]
        around = [(low, 4 * stride - _KERNEL - low) for low in before]
        return pixels_to_channels(pad(kernel, around), 2 * stride).reshape(2, 2, -1, outputs)

    weight = jnp.concatenate([at(row, column) for row in (0, 1) for column in (0, 1)], axis=-1)
    return weight.astype(precision), jnp.tile(layer.bias, 4).astype(precision)


def _outside(shape: list[int], x: Float[Array, "I J P"]) -> Float[Array, "I J P"]:
    """What makes a ReLU 0 where blocks reach out of the picture; a convolution adds it at once, as it would a bias."""
    inside = jnp.zeros((*shape, x.shape[-1] // 4), x.dtype)
    return pixels_to_channels(jnp.pad(inside, ((1, 1), (1, 1), (0, 0)), constant_values=jnp.finfo(x.dtype).min), 2)


def _apart(x: Float[Array, "I J P"]) -> Float[Array, "H W O"]:
    """Pixels of blocks as pixels again."""
    rows, columns, _ = x.shape
    return x.reshape(rows, columns, 2, 2, -1).transpose(0, 2, 1, 3, 4).reshape(2 * rows, 2 * columns, -1)


def _narrowed(x: Float[Array, "H W P"], weight: Float[Array, "2 2 P Q"]) -> Float[Array, "I J Q"]:
    """One output fewer than inputs in either direction."""
    return convolve(x, weight, 1, _NOTHING)


@jax.custom_jvp
def _widened(x: Float[Array, "H W P"], weight: Float[Array, "2 2 P Q"]) -> Float[Array, "I J Q"]:
    """One output more than inputs in either direction, zeros being around these."""
    return convolve(x, weight, 1, _ZEROS)


@_widened.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """With more outputs than inputs, XLA takes a weight's gradient for a convolution by a huge kernel.

    So zeros are put around the inputs; the barrier keeps XLA from taking them away again.
    """
    (x, weight), (of_x, of_weight) = primals, tangents
    wide = jax.lax.optimization_barrier(jnp.pad(x, ((1, 1), (1, 1), (0, 0))))
    return _widened(x, weight), convolve(of_x, weight, 1, _ZEROS) + _narrowed(wide, of_weight)
