"""Whether the runs of a fleet are computed side by side or in turn, and how each is quickest then."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mico.deep.config.run import Run
from mico.deep.networks.kernels import space_to_depth
from mico.deep.networks.layers import by_library
from mico.deep.types import Params


def each_in_turn(function: Callable[[Any], Any], trees: Any) -> Any:
    """What a function makes of each; in a loop, a CPU takes far longer for gradients of JAX's own convolutions."""
    count = jax.tree.leaves(trees)[0].shape[0]
    if count > 1 and jax.default_backend() != "cpu":
        return jax.lax.map(function, trees)
    found = [function(jax.tree.map(lambda leaf, index=index: leaf[index], trees)) for index in range(count)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


def in_turn(run: Run) -> bool:
    return run.network.fills_device(run.env.spec.shape)


def quickest(run: Run, params: Params) -> Params:
    """The same networks: where one is at work alone, with JAX's own convolutions; on a GPU over blocks, if they pay."""
    if not in_turn(run):
        return params
    layers, shape = params.encoder.layers, run.env.spec.shape
    in_blocks = (
        jax.default_backend() != "cpu" and params.encoder.rectified == "yes" and space_to_depth.pay(layers, shape)
    )
    quick = (space_to_depth.Blocks(layers),) if in_blocks else by_library(layers)
    return params._replace(encoder=eqx.tree_at(lambda encoder: encoder.layers, params.encoder, quick))
