"""What host and device tell each other after every step, in memory of the host that the device reaches by itself.

A copy would wait for threads to wake up, which takes longer than to act.
"""

import ctypes
import math
import select
import time as clock
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, Shaped, UInt8

from mico.deep.fleet.jax_engine import Happened
from mico.deep.learner.state import EpisodeEnd, UpdateMetrics
from mico.deep.types import Spec, Timestep

_NUMBERS = len(EpisodeEnd._fields) + len(UpdateMetrics._fields)  # of a note, before those of the action
_PATIENCE = 1e-3  # seconds: steps are done by then, where no update is before them


def on_host(device: Any) -> Any:
    """Where arrays lie that both can reach."""
    return device.with_memory_kind("pinned_host")


class Rows:
    """A step of each run as bytes, one array however many things it is made of; programs read it where it lies.

    Two frames; action, reward, terminal and time-out as numbers; and the time. It may be written while no program that
    reads it runs.
    """

    def __init__(self, count: int, spec: Spec, device: Any):
        pixels, size = _pixels(spec), math.prod(spec.action_shape)
        width = 2 * pixels + 4 * (size + 3) + 4
        self.array = jax.device_put(np.zeros((count, width), np.uint8), on_host(device)).block_until_ready()
        rows = seen(self.array)
        self._frame, self._next_frame = (rows[:, at : at + pixels].view(spec.dtype) for at in (0, pixels))
        self._numbers, self._time = rows[:, 2 * pixels : -4].view(np.float32), rows[:, -4:].view(np.int32)
        self._count, self._size = count, size

    def write(self, step: Timestep, time: int) -> None:
        self._frame[...] = step.reset_frame.reshape(self._count, -1)
        self._next_frame[...] = step.next_frame.reshape(self._count, -1)
        self._numbers[:, : self._size] = step.action.reshape(self._count, -1)
        for at, ends in enumerate((step.reward, step.terminal, step.truncated), start=self._size):
            self._numbers[:, at] = ends
        self._time[...] = time


def seen(array: Num[Array, "N K"]) -> Num[np.ndarray, "N K"]:
    """What lies on the host, without a copy."""
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.unsafe_buffer_pointer())
    return np.ctypeslib.as_array(memory).view(array.dtype).reshape(array.shape)


def awaited(array: Num[Array, "N K"]) -> Num[np.ndarray, "N K"]:
    """What a program leaves on the host; to be woken up when it does takes longer than to ask again and again."""
    ask(cast(Any, array).is_ready)
    return left(array)


def ask(ready: Callable[[], bool]) -> None:
    """Asks for a while, till it is so, and lets other threads go on meanwhile.

    Without a sleep: even one of no time at all takes as long as many kernels.
    """
    end = clock.perf_counter() + _PATIENCE
    while not ready() and clock.perf_counter() < end:
        select.select((), (), (), 0)


def left(array: Num[Array, "N K"]) -> Num[np.ndarray, "N K"]:
    """What a program leaves on the host, once it is done, in memory of our own."""
    return seen(array.block_until_ready()).copy()


def taken(row: UInt8[Array, " K"], stack: Shaped[Array, "S ..."], spec: Spec) -> tuple[Timestep, Int[Array, ""]]:
    """What a row says, and when; the newest frame of the stack is what was seen before."""
    pixels = _pixels(spec)
    frame, next_frame, rest = jnp.split(row, [pixels, 2 * pixels])
    frame, next_frame = (_read(part, spec.dtype).reshape(spec.shape) for part in (frame, next_frame))
    numbers, (time,) = _read(rest[:-4], "float32"), _read(rest[-4:], "int32")
    action = numbers[:-3].reshape(spec.action_shape).astype(spec.action_dtype)
    reward, terminal, truncated = numbers[-3:]
    return Timestep(reward, next_frame, terminal > 0, truncated > 0, frame, stack[-1], action), time


def note(ended: EpisodeEnd, losses: UpdateMetrics | None, action: Shaped[Array, "..."]) -> Float[Array, " numbers"]:
    """All that the host must know of a step."""
    numbers = *ended, *(losses or [0.0] * len(UpdateMetrics._fields)), jnp.ravel(action)
    return jnp.hstack([jnp.asarray(number, dtype=float) for number in numbers])


def noted(losses: UpdateMetrics) -> Float[Array, "N numbers"]:
    """The losses of an update that comes after the note of its step."""
    return jnp.stack([jnp.asarray(number, dtype=float) for number in losses], axis=-1)


def noted_losses(notes: Float[np.ndarray, "N numbers"]) -> Float[np.ndarray, "N losses"]:
    return notes[:, len(EpisodeEnd._fields) : _NUMBERS]


def noted_actions(notes: Float[np.ndarray, "N numbers"], spec: Spec) -> Shaped[np.ndarray, "N ..."]:
    return spelt(notes[:, _NUMBERS:], spec)


def spelt(numbers: Num[np.ndarray, "N ..."], spec: Spec) -> Shaped[np.ndarray, "N ..."]:
    """Actions, of which only the numbers were kept, as environments take them."""
    return numbers.reshape(-1, *spec.action_shape).astype(spec.action_dtype)


def happened(
    notes: Sequence[Float[np.ndarray, "N numbers"]], losses: Sequence[Float[np.ndarray, "N losses"]] | None
) -> Happened:
    """What the notes of a chunk say, and the losses of its updates, unless it did not learn."""
    over, *others = np.moveaxis(np.stack(notes), -1, 0)[: len(EpisodeEnd._fields)]
    ended = EpisodeEnd(over > 0, *others)
    if losses is None:
        return Happened(ended, None)
    shape = len(losses), len(notes[0]), len(UpdateMetrics._fields)  # there may be none
    updated, *values = cast(Any, np.array(losses)).reshape(shape).transpose(2, 0, 1)
    return Happened(ended, UpdateMetrics(updated > 0, *values))


def _pixels(spec: Spec) -> int:
    """Bytes of a frame."""
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def _read(part: UInt8[Array, " K"], dtype: str) -> Shaped[Array, " L"]:
    """Numbers that were sent as bytes."""
    size = np.dtype(dtype).itemsize
    return part.astype(dtype) if size == 1 else jax.lax.bitcast_convert_type(part.reshape(-1, size), dtype)
