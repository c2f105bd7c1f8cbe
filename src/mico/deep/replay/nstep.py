"""Windows of n steps: where they stop, when they are complete, and the batch that they make."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from mico.deep.replay.frame_stack import stack_frames, unflatten
from mico.deep.replay.ring import TERMINAL, TIMEOUT, ReplayState, read
from mico.deep.types import Batch, FirstTransition


class Window(NamedTuple):
    """Windows of `length` steps, or fewer where an episode ends; the discount may be traced."""

    length: int
    discount: Float[Array, ""] | float


class _Stops(NamedTuple):
    """How many steps windows have, and how the last of them ended."""

    length: Int[Array, " W"]
    end: Int[Array, " W"]


def find_completion(memory: ReplayState, first: Int[Array, " W"], window: Window) -> Int[Array, " W"]:
    """The step with which windows have all that they need, -1 if that never comes."""
    length, end = _stops(memory, first, window)
    if memory.layout.next == "true-frame":
        return first + length - (end > 0)
    return jnp.where(end == TIMEOUT, -1, first + length)


def gather_batch(memory: ReplayState, first: Int[Array, " B"], weight: Float[Array, " B"], window: Window) -> Batch:
    """The windows that begin with given steps, from one gather of frames."""
    stack = memory.layout.stack
    start = jax.tree.map(lambda ring: read(ring, first), memory.steps)
    around = jnp.arange(1 - stack, window.length + 1, dtype=jnp.int32)
    rows = read(memory.frames, start.frame[:, None] + around)
    age = start.age.astype(jnp.int32)
    one = _Stops(jnp.ones_like(first), start.end.astype(jnp.int32))
    first_next = _led_to(memory, rows[:, 1 : stack + 1], age, one)
    stops, later = one, first_next
    if window.length > 1:
        stops = _stops(memory, first, window)
        ahead = jax.vmap(lambda row, by: jax.lax.dynamic_slice_in_dim(row, by, stack))(rows, stops.length)
        later = _led_to(memory, ahead, age, stops)
    reward, powers = _rewards(memory, first, stops, window)
    terminal = stops.end == TERMINAL
    return Batch(
        observation=_observations(memory, rows[:, :stack], age),
        action=start.action,
        reward=reward,
        next_observation=later,
        terminal=terminal,
        discount=jnp.where(terminal, 0.0, powers[stops.length]),
        bootstrap=powers[-1],
        weight=weight,
        first=FirstTransition(start.reward, first_next, one.end == TERMINAL),
    )


def _stops(memory: ReplayState, first: Int[Array, " W"], window: Window) -> _Stops:
    order = jnp.arange(window.length, dtype=jnp.int32)
    ends = read(memory.steps.end, first[:, None] + order).astype(jnp.int32)
    length = jnp.where(ends > 0, order + 1, window.length).min(axis=1)
    return _Stops(length, jnp.where(order + 1 == length[:, None], ends, 0).max(axis=1))


def _rewards(
    memory: ReplayState, first: Int[Array, " B"], stops: _Stops, window: Window
) -> tuple[Float[Array, " B"], Float[Array, " powers"]]:
    r"""$\sum_{k<m} \gamma^k r_k$ of windows of m steps, and the powers $\gamma^0 \dots \gamma^n$."""
    order = jnp.arange(window.length, dtype=jnp.int32)
    rewards = read(memory.steps.reward, first[:, None] + order)
    powers = jnp.asarray(window.discount, rewards.dtype) ** jnp.arange(window.length + 1)
    return jnp.where(order < stops.length[:, None], powers[:-1] * rewards, 0.0).sum(axis=1), powers


def _led_to(
    memory: ReplayState, rows: Shaped[Array, "B stack row"], age: Int[Array, " B"], stops: _Stops
) -> Shaped[Array, "B ..."]:
    """What windows lead to: by Dopamine's way a blank frame behind a terminal, if frames are stacked."""
    stack = memory.layout.stack
    if memory.layout.next == "reset-frame" and stack > 1:
        newest = jnp.arange(stack) == stack - 1
        rows = jnp.where(((stops.end == TERMINAL)[:, None] & newest)[:, :, None], jnp.zeros((), rows.dtype), rows)
    return _observations(memory, rows, jnp.minimum(age + stops.length, stack - 1))


def _observations(
    memory: ReplayState, rows: Shaped[Array, "B stack row"], age: Int[Array, " B"]
) -> Shaped[Array, "B ..."]:
    """Stacks of rows as observations, with zeros for the frames before an episode's first."""
    before = jnp.arange(memory.layout.stack - 1, -1, -1, dtype=jnp.int32)
    seen = jnp.where((before <= age[:, None])[:, :, None], rows, jnp.zeros((), rows.dtype))
    return jax.vmap(lambda rows: stack_frames(unflatten(rows, memory.layout.spec)))(seen)
