"""Sampling in proportion to priorities by two levels of sums: over blocks of leaves, and over the leaves of a block."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key


class SumTree(NamedTuple):
    """Leaf i lies at [i // width, i % width]; a leaf of 0 is never drawn. `largest` is the largest priority so far."""

    leaves: Float[Array, "blocks width"]
    sums: Float[Array, " blocks"]
    largest: Float[Array, ""]


def empty(count: int) -> SumTree:
    """Room for so many leaves, all of them 0."""
    width = math.isqrt(count - 1) + 1
    blocks = -(-count // width)
    return SumTree(jnp.zeros((blocks, width)), jnp.zeros(blocks), jnp.ones(()))


def read(priorities: SumTree, leaf: Int[Array, " C"]) -> Float[Array, " C"]:
    """What leaves hold."""
    width = priorities.leaves.shape[1]
    return priorities.leaves[leaf // width, leaf % width]


def write(priorities: SumTree, leaf: Int[Array, " C"], value: Float[Array, "..."], where: Bool[Array, " C"]) -> SumTree:
    """New values for leaves; of equal leaves the last one counts."""
    blocks, width = priorities.leaves.shape
    order = jnp.arange(leaf.size)
    repeated = ((leaf[:, None] == leaf) & where & (order > order[:, None])).any(axis=1)
    block = leaf // width
    target = jnp.where(where & ~repeated, block, blocks)
    leaves = priorities.leaves.at[target, leaf % width].set(value, mode="drop")
    # Summed anew, not adjusted by the difference, so that rounding never gathers.
    sums = priorities.sums.at[block].set(leaves[block].sum(axis=-1))
    return priorities._replace(leaves=leaves, sums=sums)


def sample(
    priorities: SumTree, low: Float[Array, " B"], high: Float[Array, " B"], key: Key[Array, ""]
) -> Int[Array, " B"]:
    """One leaf out of each part [low, high) of the whole mass, bounds being shares of it.

    A first number picks the block and a second one the place within it, so that float32 can reach each of a million.
    """
    coarse, fine = jax.random.uniform(key, (2, low.size))
    after = jnp.cumsum(priorities.sums)
    start, stop = low * after[-1], high * after[-1]
    block = jax.vmap(_reached, in_axes=(None, None, 0))(after, priorities.sums, start + coarse * (stop - start))
    inside = priorities.sums[block]
    before = after[block] - inside
    start, stop = jnp.maximum(start - before, 0.0), jnp.minimum(stop - before, inside)
    row = priorities.leaves[block]
    place = jax.vmap(_reached)(jnp.cumsum(row, axis=-1), row, start + fine * jnp.maximum(stop - start, 0.0))
    return (block * priorities.leaves.shape[1] + place).astype(jnp.int32)


def _reached(after: Float[Array, " N"], weight: Float[Array, " N"], mass: Float[Array, ""]) -> Int[Array, ""]:
    """The first of positive weight whose running sum passes the mass; rounding past the end means the last of them."""
    positive = weight > 0
    passed = positive & (after > mass)
    last = weight.size - 1 - jnp.argmax(positive[::-1])
    return jnp.where(passed.any(), jnp.argmax(passed), last)
