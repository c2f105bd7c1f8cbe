"""Checkpoints without the replay: the few numbers that are saved of it, and the empty replay that replaces it."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int, UInt8

from mico.deep.replay.replay import Replay, ReplayState
from mico.deep.types import Spec


class ReplayStub(NamedTuple):
    """The part of each run's replay that later steps depend on, its frames and steps left out."""

    num_frames: Int[Array, " N"]
    next_age: UInt8[Array, " N"]
    last_end: Int[Array, " N"]
    largest: Float[Array, " N"] | None


def strip_replay(state: ReplayState) -> ReplayStub:
    """Leave out the frames and steps of a replay."""
    largest = None if state.priorities is None else state.priorities.largest
    return ReplayStub(state.num_frames, state.next_age, state.last_end, largest)


@partial(jax.jit, static_argnames="spec")
def empty_replay_from(replay: Replay, stub: ReplayStub, time: Int[Array, ""], *, spec: Spec) -> ReplayState:
    """Make empty replays that start at the first step after `time` whose frame stack lies entirely after it."""

    def make(stub: ReplayStub) -> ReplayState:
        state = replay.init(spec)
        weights = None if state.priorities is None else state.priorities._replace(largest=stub.largest)
        counts = {"num_frames": stub.num_frames, "next_age": stub.next_age, "last_end": stub.last_end}
        return replace(state, **counts, oldest=time + replay.stack - 1, priorities=weights)

    return jax.vmap(make)(stub)
