"""Checkpoints: what comes back is what was saved."""

import hashlib
import json
import threading
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zstandard

from mico import _memory
from mico.deep.training import array_store
from mico.deep.training import checkpoints as module
from mico.deep.training.checkpoints import Checkpoints, fits
from states import assert_same, names, numbers, saved


class Model(eqx.Module):
    weight: jax.Array
    bias: jax.Array
    width: int = eqx.field(static=True, default=3)


STATE = {
    "model": Model(jnp.array([[1.5, -0.0], [np.nan, np.inf]]), jnp.arange(3, dtype=jnp.bfloat16)),
    "masks": (jnp.array([True, False]), None, jnp.array(7, dtype=jnp.int32)),
    "bytes": jnp.arange(12, dtype=jnp.uint8).reshape(3, 4).T,
    "doubles": np.array([[0.1, 0.2, 0.3]]).T,
    "columns": np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
    "nothing": jnp.zeros((0, 3)),
    "host": np.float32(0.1),
    "count": 2**62,
    "rate": 0.1,
    "done": True,
}


def test_every_sort_of_leaf_comes_back_as_it_was(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, STATE, {"positions": {"a": 1}, "rate": 0.1})
    step, state, extra = checkpoints.restore(STATE)
    assert (step, extra) == (3, {"positions": {"a": 1}, "rate": 0.1})
    assert_same(state, STATE)
    assert state["model"].width == 3


def test_that_there_never_was_one_is_known_until_there_is(tmp_path, monkeypatch):
    """A save that fails, or a process that is killed before it may say so, changes nothing about it."""
    checkpoints = Checkpoints(tmp_path / "in")
    assert not checkpoints.awaits_first()
    checkpoints.await_first()
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_arrays", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save(1, numbers(1), {})
    assert Checkpoints(tmp_path / "in").awaits_first()
    checkpoints.save(1, numbers(1), {})
    assert names(tmp_path / "in") == ["1"]
    (tmp_path / "in" / "none-yet").touch()  # as one leaves it that is killed as soon as its checkpoint is whole
    assert Checkpoints(tmp_path / "in").restore(numbers(0)).step == 1
    assert not checkpoints.awaits_first()


def test_other_byte_orders_come_back_as_numbers(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"x": np.array([1, 256], dtype=">u2")}, {})
    assert checkpoints.restore({"x": np.zeros(2, np.uint16)}).state["x"].tolist() == [1, 256]


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_come_back_as_keys(tmp_path, impl):
    keys = {"many": jax.random.split(jax.random.key(1, impl=impl), 3), "one": jax.random.key(2, impl=impl)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, keys, {}, background=True)
    for like in (keys, jax.eval_shape(lambda: keys)):
        state = checkpoints.restore(like).state
        assert state["many"].dtype == keys["many"].dtype
        assert state["one"].shape == ()
        for name in keys:
            assert np.array_equal(jax.random.key_data(state[name]), jax.random.key_data(keys[name]))
    with pytest.raises(ValueError, match=r"\['many'\]"):
        checkpoints.restore(jax.tree.map(jax.random.key_data, keys))


def test_shapes_alone_are_enough_to_restore(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    state = {"x": jnp.arange(3.0), "y": jnp.array(True)}
    checkpoints.save(1, state, {})
    assert_same(checkpoints.restore(jax.eval_shape(lambda: state)).state, state)
    with pytest.raises(ValueError, match=r"state\['x'\] is a shape"):
        checkpoints.save(2, jax.eval_shape(lambda: state), {})
    assert names(tmp_path) == ["1"]


def test_doubles_do_not_become_singles(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"x": np.array([0.1])}, {})
    with pytest.raises(ValueError, match=r"state\['x'\] is float64: jax_enable_x64"):
        checkpoints.restore({"x": jax.ShapeDtypeStruct((1,), np.float64)})


