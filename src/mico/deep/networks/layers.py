"""Layers that networks are made of."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, Key, Shaped

Initialiser = Literal["xavier", "fan-in", "orthogonal"]
Squash = Literal["tanh", "none"]
Precision = Literal["float32", "bfloat16"]


def float_dtype(precision: Precision) -> DTypeLike:
    """What is computed in; float32 is float64 where JAX is told to be as exact as that."""
    return jnp.bfloat16 if precision == "bfloat16" else float


def _orthogonal(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Columns of length 1 at right angles (or rows, if there are fewer), any such alike: Gram and Schmidt, twice.

    Several of LAPACK's factorisations in one program for a CPU may wait for each other for ever.
    """
    outputs, inputs = shape[-1], math.prod(shape[:-1])
    drawn = jax.random.normal(key, (min(inputs, outputs), max(inputs, outputs)))

    def add(index: Int[Array, ""], rows: Float[Array, "K N"]) -> Float[Array, "K N"]:
        row = drawn[index]
        for _ in range(2):
            row = row - (rows @ row) @ rows
        return rows.at[index].set(row / jnp.linalg.norm(row))

    rows = jax.lax.fori_loop(0, drawn.shape[0], add, jnp.zeros_like(drawn))
    return (rows if inputs < outputs else rows.T).reshape(shape)


_INITIALISERS = {
    "xavier": initializers.glorot_uniform(),
    "fan-in": initializers.variance_scaling(1 / 3**0.5, "fan_in", "uniform"),
    "orthogonal": _orthogonal,
}


class Dense(eqx.Module):
    """An affine map, its bias 0 at first. Rows of the weight are outputs: its gradient comes out of a product so."""

    weight: Float[Array, "O I"]
    bias: Float[Array, " O"]

    def __init__(self, inputs: int, outputs: int, initialiser: Initialiser, *, key: Key[Array, ""]):
        self.weight = _INITIALISERS[initialiser](key, (inputs, outputs)).T
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        return _affine(x, self.weight, self.bias)


class Conv(eqx.Module):
    """A convolution as shifted slices and one product: many networks side by side stay one batched product.

    Where the kernel is a multiple of the stride, pixels of one stride are moved into the channels first. Bytes and bits
    stay what they are until the product.
    """

    weight: Float[Array, "O P"]
    bias: Float[Array, " O"]
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    padding: Literal["same", "valid"] = eqx.field(static=True)

    def __init__(
        self,
        channels: tuple[int, int],
        kernel: int,
        stride: int,
        padding: Literal["same", "valid"],
        initialiser: Initialiser,
        *,
        key: Key[Array, ""],
    ):
        self.kernel, self.stride, self.padding = kernel, stride, padding
        weight = _INITIALISERS[initialiser](key, (kernel, kernel, *channels))
        shifts, block = kernel // self._block, self._block
        split = weight.reshape(shifts, block, shifts, block, *channels)
        self.weight = split.transpose(5, 0, 2, 1, 3, 4).reshape(channels[1], -1)
        self.bias = jnp.zeros(channels[1])

    def __call__(self, x: Shaped[Array, "H W C"], precision: DTypeLike) -> Float[Array, "I J O"]:
        return _affine(to_float(self._patches(x), precision), self.weight, self.bias)

    def kernels(self) -> Float[Array, "K K C O"]:
        """The weight as others write it."""
        shifts, block, outputs = self.kernel // self._block, self._block, self.bias.size
        split = self.weight.reshape(outputs, shifts, shifts, block, block, -1)
        return split.transpose(1, 3, 2, 4, 5, 0).reshape(self.kernel, self.kernel, -1, outputs)

    def around(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Zeros before and after the pixels of a picture; pixels that are left out count below 0."""
        extents = [self._extent(size) for size in shape[:2]]
        wanted = [(count - 1) * self.stride + self.kernel for _, count in extents]
        return [(before, want - before - size) for want, (before, _), size in zip(wanted, extents, shape)]

    def outputs(self, shape: tuple[int, ...]) -> list[int]:
        """Rows and columns of what it makes of a picture."""
        return [self._extent(size)[1] for size in shape[:2]]

    def _patches(self, x: Shaped[Array, "H W C"]) -> Shaped[Array, "I J P"]:
        rows, columns = self.outputs(x.shape)
        x = pad(x, self.around(x.shape))
        block, step = self._block, self.stride // self._block
        deep, shifts = pixels_to_channels(x, block), range(self.kernel // block)
        across = jnp.concatenate([deep[:, shift : shift + step * columns : step] for shift in shifts], axis=-1)
        return jnp.concatenate([across[shift : shift + step * rows : step] for shift in shifts], axis=-1)

    @property
    def _block(self) -> int:
        """Pixels that are moved into the channels, in either direction."""
        return 1 if self.kernel % self.stride else self.stride

    def _extent(self, size: int) -> tuple[int, int]:
        """Zeros before the first pixel, and the number of outputs."""
        if self.padding == "valid":
            return 0, (size - self.kernel) // self.stride + 1
        outputs = -(-size // self.stride)
        return max(0, (outputs - 1) * self.stride + self.kernel - size) // 2, outputs


class LibraryConv(eqx.Module):
    """A `Conv` by JAX's own convolution: faster for many pictures, but only if one network is updated alone."""

    layer: Conv

    def __call__(self, x: Shaped[Array, "H W C"], precision: DTypeLike) -> Float[Array, "I J O"]:
        x, layer = to_float(x, precision), self.layer
        weight, around = layer.kernels().astype(x.dtype), layer.around(x.shape)
        return convolve(x, weight, layer.stride, around) + layer.bias.astype(x.dtype)


def with_library_convolutions(tree: Any) -> Any:
    """Replace each `Conv` in a tree by a `LibraryConv` of its weights."""

    def is_conv(layer: Any) -> bool:
        return isinstance(layer, Conv)

    def replaced(layer: Any) -> Any:
        return LibraryConv(layer) if is_conv(layer) else layer

    return jax.tree.map(replaced, tree, is_leaf=is_conv)


class Projection(eqx.Module):
    """A dense layer, a layer norm and, to stay within bounds, a tanh; nothing is rounded but what comes in."""

    dense: Dense
    norm: eqx.nn.LayerNorm
    squash: Squash = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, squash: Squash, initialiser: Initialiser, *, key: Key[Array, ""]):
        self.dense = Dense(inputs, outputs, initialiser, key=key)
        self.norm = eqx.nn.LayerNorm(outputs, eps=1e-6)
        self.squash = squash

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        weight, bias = self.dense.weight.astype(x.dtype), self.dense.bias
        found = self.norm(jnp.einsum("i,oi->o", x, weight, preferred_element_type=float) + bias)
        return jnp.tanh(found) if self.squash == "tanh" else found


