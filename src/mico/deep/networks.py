r"""Encoders $\phi$ and heads $\psi$, for one observation."""

import math
from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key, Shaped

from mico.deep.fields import check_choices, check_least, fixed

Initialiser = Literal["xavier", "fan-in"]
_INITIALISERS = {
    "xavier": initializers.glorot_uniform(),
    "fan-in": initializers.variance_scaling(1 / 3**0.5, "fan_in", "uniform"),
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

    The kernel must be a multiple of the stride; pixels of one stride are moved into the channels first. Bytes and bits
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
        if kernel % stride:
            raise ValueError(f"kernel must be a multiple of stride {stride}, but is {kernel}")
        weight = _INITIALISERS[initialiser](key, (kernel, kernel, *channels))
        shifts = kernel // stride
        split = weight.reshape(shifts, stride, shifts, stride, *channels)
        self.weight = split.transpose(5, 0, 2, 1, 3, 4).reshape(channels[1], -1)
        self.bias = jnp.zeros(channels[1])
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def __call__(self, x: Shaped[Array, "H W C"], precision: DTypeLike) -> Float[Array, "I J O"]:
        return _affine(_numbers(self._patches(x), precision), self.weight, self.bias)

    def _patches(self, x: Shaped[Array, "H W C"]) -> Shaped[Array, "I J P"]:
        (top, rows), (left, columns) = (self._extent(size) for size in x.shape[:2])
        wanted = [(count - 1) * self.stride + self.kernel for count in (rows, columns)]
        spare = [max(0, want - before - size) for want, before, size in zip(wanted, (top, left), x.shape)]
        x = jnp.pad(x, ((top, spare[0]), (left, spare[1]), (0, 0)))[: wanted[0], : wanted[1]]
        deep = x.reshape(wanted[0] // self.stride, self.stride, wanted[1] // self.stride, self.stride, -1)
        deep = deep.transpose(0, 2, 1, 3, 4).reshape(deep.shape[0], deep.shape[2], -1)
        shifts = range(self.kernel // self.stride)
        across = jnp.concatenate([deep[:, shift : shift + columns] for shift in shifts], axis=-1)
        return jnp.concatenate([across[shift : shift + rows] for shift in shifts], axis=-1)

    def _extent(self, size: int) -> tuple[int, int]:
        """Zeros before the first pixel, and the number of outputs."""
        if self.padding == "valid":
            return 0, (size - self.kernel) // self.stride + 1
        outputs = -(-size // self.stride)
        return max(0, (outputs - 1) * self.stride + self.kernel - size) // 2, outputs


class Encoder(eqx.Module):
    r"""$\phi$: layers with a ReLU after each (or none, for a table of signed vectors), flattened."""

    layers: tuple[Conv | Dense, ...]
    rectified: Literal["yes", "no"] = eqx.field(static=True)
    precision: Literal["float32", "bfloat16"] = eqx.field(static=True)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " D"]:
        precision = jnp.bfloat16 if self.precision == "bfloat16" else float
        x = observation
        for layer in self.layers:
            x = layer(_numbers(x.reshape(-1), precision)) if isinstance(layer, Dense) else layer(x, precision)
            x = jax.nn.relu(x) if self.rectified == "yes" else x
        return x.reshape(-1).astype(float)


class Head(eqx.Module):
    r"""$\psi$: a hidden layer (none of size 0) and `outputs` numbers for each action."""

    hidden: Dense | None
    output: Dense
    num_actions: int = eqx.field(static=True)

    def __init__(self, size: int, num_actions: int, outputs: int, network: "Network", *, key: Key[Array, ""]):
        first, second = jax.random.split(key)
        self.hidden = Dense(size, network.hidden, network.initialiser, key=first) if network.hidden else None
        self.output = Dense(network.hidden or size, num_actions * outputs, network.initialiser, key=second)
        self.num_actions = num_actions

    def __call__(self, phi: Float[Array, "... D"]) -> Float[Array, "... A K"]:
        x = phi if self.hidden is None else jax.nn.relu(self.hidden(phi))
        return self.output(x).reshape(*phi.shape[:-1], self.num_actions, -1)


class Network(eqx.Module):
    """Which encoder, how wide the head's hidden layer is, how weights start, and what convolutions compute in."""

    encoder: Literal["minatar", "nature", "mlp", "table"] = fixed("minatar", "what turns observations into φ")
    width: int = fixed(128, "of φ, where the encoder leaves it open (mlp, table)")
    hidden: int = fixed(128, "units between φ and the output; 0 for none")
    initialiser: Initialiser = fixed("xavier", "rule by which weights are drawn at first")
    precision: Literal["float32", "bfloat16"] = fixed("float32", "what the encoder computes in")

    def __check_init__(self) -> None:
        check_choices(self)
        check_least(self, width=1, hidden=0)

    def make(self, shape: tuple[int, ...], *, key: Key[Array, ""]) -> Encoder:
        """An encoder of observations of this shape."""
        least = _SMALLEST.get(self.encoder)
        if least is not None and (len(shape) != 3 or min(shape[:2]) < least):
            raise ValueError(f"encoder {self.encoder!r} needs images of {least}×{least} or more, not {list(shape)}")
        if self.encoder == "table" and len(shape) != 1:
            raise ValueError(f"encoder 'table' needs states as one-hot vectors, not frames of {list(shape)}")
        layers = ENCODERS[self.encoder](shape, self, key)
        return Encoder(layers, "no" if self.encoder == "table" else "yes", self.precision)

    def size(self, shape: tuple[int, ...]) -> int:
        """How long φ is."""
        made = jax.eval_shape(lambda key: self.make(shape, key=key)(jnp.zeros(shape)), jax.random.key(0))
        return made.shape[0]


def _minatar(shape: tuple[int, ...], network: Network, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """16 filters of 3×3 (Young and Tian, 2019)."""
    return (Conv((shape[2], 16), 3, 1, "valid", network.initialiser, key=key),)


def _nature(shape: tuple[int, ...], network: Network, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """The three convolutions of Mnih et al. (2015), padded as in Dopamine: 84×84 gives 11×11×64."""
    first, second, third = jax.random.split(key, 3)
    return (
        Conv((shape[2], 32), 8, 4, "same", network.initialiser, key=first),
        Conv((32, 64), 4, 2, "same", network.initialiser, key=second),
        Conv((64, 64), 3, 1, "same", network.initialiser, key=third),
    )


def _mlp(shape: tuple[int, ...], network: Network, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """Two layers."""
    first, second = jax.random.split(key)
    size = math.prod(shape)
    return (
        Dense(size, network.width, network.initialiser, key=first),
        Dense(network.width, network.width, network.initialiser, key=second),
    )


def _table(shape: tuple[int, ...], network: Network, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """One signed vector a state, where observations are one-hot."""
    return (Dense(math.prod(shape), network.width, network.initialiser, key=key),)


ENCODERS: dict[str, Callable[[tuple[int, ...], Network, Key[Array, ""]], tuple[Conv | Dense, ...]]] = {
    "minatar": _minatar,
    "nature": _nature,
    "mlp": _mlp,
    "table": _table,
}
_SMALLEST = {"minatar": 3, "nature": 8}


def _affine(x: Float[Array, "... I"], weight: Float[Array, "O I"], bias: Float[Array, " O"]) -> Float[Array, "... O"]:
    return jnp.einsum("...i,oi->...o", x, weight.astype(x.dtype)) + bias.astype(x.dtype)


def _numbers(x: Shaped[Array, "..."], precision: DTypeLike) -> Float[Array, "..."]:
    """Bytes become fractions of 255, bits 0 and 1."""
    return x.astype(precision) / 255 if x.dtype == jnp.uint8 else x.astype(precision)
