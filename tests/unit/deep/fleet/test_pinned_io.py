"""What host and device tell each other comes out as it went in."""

import sys
import threading
import time as clock
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.fleet import pinned_io
from mico.deep.learner.state import EpisodeEnd, UpdateMetrics
from mico.deep.types import Spec, Timestep

SPECS = {
    "grey pictures": Spec((5, 3), "uint8", 4),
    "numbers": Spec((3,), "float32", 2),
    "torques": Spec((2, 2, 3), "uint8", 0, action_size=2),
    "nothing to see": Spec((1,), "bool", 2),
}
DEVICE = jax.sharding.SingleDeviceSharding(jax.devices()[0])


@pytest.mark.parametrize("name", SPECS)
def test_rows_say_what_was_written(name):
    spec, rng = SPECS[name], np.random.default_rng(3)
    words = rng.integers(0, 2**32, (2, 3, 6), dtype=np.uint32)
    clock = pinned_io.encode_clock(np.array([7, 2**30 + 1]), words)
    buffer = pinned_io.StepBuffer(3, 2, spec, clock.shape[-1], DEVICE)
    steps = []
    for index, time in enumerate((7, 2**30 + 1)):  # the second overwrites the newest step, and fills the block
        frame, next_frame = (rng.integers(0, 2, (3, *spec.shape)).astype(spec.dtype) for _ in range(2))
        actions = rng.uniform(-1, 1, (3, 2)).astype("float32") if spec.action_size else np.array([1, 0, 1], "int32")
        ends = np.array([0, 1, 0], bool), np.array([0, 0, 1], bool)
        rewards, before = np.array([0.25, -3.0, 1e4], "float32") + index, rng.integers(0, 2, frame.shape)
        steps.append(Timestep(rewards, next_frame, *ends, frame, before.astype(spec.dtype), actions))
        buffer.write(steps[-1], clock[index], index)
        read = jax.jit(jax.vmap(lambda row: pinned_io.decode_newest(row, spec)))
        newest, when, keys = read(buffer.newest)
        for found, wanted in zip(newest, steps[-1]._replace(next_frame=None, observation_frame=None, action=None)):
            np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(when, time)
        np.testing.assert_array_equal(jax.random.key_data(keys).reshape(3, 6), words[index])
    block = jax.jit(jax.vmap(lambda rows: pinned_io.decode_block(rows, spec)))(buffer.block)
    for found, *wanted in zip(block, *(step._replace(reset_frame=None) for step in steps), strict=True):
        if found is not None:
            np.testing.assert_array_equal(found, np.stack(wanted, axis=1))
            assert found.dtype == wanted[0].dtype


def test_results_say_what_happened_and_what_to_do_next():
    spec = SPECS["torques"]
    ended = [
        EpisodeEnd(jnp.array(over), jnp.float32(returned), jnp.int32(9))
        for over, returned in ((True, 2.5), (False, 1.0))
    ]
    losses = UpdateMetrics(jnp.array(True), jnp.float32(3.0), jnp.float32(1.0), jnp.float32(2.0))
    action = jnp.array([0.5, -1.0])
    notes = [np.asarray(pinned_io.encode_result(end, loss, action))[None] for end, loss in zip(ended, (None, losses))]
    found = pinned_io.decode_chunk(notes, [pinned_io.decode_losses(notes[1])])
    np.testing.assert_array_equal(found.ended.ended, [[True], [False]])
    np.testing.assert_array_equal(found.ended.returned, [[2.5], [1.0]])
    np.testing.assert_array_equal(found.ended.length, [[9], [9]])
    np.testing.assert_array_equal(np.array(found.losses), [[[True]], [[3.0]], [[1.0]], [[2.0]]])
    assert pinned_io.decode_chunk(notes, None).losses is None
    assert pinned_io.decode_chunk(notes, []).losses.td_loss.shape == (0, 1)
    later = pinned_io.encode_losses(jax.tree.map(lambda number: number[None], losses))
    np.testing.assert_array_equal(later, pinned_io.decode_losses(notes[1]))
    np.testing.assert_array_equal(pinned_io.decode_actions(notes[0], spec), [[0.5, -1.0]])


def test_what_is_awaited_stays_when_the_device_writes_again():
    host = pinned_io.on_host(DEVICE)
    made = jax.jit(lambda x: jax.device_put(x + 1, host), out_shardings=host)
    kept = [pinned_io.fetch(made(jnp.full((2, 2), float(value)))) for value in range(20)]
    np.testing.assert_array_equal([rows[0, 0] for rows in kept], np.arange(20) + 1.0)


def test_it_is_asked_till_it_is_so_or_patience_ends(monkeypatch):
    monkeypatch.setattr(pinned_io, "_PATIENCE", 60.0)
    fourth = Mock(side_effect=[False, False, False, True])
    pinned_io.spin_until(fourth)
    assert fourth.call_count == 4
    monkeypatch.setattr(pinned_io, "_PATIENCE", 0.1)
    never = Mock(return_value=False)
    pinned_io.spin_until(never)
    assert never.call_count > 1


def test_others_go_on_while_one_asks(monkeypatch):
    """Python itself would make it give way after a minute only."""
    monkeypatch.setattr(pinned_io, "_PATIENCE", 0.5)
    turns, over, interval = [], threading.Event(), sys.getswitchinterval()

    def other():
        while not over.is_set():
            clock.sleep(0.001)
            turns.append(None)

    thread = threading.Thread(target=other)
    sys.setswitchinterval(60.0)
    try:
        thread.start()
        pinned_io.spin_until(lambda: False)
        taken = len(turns)
    finally:
        sys.setswitchinterval(interval)
        over.set()
    thread.join()
    assert taken > 5