class Perceptron(eqx.Module):
    """Hidden layers with a ReLU after each, and an affine output."""

    layers: tuple[Dense, ...]

    def __init__(self, sizes: tuple[int, ...], initialiser: Initialiser, *, key: Key[Array, ""]):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes, sizes[1:], keys)
        self.layers = tuple(Dense(inputs, outputs, initialiser, key=own) for inputs, outputs, own in pairs)

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def _affine(x: Float[Array, "... I"], weight: Float[Array, "O I"], bias: Float[Array, " O"]) -> Float[Array, "... O"]:
    return jnp.einsum("...i,oi->...o", x, weight.astype(x.dtype)) + bias.astype(x.dtype)


def convolve(
    x: Float[Array, "H W C"], weight: Float[Array, "K K C O"], stride: int, around: list[tuple[int, int]]
) -> Float[Array, "I J O"]:
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x[None], weight, (stride, stride), around, dimension_numbers=axes)[0]


@jax.custom_jvp
def relu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """A ReLU whose gradient asks for what came out: what went in need not be kept."""
    return jnp.maximum(x, 0)


@relu.defjvp
def _(x: tuple[Array], tangent: tuple[Array]) -> tuple[Array, Array]:
    found = relu(*x)  # XLA would make its own of "> 0", and keep what went in
    return found, jnp.where(found != 0, tangent[0], 0)


def pad(x: Shaped[Array, "H W C"], around: list[tuple[int, int]]) -> Shaped[Array, "I J C"]:
    """With zeros before and after its rows and columns; fewer than 0 take pixels away."""
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [(*edge, 0) for edge in (*around, (0, 0))])


def pixels_to_channels(x: Shaped[Array, "H W C"], size: int) -> Shaped[Array, "I J P"]:
    """Squares of so many pixels in either direction as channels of one."""
    rows, columns = (length // size for length in x.shape[:2])
    apart = x.reshape(rows, size, columns, size, -1).transpose(0, 2, 1, 3, 4)
    return apart.reshape(rows, columns, -1)


def to_float(x: Shaped[Array, "..."], precision: DTypeLike) -> Float[Array, "..."]:
    """Bytes become fractions of 255, bits 0 and 1."""
    return x.astype(precision) / 255 if x.dtype == jnp.uint8 else x.astype(precision)