def test_long_arrays_are_written_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(array_store, "_PIECE", 64)
    state = {"a": np.arange(100.0), "b": np.arange(9, dtype=np.uint8), "c": np.arange(32, dtype=np.int32)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state, {})
    with array_store.open_arrays(tmp_path / "1.arrays") as stored:
        assert [len(entry.pieces) for entry in stored.entries] == [13, 1, 2]
    assert_same(checkpoints.restore(state).state, state)


def test_a_file_is_what_its_docstring_says(tmp_path):
    """Read with zstandard, hashlib and json alone."""
    array_store.write_arrays(tmp_path / "x", array_store.tree_leaves({"a": np.arange(5, dtype=np.int16)}), {"b": 1})
    data = (tmp_path / "x").read_bytes()
    length = int.from_bytes(data[-40:-32], "little")
    text = data[-40 - length : -40]
    assert hashlib.sha256(text).digest() == data[-32:]
    index = json.loads(text)
    raw = zstandard.ZstdDecompressor().decompress(data[: -40 - length])
    assert np.frombuffer(raw, np.int16).tolist() == [0, 1, 2, 3, 4]
    form = ["['a']", "array", "int16", [5]]
    leaves = [[form, hashlib.sha256(raw).hexdigest(), [len(data) - 40 - length]]]
    assert index == {"format": "mico arrays 1", "extra": {"b": 1}, "leaves": leaves}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, "text"]}, r"state\['a'\]\[1\] is neither an array nor a number but 'text'"),
        ({"a": jax.nn.relu}, r"state\['a'\] is neither"),
        ({"a": np.array(["x"])}, r"state\['a'\] does not hold numbers"),
        ({"a": 2**70}, r"state\['a'\] does not hold numbers"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, state, message):
    with pytest.raises(ValueError, match=message):
        Checkpoints(tmp_path).save(1, state, {})
    assert names(tmp_path) == []


def test_what_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Checkpoints(tmp_path).save(1, {}, {"score": float("nan")})


def test_a_state_without_leaves_is_a_state(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"a": None}, {"b": 2})
    assert checkpoints.restore({"a": None}) == (1, {"a": None}, {"b": 2})


def test_the_newest_are_kept_and_the_newest_of_them_comes_back(tmp_path):
    checkpoints = saved(tmp_path, 2, 9, 10, 11)
    assert names(tmp_path) == ["10", "11", "9"]
    assert checkpoints.latest() == 11
    assert saved(tmp_path, 12, keep=1).restore(numbers(0)).step == 12
    assert names(tmp_path) == ["12"]


def test_where_the_disk_is_full_older_ones_go_first_but_never_the_newest(tmp_path, monkeypatch):
    checkpoints, left = Checkpoints(tmp_path), []

    def usage(folder):
        """Room for 100 bytes, of which each checkpoint takes 40."""
        left.append(sorted(name for name in names(folder) if name.isdecimal()))
        return types.SimpleNamespace(free=100 - 40 * len(left[-1]))

    monkeypatch.setattr(module.shutil, "disk_usage", usage)
    for step in range(1, 5):
        checkpoints.save(step, {"x": np.zeros(39, np.uint8)}, {})
    assert left == [["1", "2"], ["2", "3"]], "asked where there is one to spare"
    assert names(tmp_path) == ["3", "4"]


def test_without_checkpoints_there_is_nothing_to_restore(tmp_path):
    (tmp_path / "notes").mkdir()
    for folder in (tmp_path, tmp_path / "not" / "there"):
        assert Checkpoints(folder).restore(numbers(0)) is None
        assert Checkpoints(folder).latest() is None


