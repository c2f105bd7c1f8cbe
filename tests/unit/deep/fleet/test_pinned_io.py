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
def test_a_row_says_what_was_written(name):
    spec, rng = SPECS[name], np.random.default_rng(3)
    rows = pinned_io.Rows(3, spec, DEVICE)
    for time in (7, 2**30 + 1):  # the second overwrites the first
        frame, next_frame = (rng.integers(0, 2, (3, *spec.shape)).astype(spec.dtype) for _ in range(2))
        actions = rng.uniform(-1, 1, (3, 2)).astype("float32") if spec.action_size else np.array([1, 0, 1], "int32")
        ends = np.array([0, 1, 0], bool), np.array([0, 0, 1], bool)
        step = Timestep(np.array([0.25, -3.0, 1e4], "float32"), next_frame, *ends, reset_frame=frame, action=actions)
        rows.write(step, time)
        stack = jnp.asarray(rng.integers(0, 2, (3, 2, *spec.shape)).astype(spec.dtype))
        read, when = jax.jit(jax.vmap(lambda row, stack: pinned_io.taken(row, stack, spec)))(rows.array, stack)
        for found, wanted in zip(read, step._replace(observation_frame=stack[:, -1]), strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(when, time)


def test_notes_say_what_happened_and_what_to_do_next():
    spec = SPECS["torques"]
    ended = [
        EpisodeEnd(jnp.array(over), jnp.float32(returned), jnp.int32(9))
        for over, returned in ((True, 2.5), (False, 1.0))
    ]
    losses = UpdateMetrics(jnp.array(True), jnp.float32(3.0), jnp.float32(1.0), jnp.float32(2.0))
    action = jnp.array([0.5, -1.0])
    notes = [np.asarray(pinned_io.note(end, loss, action))[None] for end, loss in zip(ended, (None, losses))]
    found = pinned_io.happened(notes, [pinned_io.noted_losses(notes[1])])
    np.testing.assert_array_equal(found.ended.ended, [[True], [False]])
    np.testing.assert_array_equal(found.ended.returned, [[2.5], [1.0]])
    np.testing.assert_array_equal(found.ended.length, [[9], [9]])
    np.testing.assert_array_equal(np.array(found.losses), [[[True]], [[3.0]], [[1.0]], [[2.0]]])
    assert pinned_io.happened(notes, None).losses is None
    assert pinned_io.happened(notes, []).losses.td_loss.shape == (0, 1)
    later = pinned_io.noted(jax.tree.map(lambda number: number[None], losses))
    np.testing.assert_array_equal(later, pinned_io.noted_losses(notes[1]))
    np.testing.assert_array_equal(pinned_io.noted_actions(notes[0], spec), [[0.5, -1.0]])


def test_what_is_awaited_stays_when_the_device_writes_again():
    host = pinned_io.on_host(DEVICE)
    made = jax.jit(lambda x: jax.device_put(x + 1, host), out_shardings=host)
    kept = [pinned_io.awaited(made(jnp.full((2, 2), float(value)))) for value in range(20)]
    np.testing.assert_array_equal([rows[0, 0] for rows in kept], np.arange(20) + 1.0)


def test_it_is_asked_till_it_is_so_or_patience_ends(monkeypatch):
    monkeypatch.setattr(pinned_io, "_PATIENCE", 60.0)
    fourth = Mock(side_effect=[False, False, False, True])
    pinned_io.ask(fourth)
    assert fourth.call_count == 4
    monkeypatch.setattr(pinned_io, "_PATIENCE", 0.1)
    never = Mock(return_value=False)
    pinned_io.ask(never)
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
        pinned_io.ask(lambda: False)
        taken = len(turns)
    finally:
        sys.setswitchinterval(interval)
        over.set()
    thread.join()
    assert taken > 5
