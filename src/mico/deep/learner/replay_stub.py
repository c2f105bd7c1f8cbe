"""Checkpoints without the replay: what is kept of a memory, and the empty one that is filled again after it."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int, UInt8

from mico.deep.config.run import Run
from mico.deep.replay.replay import Memory
from mico.deep.types import Spec


class Remains(NamedTuple):
    """What the next step of each run has to know of the memory, its frames and steps left out."""

    num_frames: Int[Array, " N"]
    next_age: UInt8[Array, " N"]
    last_end: Int[Array, " N"]
    largest: Float[Array, " N"] | None


def remains(memory: Memory) -> Remains:
    largest = None if memory.priorities is None else memory.priorities.largest
    return Remains(memory.num_frames, memory.next_age, memory.last_end, largest)


@partial(jax.jit, static_argnames="spec")
def emptied(fleet: Run, kept: Remains, time: Int[Array, ""], *, spec: Spec) -> Memory:
    """Memories whose first step is the one after `time` that sees none of the frames which are gone."""

    def one(run: Run, kept: Remains) -> Memory:
        memory = run.replay.init(spec)
        weights = None if memory.priorities is None else memory.priorities._replace(largest=kept.largest)
        rings = {"num_frames": kept.num_frames, "next_age": kept.next_age, "last_end": kept.last_end}
        return replace(memory, **rings, oldest=time + run.replay.stack - 1, priorities=weights)

    return jax.vmap(one)(fleet, kept)
