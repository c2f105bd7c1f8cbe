"""What a replay holds: a ring of single frames and a ring of steps.

Frames and steps are numbered from the run's start, and number i lies at i mod capacity. The frame numbered after a
step's own is always where the step led, so an ended episode's last frame takes a place of its own; with the layout
"reset-frame" it takes none, and the next episode's first frame comes there instead.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt8

from mico.deep.replay.frame_stack import flatten
from mico.deep.replay.sum_tree import SumTree
from mico.deep.types import Spec, Timestep

TERMINAL, TIMEOUT = 1, 2  # how a step ended its episode; 0 where it did not


class Layout(NamedTuple):
    """What frames are, how many an observation has, and which one follows an episode's last step."""

    spec: Spec
    stack: int
    next: Literal["true-frame", "reset-frame"]


class StepColumns(NamedTuple):
    """Steps: the number of the frame seen, and how many frames before it belong to the same stack."""

    frame: Int[Array, " k"]
    age: UInt8[Array, " k"]
    action: Shaped[Array, "k ..."]
    reward: Float[Array, " k"]
    end: UInt8[Array, " k"]


class ReplayState(eqx.Module):
    """Frames as rows, steps, and what sampling has to know of them."""

    layout: Layout = eqx.field(static=True)
    frames: Shaped[Array, "capacity row"]
    steps: StepColumns
    num_frames: Int[Array, ""]
    next_age: UInt8[Array, ""]
    oldest: Int[Array, ""]  # the first step whose stack is still here
    last_end: Int[Array, ""]  # the newest step that ended an episode, -1 before there is one
    priorities: SumTree | None

    @property
    def capacity(self) -> int:
        return self.frames.shape[0]

    def leaving(self, count: int) -> Int[Array, " E"]:
        """The oldest steps, as many as could leave when `count` steps and as many last frames come."""
        return self.oldest + jnp.arange(2 * count + self.layout.stack - 1, dtype=jnp.int32)


def init_replay(capacity: int, layout: Layout, weights: SumTree | None) -> ReplayState:
    """Nothing yet. Each array is one of its own, so that all can be donated."""
    spec = layout.spec
    row = flatten(jnp.zeros((1, *spec.shape), spec.dtype), spec)[0]
    return ReplayState(
        layout=layout,
        frames=jnp.zeros((capacity, *row.shape), row.dtype),
        steps=StepColumns(
            frame=jnp.zeros(capacity, jnp.int32),
            age=jnp.zeros(capacity, jnp.uint8),
            action=jnp.zeros((capacity, *spec.action_shape), spec.action_dtype),
            reward=jnp.zeros(capacity),
            end=jnp.zeros(capacity, jnp.uint8),
        ),
        num_frames=jnp.zeros((), jnp.int32),
        next_age=jnp.zeros((), jnp.uint8),
        oldest=jnp.zeros((), jnp.int32),
        last_end=jnp.full((), -1, jnp.int32),
        priorities=weights,
    )


def read(ring: Shaped[Array, "capacity ..."], numbers: Int[Array, "..."]) -> Shaped[Array, "..."]:
    """What a ring holds under these numbers."""
    return ring.at[numbers % ring.shape[0]].get(mode="promise_in_bounds")


def append(memory: ReplayState, steps: Timestep, time: Int[Array, ""]) -> ReplayState:
    """Both rings after k more steps, `time` of them having come before, and without what these overwrote."""
    count = steps.action.shape[0]
    order = jnp.arange(count, dtype=jnp.int32)
    numbers = time + order
    ended = steps.ended
    kept = ended if memory.layout.next == "true-frame" else jnp.zeros_like(ended)
    frame = memory.num_frames + order + jnp.cumsum(kept, dtype=jnp.int32) - kept
    age, next_age = _ages(memory, ended)
    end = jnp.where(steps.terminal, TERMINAL, jnp.where(steps.truncated, TIMEOUT, 0))
    new, place = StepColumns(frame, age, steps.action, steps.reward, end.astype(jnp.uint8)), numbers % memory.capacity
    memory = replace(
        memory,
        frames=_with_frames(memory, steps, frame, kept),
        steps=jax.tree.map(lambda ring, value: ring.at[place].set(value.astype(ring.dtype)), memory.steps, new),
        num_frames=memory.num_frames + count + kept.sum(dtype=jnp.int32),
        next_age=next_age,
        last_end=jnp.maximum(memory.last_end, jnp.where(ended, numbers, -1).max()),
    )
    return replace(memory, oldest=_oldest(memory, time + count, count))


def _with_frames(
    memory: ReplayState, steps: Timestep, frame: Int[Array, " k"], kept: Bool[Array, " k"]
) -> Shaped[Array, "capacity row"]:
    """The ring of frames after one scatter, which drops the last frames that are not kept."""
    slot, row = frame % memory.capacity, flatten(steps.observation_frame, memory.layout.spec)
    if memory.layout.next == "true-frame":
        slot = jnp.concatenate([slot, jnp.where(kept, (frame + 1) % memory.capacity, memory.capacity)])
        row = jnp.concatenate([row, flatten(steps.next_frame, memory.layout.spec)])
    return memory.frames.at[slot].set(row, mode="drop")


def _ages(memory: ReplayState, ended: Bool[Array, " k"]) -> tuple[UInt8[Array, " k"], UInt8[Array, ""]]:
    """Frames of its episode before each step's, and before the frame to come, as far as a stack goes back."""
    order = jnp.arange(ended.size + 1, dtype=jnp.int32)
    start = -memory.next_age.astype(jnp.int32)
    starts = jax.lax.cummax(jnp.append(start, jnp.where(ended, order[1:], start)))
    ages = jnp.minimum(order - starts, memory.layout.stack - 1).astype(jnp.uint8)
    return ages[:-1], ages[-1]


def _oldest(memory: ReplayState, time: Int[Array, ""], count: int) -> Int[Array, ""]:
    """Steps leave in order, so those that left are counted."""
    step = memory.leaving(count)
    earliest = read(memory.steps.frame, step) - read(memory.steps.age, step)
    overwritten = (step < time - memory.capacity) | (earliest < memory.num_frames - memory.capacity)
    return memory.oldest + (overwritten & (step < time)).sum(dtype=jnp.int32)
