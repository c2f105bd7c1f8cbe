r"""Encoders $\phi$ and heads $\psi$, for one observation."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from mico._registry import Registry
from mico.deep.fields import check_choices, check_least, fixed
from mico.deep.networks.layers import (
    Conv,
    Dense,
    Initialiser,
    Precision,
    Projection,
    Squash,
    number_type,
    numbers,
    rectified,
)


class Encoder(eqx.Module):
    r"""$\phi$: layers with a ReLU after each (or none, for a table of signed vectors), flattened, maybe projected."""

    layers: tuple[Conv | Dense, ...]
    projection: Projection | None
    rectified: Literal["yes", "no"] = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " D"]:
        return self.projected(self.features(observation))

    def projected(self, features: Float[Array, " F"]) -> Float[Array, " D"]:
        return features.astype(float) if self.projection is None else self.projection(features)

    def features(self, observation: Shaped[Array, "..."]) -> Float[Array, " F"]:
        """What the layers make of an observation, before it is projected, in their own precision."""
        precision = number_type(self.precision)
        x = observation
        for layer in self.layers:
            x = layer(numbers(x.reshape(-1), precision)) if isinstance(layer, Dense) else layer(x, precision)
            x = rectified(x) if self.rectified == "yes" else x
        return x.reshape(-1)


class Head(eqx.Module):
    r"""$\psi$: a hidden layer (none of size 0) and `outputs` numbers for each action, which are never rounded."""

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
        return self.output(x.astype(float)).reshape(*phi.shape[:-1], self.num_actions, -1)


class Sizes(NamedTuple):
    """Of an encoder's features, and of φ, which may be a projection of them."""

    features: int
    phi: int


class Network(eqx.Module):
    """Which encoder, how wide the head's hidden layers are, how weights start, and what convolutions compute in."""

    encoder: str = fixed(
        "minatar",
        "Encoder that turns an observation into its representation φ: minatar, nature, control, mlp, table, or a"
        " registered one.",
    )
    width: int = fixed(128, "Units of a layer of the encoders mlp and table, and of control with states.")
    latent: int = fixed(0, "Size that φ is projected to by a dense layer and a layer norm; 0 is no projection.")
    squash: Squash = fixed("tanh", "Function that bounds φ where it is projected.")
    hidden: int = fixed(128, "Units of the hidden layer between φ and the output; 0 is no hidden layer.")
    initialiser: Initialiser = fixed("xavier", "Distribution that the initial weights are drawn from.")
    precision: Precision = fixed(
        "float32", "Number type that the encoder, and IQN's embedding of fractions, compute in."
    )

    def __check_init__(self) -> None:
        check_choices(self)
        ENCODERS.look_up(self.encoder, "encoder")
        check_least(self, width=1, latent=0, hidden=0)

    def make(self, shape: tuple[int, ...], *, key: Key[Array, ""]) -> Encoder:
        """An encoder of observations of this shape."""
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
        return replace(bare, projection=self.project(_length(bare.features, shape), key=of_projection))

    def project(self, features: int, *, key: Key[Array, ""]) -> Projection:
        """A projection of so many features."""
        return Projection(features, self.latent, self.squash, self.initialiser, key=key)

    def fills_device(self, shape: tuple[int, ...]) -> bool:
        """Whether a batch of one run keeps a GPU busy, so that an update of several at once is no quicker."""
        return self.encoder == "control" and len(shape) == 3

    def sizes(self, shape: tuple[int, ...]) -> Sizes:
        """How long φ is, and what it is projected from."""

        def lengths(key: Key[Array, ""]) -> tuple[Float[Array, " F"], Float[Array, " D"]]:
            encoder, blank = self.make(shape, key=key), jnp.zeros(shape)
            return encoder.features(blank), encoder(blank)

        features, phi = jax.eval_shape(lengths, jax.random.key(0))
        return Sizes(features.size, phi.size)


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


def _control(shape: tuple[int, ...], network: Network, key: Key[Array, ""]) -> tuple[Conv | Dense, ...]:
    """Four convolutions of 32 filters, as in the paper's agents of control; of states, two layers."""
    if len(shape) != 3:
        return _mlp(shape, network, key)
    channels, strides = (shape[2], 32, 32, 32), (2, 1, 1, 1)
    keys = jax.random.split(key, 4)
    return tuple(
        Conv((inputs, 32), 3, stride, "same", network.initialiser, key=own)
        for inputs, stride, own in zip(channels, strides, keys)
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


def _check_function(name: str, value: Any) -> Any:
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name!r} must be a function of a shape, a Network and a key, got {value!r}")
    return value


ENCODERS: Registry[Callable[[tuple[int, ...], Network, Key[Array, ""]], tuple[Conv | Dense, ...]]] = Registry(
    "encoder",
    "mico.encoders",
    {"minatar": _minatar, "nature": _nature, "control": _control, "mlp": _mlp, "table": _table},
    check=_check_function,
)
_SMALLEST = {"minatar": 3, "nature": 8}


def _length(of: Callable[..., Any], shape: tuple[int, ...]) -> int:
    return jax.eval_shape(of, jax.ShapeDtypeStruct(shape, float)).size
