"""What host and device tell each other at every step, in memory of the host that the device reaches by itself.

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
from jaxtyping import Array, Float, Int, Key, Num, Shaped, UInt8, UInt32

from mico.deep.fleet.engine import ChunkMetrics
from mico.deep.learner.state import EpisodeEnd, UpdateMetrics
from mico.deep.types import Spec, Timestep

_NUMBERS = len(EpisodeEnd._fields) + len(UpdateMetrics._fields)  # of a result, before those of the action
_ENDS = 3  # numbers of a step beside its action: reward, terminal, truncated
_PATIENCE = 1e-3  # seconds: steps are done by then, where no update is before them


def on_host(device: Any) -> Any:
    """Where arrays lie that both can reach."""
    return device.with_memory_kind("pinned_host")


class StepBuffer:
    """Steps of N runs as bytes, which programs read where they lie.

    `newest` is all that acting needs to know of a step, `block` what the replay stores of the last `length` steps.
    Either may be written while no program that reads it runs.
    """

    def __init__(self, count: int, length: int, spec: Spec, clock_size: int, device: Any):
        frame, size = _frame_bytes(spec), math.prod(spec.action_shape)
        newest = np.zeros((count, frame + 4 * _ENDS + clock_size), np.uint8)
        block = np.zeros((count, length, 2 * frame + 4 * (size + _ENDS)), np.uint8)
        self.newest, self.block = jax.block_until_ready(jax.device_put((newest, block), on_host(device)))
        rows, steps = host_view(self.newest), host_view(self.block)
        self._reset_frame, self._clock = rows[:, :frame].view(spec.dtype), rows[:, frame + 4 * _ENDS :]
        self._ends = rows[:, frame : frame + 4 * _ENDS].view(np.float32)
        self._frames = [steps[:, :, at : at + frame].view(spec.dtype) for at in (0, frame)]
        self._actions = steps[:, :, 2 * frame : 2 * frame + 4 * size].view(np.float32)
        self._block_ends = steps[:, :, 2 * frame + 4 * size :].view(np.float32)
        self._count, self._size = count, size

    def write(self, step: Timestep, clock: UInt8[np.ndarray, "N bytes"], slot: int) -> None:
        """Write the newest step, and the time and keys by which to act after it; in the block it takes a slot."""
        flat = self._count, -1
        self._reset_frame[...] = step.reset_frame.reshape(flat)
        ends = self._ends
        ends[:, 0], ends[:, 1], ends[:, 2] = step.reward, step.terminal, step.truncated
        self._clock[...] = clock
        before, after = self._frames
        before[:, slot], after[:, slot] = step.observation_frame.reshape(flat), step.next_frame.reshape(flat)
        self._actions[:, slot] = step.action.reshape(flat)
        self._block_ends[:, slot] = ends


def encode_clock(
    times: Int[np.ndarray, " T"], words: UInt32[np.ndarray, "T N words"]
) -> UInt8[np.ndarray, "T N bytes"]:
    """Write times, and the words of the keys by which to act then, as bytes."""
    stamps = np.broadcast_to(times.astype(np.int32)[:, None, None], (*words.shape[:2], 1))
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in (stamps, words)], axis=-1)


def decode_newest(row: UInt8[Array, " bytes"], spec: Spec) -> tuple[Timestep, Int[Array, ""], Key[Array, " K"]]:
    """Read what acting needs to know of a step, and the time and keys by which to act after it."""
    frame = _frame_bytes(spec)
    reset_frame, ends, stamp, words = jnp.split(row, [frame, frame + 4 * _ENDS, frame + 4 * _ENDS + 4])
    reward, terminal, truncated = _read(ends, "float32")
    keys = jax.random.wrap_key_data(_read(words, "uint32").reshape(_KEYS, -1))
    seen = _read(reset_frame, spec.dtype).reshape(spec.shape)
    return Timestep(reward, None, terminal > 0, truncated > 0, seen), _read(stamp, "int32")[0], keys


def decode_block(rows: UInt8[Array, "T bytes"], spec: Spec) -> Timestep:
    """Read what the replay stores of several steps."""
    frame, steps = _frame_bytes(spec), len(rows)
    before, after, rest = jnp.split(rows, [frame, 2 * frame], axis=1)
    before, after = (_read(part.reshape(-1), spec.dtype).reshape(steps, *spec.shape) for part in (before, after))
    numbers = _read(rest.reshape(-1), "float32").reshape(steps, -1)
    action = numbers[:, :-_ENDS].reshape(steps, *spec.action_shape).astype(spec.action_dtype)
    reward, terminal, truncated = numbers[:, -_ENDS:].T
    return Timestep(reward, after, terminal > 0, truncated > 0, observation_frame=before, action=action)


def host_view(array: Num[Array, "..."]) -> Num[np.ndarray, "..."]:
    """Look at an array that lies on the host, without a copy."""
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.unsafe_buffer_pointer())
    return np.ctypeslib.as_array(memory).view(array.dtype).reshape(array.shape)


def fetch(array: Num[Array, "N K"]) -> Num[np.ndarray, "N K"]:
    """Wait for what a program leaves on the host, and return it.

    Beside another device by polling first: to be woken up takes longer than most steps.
    """
    if jax.default_backend() == "cpu":
        return np.asarray(array)
    spin_until(cast(Any, array).is_ready)
    return host_view(array.block_until_ready()).copy()


def spin_until(ready: Callable[[], bool]) -> None:
    """Ask for a while whether something is ready, and let other threads work meanwhile.

    Without a sleep: even one of no time at all takes as long as many kernels.
    """
    end = clock.perf_counter() + _PATIENCE
    while not ready() and clock.perf_counter() < end:
        select.select((), (), (), 0)


def encode_result(
    ended: EpisodeEnd, losses: UpdateMetrics | None, action: Shaped[Array, "..."]
) -> Float[Array, " numbers"]:
    """Join all that the host must know of a step."""
    numbers = *ended, *(losses or [0.0] * len(UpdateMetrics._fields)), jnp.ravel(action)
    return jnp.hstack([jnp.asarray(number, dtype=float) for number in numbers])


def encode_losses(losses: UpdateMetrics) -> Float[Array, "N numbers"]:
    """Join the losses of an update that is made after the result of its step was sent."""
    return jnp.stack([jnp.asarray(number, dtype=float) for number in losses], axis=-1)


def decode_losses(results: Float[np.ndarray, "N numbers"]) -> Float[np.ndarray, "N losses"]:
    """Read the losses in a step's results."""
    return results[:, len(EpisodeEnd._fields) : _NUMBERS]


