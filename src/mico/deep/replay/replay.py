"""The replay of one run, on the device: which steps it keeps and which windows of steps it draws."""

from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from mico.deep.fields import check_choices, check_minimum, static_field
from mico.deep.replay import frame_stack, sum_tree
from mico.deep.replay.nstep import Window, find_completion, gather_batch
from mico.deep.replay.ring import Layout, ReplayState, append, init_replay
from mico.deep.types import Batch, Spec, Timestep

_LEAST = 1e-10  # keeps priorities and weights off 0


class Replay(eqx.Module):
    """Room for `capacity` frames, and how windows are drawn from it.

    With next="true-frame" windows may end with an episode, on its true last frame. With "reset-frame", as in Dopamine,
    a terminal leads to what is written next, a blank frame after the old ones or, where frames are not stacked, the
    first of the next episode; and no window has a time-out in it.
    """

    capacity: int = static_field(1_000_000, "Frames that the replay holds.")
    batch_size: int = static_field(32, "Transitions in the batch of an update.")
    stack: int = static_field(1, "Successive frames that are stacked to an observation.")
    sampling: Literal["uniform", "prioritised"] = static_field(
        "uniform", "How transitions are sampled from the replay."
    )
    next: Literal["true-frame", "reset-frame"] = static_field(
        "true-frame",
        "Next frame of an episode's last transition: the episode's true last frame, or as in Dopamine the first frame"
        " written after the reset.",
    )

    def __check_init__(self) -> None:
        check_choices(self)
        check_minimum(self, batch_size=1, stack=1)
        if self.stack > 256:  # ages are bytes
            raise ValueError(f"stack must be at most 256, but is {self.stack}")
        check_minimum(self, capacity=self.stack + 2)
        if self.capacity >= 2**31:  # frames have numbers of 32 bits
            raise ValueError(f"capacity must be below 2³¹, but is {self.capacity}")

    def init(self, spec: Spec) -> ReplayState:
        """An empty memory."""
        # With true frames what can be drawn is one range of steps, and uniform draws from it need no weights.
        ranged = self.sampling == "uniform" and self.next == "true-frame"
        weights = None if ranged else sum_tree.empty(self.capacity)
        return init_replay(self.capacity, Layout(spec, self.stack, self.next), weights)

    def observation_shape(self, spec: Spec) -> tuple[int, ...]:
        """Of frames stacked as the network sees them."""
        stack = jax.ShapeDtypeStruct((self.stack, *spec.shape), spec.dtype)
        return jax.eval_shape(frame_stack.stack_frames, stack).shape

    def size(self, spec: Spec) -> int:
        """The bytes that the memory of one run takes."""
        leaves = jax.tree.leaves(jax.eval_shape(lambda: self.init(spec)))
        return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)

    def add(self, memory: ReplayState, steps: Timestep, time: Int[Array, ""], window: Window) -> ReplayState:
        """The memory after k more steps, `time` of them having been added before."""
        count = steps.action.shape[0]
        self.check_capacity(window, count)
        left = memory.leaving(count)
        memory = append(memory, steps, time)
        if memory.priorities is None:
            return memory
        first = time + jnp.arange(-window.length, count, dtype=jnp.int32)
        complete = find_completion(memory, first, window)
        came = (complete >= time) & (complete < time + count) & (first >= memory.oldest)
        weights = sum_tree.write(
            memory.priorities,
            jnp.concatenate([left, first]) % self.capacity,
            jnp.append(jnp.zeros(left.size), jnp.full(first.size, memory.priorities.largest)),
            jnp.append(left < memory.oldest, came),
        )
        return replace(memory, priorities=weights)

    def can_sample(self, memory: ReplayState, time: Int[Array, ""], window: Window) -> Bool[Array, ""]:
        """Whether there is a window to draw after `time` steps."""
        if memory.priorities is None:
            return _newest(memory, time, window) >= memory.oldest
        return memory.priorities.sums.max() > 0

    def sample(
        self, memory: ReplayState, time: Int[Array, ""], window: Window, key: Key[Array, ""]
    ) -> tuple[Batch, Int[Array, " B"]]:
        """A batch and the numbers of its windows' first steps; of no meaning unless `can_sample`."""
        self.check_capacity(window, 1)
        first, weight = self._draw(memory, time, window, key)
        return gather_batch(memory, first, weight, window), first

    def update_priorities(self, memory: ReplayState, ids: Int[Array, " B"], losses: Float[Array, " B"]) -> ReplayState:
        r"""Priorities $\sqrt{\ell + 10^{-10}}$ for windows drawn before; uniform replay stays as it is.

        Windows that are gone and losses that are not finite change nothing.
        """
        if memory.priorities is None or self.sampling == "uniform":
            return memory
        leaf, value = ids % self.capacity, jnp.sqrt(losses + _LEAST)
        here = (ids >= memory.oldest) & (sum_tree.read(memory.priorities, leaf) > 0) & jnp.isfinite(value)
        weights = sum_tree.write(memory.priorities, leaf, value, here)
        largest = jnp.maximum(weights.largest, jnp.where(here, value, 0.0).max())
        return replace(memory, priorities=weights._replace(largest=largest))

    def check_capacity(self, window: Window, count: int) -> None:
        """Refuse a capacity that windows, or so many steps at once, do not fit in."""
        if window.length < 1:
            raise ValueError(f"window.length must be at least 1, but is {window.length}")
        least = max(window.length + self.stack + 1, 2 * count)
        if self.capacity < least:
            raise ValueError(
                f"capacity must be at least {least}, but is {self.capacity}: "
                f"windows have {window.length} steps, observations {self.stack} frames, and {count} steps come at once"
            )

    def _draw(
        self, memory: ReplayState, time: Int[Array, ""], window: Window, key: Key[Array, ""]
    ) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
        """First steps of windows, and their weights: one from each of B equal parts of the mass if prioritised."""
        count, even = self.batch_size, jnp.ones(self.batch_size)
        if memory.priorities is None:
            choices = jnp.maximum(_newest(memory, time, window) - memory.oldest + 1, 1)
            return memory.oldest + jax.random.randint(key, (count,), 0, choices, jnp.int32), even
        part = jnp.arange(count) / count
        low, high = (0 * even, even) if self.sampling == "uniform" else (part, part + 1 / count)
        leaf = sum_tree.sample(memory.priorities, low, high, key)
        newest = time - 1
        first = newest - (newest - leaf) % self.capacity
        if self.sampling == "uniform":
            return first, even
        weight = jax.lax.rsqrt(sum_tree.read(memory.priorities, leaf) + _LEAST)
        return first, weight / weight.max()


def _newest(memory: ReplayState, time: Int[Array, ""], window: Window) -> Int[Array, ""]:
    """The last window that is complete, be it by an episode's end or by the frame after its n-th step."""
    return jnp.maximum(time - 1 - window.length, memory.last_end)
