"""Single frames: stacked into what the networks see, and flattened into rows for the replay."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Shaped

from mico.deep.types import Spec


def start_stack(frame: Shaped[Array, "..."], count: int) -> Shaped[Array, "count ..."]:
    """The stack at an episode's first frame: zeros stand for the frames before it."""
    return jnp.zeros((count, *frame.shape), frame.dtype).at[-1].set(frame)


def push(stack: Shaped[Array, "count ..."], frame: Shaped[Array, "..."]) -> Shaped[Array, "count ..."]:
    """The stack one frame later: the oldest frame drops out."""
    return jnp.concatenate([stack[1:], frame[None]])


def stack_frames(stack: Shaped[Array, "count ..."]) -> Shaped[Array, "..."]:
    """The observation: H×W frames become H×W×count, others are joined along their last axis, oldest first."""
    if stack.ndim == 3:
        return jnp.moveaxis(stack, 0, -1)
    beside = jnp.moveaxis(stack, 0, -2)
    return beside.reshape(*beside.shape[:-2], -1)


def flatten(frames: Shaped[Array, "count ..."], spec: Spec) -> Shaped[Array, "count row"]:
    """Each frame as a row; of bool frames, eight numbers share a byte."""
    rows = frames.reshape(frames.shape[0], -1)
    return jnp.packbits(rows, axis=1) if spec.dtype == "bool" else rows


def unflatten(rows: Shaped[Array, "count row"], spec: Spec) -> Shaped[Array, "count ..."]:
    """The frames that were flattened."""
    if spec.dtype == "bool":
        rows = jnp.unpackbits(rows, axis=1, count=math.prod(spec.shape)).astype(bool)
    return rows.reshape(rows.shape[0], *spec.shape)