def test_arguments_are_checked(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        Checkpoints(tmp_path, keep=0)
    checkpoints = saved(tmp_path, 5)
    with pytest.raises(ValueError, match="step must not be negative, got -1"):
        checkpoints.save(-1, numbers(0), {})
    for step in (4, 5):
        with pytest.raises(ValueError, match=f"step {step} is not after the latest checkpoint in .*, 5"):
            checkpoints.save(step, numbers(0), {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"weights": np.zeros(9)}, r"has \['weights'\] as array of float64\[1000\], not .* float64\[9\]"),
        (lambda s: s | {"frames": s["frames"].astype(np.int8)}, r"has \['frames'\].* uint8\[1000, 7\], not .*int8"),
        (lambda s: s | {"more": 1}, r"has \['step'\].*, not \['more'\]"),
        (lambda s: s | {"zeal": 1}, r"has \['weights'\]|nothing more, not \['zeal'\]"),
        (lambda s: {"frames": s["frames"], "step": 1}, r"has \['weights'\].*, not nothing more"),
    ],
)
def test_the_state_of_another_configuration_is_refused_with_the_first_leaf_that_differs(tmp_path, change, message):
    checkpoints = saved(tmp_path, 1, 2)
    with pytest.raises(ValueError, match=message):
        checkpoints.restore(change(numbers(0)))


def test_a_state_may_be_of_either_of_two_sorts(tmp_path):
    less = {"step": 0}
    checkpoints = saved(tmp_path, 1)
    assert_same(checkpoints.restore(less, numbers(0)).state, numbers(1))
    checkpoints.save(2, {"step": 2}, {})
    assert checkpoints.restore(numbers(0), less).state == {"step": 2}
    with pytest.raises(ValueError, match=r"it has \['step'\] .*, not \['frames'\] as"):
        checkpoints.restore(numbers(0), {"other": 0})


@pytest.fixture
def gate(monkeypatch):
    """Nothing is written before the gate is open; tells which threads wrote."""

    class Gate(threading.Event):
        threads = ()

    gate = Gate()
    write = module.write_arrays

    def slow(*args):
        gate.threads += (threading.current_thread(),)
        assert gate.wait(20)
        write(*args)

    monkeypatch.setattr(module, "write_arrays", slow)
    return gate


def test_in_the_background_the_state_may_change_right_away(tmp_path, gate):
    checkpoints = Checkpoints(tmp_path)
    state = {"host": np.arange(5.0), "device": jnp.arange(5.0), "step": 1}
    extra = {"positions": [1]}
    checkpoints.save(1, state, extra, background=True)
    assert checkpoints.latest() is None
    state["host"] += 1
    extra["positions"] = [2]
    donated = state["device"]
    moved = jax.jit(lambda x: x + 1, donate_argnums=0)(donated)
    gate.set()
    step, found, extra = checkpoints.restore(state)
    assert donated.is_deleted()
    assert moved.tolist() == [1, 2, 3, 4, 5]
    assert found["host"].tolist() == found["device"].tolist() == [0, 1, 2, 3, 4]
    assert (step, extra) == (1, {"positions": [1]})
    assert gate.threads[0] is not threading.current_thread()


def test_a_second_save_waits_for_the_first(tmp_path, gate):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, numbers(1), {}, background=True)
    threading.Timer(0.1, gate.set).start()
    checkpoints.save(2, numbers(2), {}, background=True)
    assert (tmp_path / "1.arrays").exists()
    checkpoints.wait()
    assert names(tmp_path) == ["1", "2"]
    assert len(set(gate.threads)) == 1


def test_without_room_for_a_copy_it_is_saved_in_the_foreground(tmp_path, gate, monkeypatch):
    gate.set()
    checkpoints = Checkpoints(tmp_path)
    monkeypatch.setattr(_memory, "available", lambda: 0)
    checkpoints.save(1, numbers(1), {}, background=True)
    assert gate.threads == (threading.current_thread(),)
    assert checkpoints.latest() == 1


def test_what_fits_depends_on_the_bytes_of_all_leaves(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: array_store.WORKING_MEMORY + 100)
    assert fits({"a": jnp.zeros(10, jnp.float32), "b": np.zeros(59, np.uint8)})
    assert not fits({"a": jnp.zeros(10, jnp.float32), "b": np.zeros(60, np.uint8)})
