r"""Encoders $\phi$ of one observation, and the fields that choose them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from mico._registry import Registry
from mico.deep.fields import check_choices, check_minimum, static_field
from mico.deep.networks.layers import (
    Conv,
    Dense,
    Initialiser,
    Precision,
    Projection,
    Squash,
    float_dtype,
    relu,
    to_float,
)


class Encoder(eqx.Module):
    r"""$\phi$: layers, each with a ReLU (none for a table of signed vectors), flattened and perhaps projected."""

    layers: tuple[Conv | Dense, ...]
    projection: Projection | None
    rectified: Literal["yes", "no"] = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " D"]:
        return self.project(self.features(observation))

    def project(self, features: Float[Array, " F"]) -> Float[Array, " D"]:
        """Turn features into the representation φ: by the projection if there is one."""
        return features.astype(float) if self.projection is None else self.projection(features)

    def features(self, observation: Shaped[Array, "..."]) -> Float[Array, " F"]:
        """Compute the output of the layers, before the projection, in their own precision."""
        precision = float_dtype(self.precision)
        x = observation
        for layer in self.layers:
            x = layer(to_float(x.reshape(-1), precision)) if isinstance(layer, Dense) else layer(x, precision)
            x = relu(x) if self.rectified == "yes" else x
        return x.reshape(-1)


class RepresentationSizes(NamedTuple):
    """Sizes of an encoder's features, and of φ, which may be a projection of them."""

    features: int
    phi: int


class NetworkConfig(eqx.Module):
    """Which encoder, its widths and those of the head, the initial weights, and the precision of its products."""

    encoder: str = static_field(
        "minatar",
        "Encoder that turns an observation into its representation φ: minatar, nature, control, mlp, table, or a"
        " registered one.",
    )
    width: int = static_field(128, "Units of a layer of the encoders mlp and table, and of control with states.")
    latent: int = static_field(0, "Size that φ is projected to by a dense layer and a layer norm; 0 is no projection.")
    squash: Squash = static_field("tanh", "Function that bounds φ where it is projected.")
    hidden: int = static_field(128, "Units of the hidden layer between φ and the output; 0 is no hidden layer.")
    initialiser: Initialiser = static_field("xavier", "Distribution that the initial weights are drawn from.")
    precision: Precision = static_field(
        "float32", "Number type that the encoder, and IQN's embedding of fractions, compute in."
    )

    def __check_init__(self) -> None:
        check_choices(self)
        ENCODERS.look_up(self.encoder, "encoder")
        check_minimum(self, width=1, latent=0, hidden=0)

    def make(self, shape: tuple[int, ...], *, key: Key[Array, ""]) -> Encoder:
        """Make an encoder of observations of this shape."""
        least = _SMALLEST.get(self.encoder)
        if least is not None and (len(shape) != 3 or min(shape[:2]) < least):
            raise ValueError(f"encoder {self.encoder!r} needs images of {least}×{least} or more, not {list(shape)}")
        if self.encoder == "table" and len(shape) != 1:
            raise ValueError(f"encoder 'table' needs states as one-hot vectors, not frames of {list(shape)}")
        of_layers, of_projection = jax.random.split(key) if self.latent else (key, key)
        layers = ENCODERS[self.encoder](shape, self, of_layers)
        bare = Encoder(layers, None, "no" if self.encoder == "table" else "yes", self.precision)
        if not self.latent:
            return bare
        return replace(bare, projection=self.make_projection(_length(bare.features, shape), key=of_projection))

    def make_projection(self, features: int, *, key: Key[Array, ""]) -> Projection:
        """Make a projection of this number of features to φ."""
        return Projection(features, self.latent, self.squash, self.initialiser, key=key)

    def fills_device(self, shape: tuple[int, ...]) -> bool:
        """Whether the batch of one run keeps a GPU busy, so that updating several runs at once is not faster."""
        return self.encoder == "control" and len(shape) == 3

    def sizes(self, shape: tuple[int, ...]) -> RepresentationSizes:
        """Compute the sizes of the features and of φ for frames of this shape."""

        def represent(key: Key[Array, ""]) -> tuple[Float[Array, " F"], Float[Array, " D"]]:
            encoder, blank = self.make(shape, key=key), jnp.zeros(shape)
            return encoder.features(blank), encoder(blank)

        features, phi = jax.eval_shape(represent, jax.random.key(0))
        return RepresentationSizes(features.size, phi.size)


def _minatar(shape: tuple[int, ...], network: NetworkConfig, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """16 filters of 3×3 (Young and Tian, 2019)."""
    return (Conv((shape[2], 16), 3, 1, "valid", network.initialiser, key=key),)


def _nature(shape: tuple[int, ...], network: NetworkConfig, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """The three convolutions of Mnih et al. (2015), padded as in Dopamine: 84×84 gives 11×11×64."""
    first, second, third = jax.random.split(key, 3)
    return (
        Conv((shape[2], 32), 8, 4, "same", network.initialiser, key=first),
        Conv((32, 64), 4, 2, "same", network.initialiser, key=second),
        Conv((64, 64), 3, 1, "same", network.initialiser, key=third),
    )


def _control(shape: tuple[int, ...], network: NetworkConfig, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """Four convolutions of 32 filters, as in the paper's agents for control; two dense layers if it sees states."""
    if len(shape) != 3:
        return _mlp(shape, network, key)
    channels, strides = (shape[2], 32, 32, 32), (2, 1, 1, 1)
    keys = jax.random.split(key, 4)
    return tuple(
        Conv((inputs, 32), 3, stride, "same", network.initialiser, key=own)
        for inputs, stride, own in zip(channels, strides, keys)
    )


def _mlp(shape: tuple[int, ...], network: NetworkConfig, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """Two dense layers."""
    first, second = jax.random.split(key)
    size = math.prod(shape)
    return (
        Dense(size, network.width, network.initialiser, key=first),
        Dense(network.width, network.width, network.initialiser, key=second),
    )


def _table(shape: tuple[int, ...], network: NetworkConfig, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """One signed vector per state, where observations are one-hot."""
    return (Dense(math.prod(shape), network.width, network.initialiser, key=key),)


def _check_function(name: str, value: Any) -> Any:
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name!r} must be a function of a shape, a NetworkConfig and a key, got {value!r}")
    return value


ENCODERS: Registry[Callable[[tuple[int, ...], NetworkConfig, Key[Array, ""]], tuple[Conv | Dense, ...]]] = Registry(
    "encoder",
    "mico.encoders",
    {"minatar": _minatar, "nature": _nature, "control": _control, "mlp": _mlp, "table": _table},
    check=_check_function,
)
_SMALLEST = {"minatar": 3, "nature": 8}


def _length(of: Callable[..., Any], shape: tuple[int, ...]) -> int:
    return jax.eval_shape(of, jax.ShapeDtypeStruct(shape, float)).size
