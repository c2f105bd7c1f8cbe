"""The fastest convolutions for an encoder that is updated alone."""

from typing import Any, cast

import equinox as eqx
import jax

from mico.deep.networks.encoders import Encoder, NetworkConfig
from mico.deep.networks.kernels import space_to_depth
from mico.deep.networks.layers import with_library_convolutions


def with_fast_convolutions(network: NetworkConfig, shape: tuple[int, ...], encoder: Encoder) -> Encoder:
    """Replace im2col convolutions of frames of this shape where one run is updated at a time, which fills the device.

    By JAX's own convolutions, or on a GPU by convolutions of blocks of 2×2 pixels where they are faster. Elsewhere the
    encoder is returned as it is: `vmap` would make a grouped convolution of JAX's own, which is slow.
    """
    if not network.fills_device(shape):
        return encoder
    layers = encoder.layers
    blocks = jax.default_backend() != "cpu" and encoder.rectified == "yes" and space_to_depth.is_faster(layers, shape)
    fast: Any = (space_to_depth.SpaceToDepthConvs(cast(Any, layers)),) if blocks else with_library_convolutions(layers)
    return eqx.tree_at(lambda encoder: encoder.layers, encoder, fast)