def decode_actions(results: Float[np.ndarray, "N numbers"], spec: Spec) -> Shaped[np.ndarray, "N ..."]:
    """Read the actions in a step's results."""
    return cast_actions(results[:, _NUMBERS:], spec)


def cast_actions(numbers: Num[np.ndarray, "N ..."], spec: Spec) -> Shaped[np.ndarray, "N ..."]:
    """Cast numbers to actions of the shape and type that environments take."""
    return numbers.reshape(-1, *spec.action_shape).astype(spec.action_dtype)


def decode_chunk(
    results: Sequence[Float[np.ndarray, "N numbers"]], losses: Sequence[Float[np.ndarray, "N losses"]] | None
) -> ChunkMetrics:
    """Read the results of a chunk's steps, and the losses of its updates unless it did not learn."""
    over, *others = np.moveaxis(np.stack(results), -1, 0)[: len(EpisodeEnd._fields)]
    ended = EpisodeEnd(over > 0, *others)
    if losses is None:
        return ChunkMetrics(ended, None)
    shape = len(losses), len(results[0]), len(UpdateMetrics._fields)  # there may be none
    applied, *values = cast(Any, np.array(losses)).reshape(shape).transpose(2, 0, 1)
    return ChunkMetrics(ended, UpdateMetrics(applied > 0, *values))


_KEYS = 3  # of a step: for action values, exploration and the environment


def _frame_bytes(spec: Spec) -> int:
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def _read(part: UInt8[Array, " K"], dtype: str) -> Shaped[Array, " L"]:
    """Read numbers that were sent as bytes."""
    size = np.dtype(dtype).itemsize
    return part.astype(dtype) if size == 1 else jax.lax.bitcast_convert_type(part.reshape(-1, size), dtype)
