"""Fleets that do not fit into memory are refused before anything is written."""

import types
import warnings
from dataclasses import replace

import jax
import pytest

from mico import _memory
from mico.deep.training import limits
from mico.deep.training.limits import check_room, warn_of_disk
from mico.deep.training.train import train
from small_runs import small_run


def of(size):
    """A state of so many bytes."""
    return {"some": jax.ShapeDtypeStruct((size // 8,), "float32"), "rest": jax.ShapeDtypeStruct((size // 2,), "uint8")}


def test_up_to_what_the_host_has_left(monkeypatch):
    run = small_run(seed=0)
    monkeypatch.setattr(_memory, "available", lambda: 8_000)
    check_room(of(8_000), run, 1)
    with pytest.raises(ValueError, match=r"replay.capacity is [\d,]+: 3 such runs take 8.01e-06 GB .* room for 8e-06"):
        check_room(of(8_008), run, 3)


def test_on_a_gpu_it_says_how_to_have_more(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 8_000)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match=r"room for 8e-06; JAX leaves .* XLA_PYTHON_CLIENT_MEM_FRACTION=\.95"):
        check_room(of(8_008), small_run(seed=0), 1)


def test_where_memory_is_not_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available", lambda: 0)
    check_room(of(8_000), small_run(seed=0), 1)


def test_checkpoints_that_the_disk_may_not_hold_are_warned_of(tmp_path, monkeypatch):
    """Two of 8,000 bytes; what old ones take will be free."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "7.arrays").write_bytes(bytes(1_000))
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=15_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_disk(of(8_000), tmp_path)
    with pytest.warns(match=r"may take 1.6e-05 GB, but .* has room for 1.6e-05: --checkpoint-replay empty"):
        warn_of_disk(of(8_008), tmp_path)


def test_a_replay_that_does_not_fit_leaves_nothing(tmp_path):
    run = small_run(seed=0)
    run = replace(run, replay=replace(run.replay, capacity=2**31 - 2**20))
    with pytest.raises(ValueError, match=r"replay.capacity is 2,146,435,072: 40 such runs take .* of it the replay"):
        train([replace(run, seed=seed) for seed in range(40)], tmp_path / "out", steps=40)
    assert not (tmp_path / "out").exists()
