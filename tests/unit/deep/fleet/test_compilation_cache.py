"""The persistent compilation cache: where it is, who turns it off, many processes at once, and its size."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from mico.deep.fleet import compilation_cache as module
from mico.deep.fleet.compilation_cache import enable, prune
from trainings import FLAGS, left

PROGRAM = """
import json, sys, time
from pathlib import Path
import jax, jax.numpy as jnp
from mico.deep.fleet.compilation_cache import enable
heard = []
jax.monitoring.register_event_listener(lambda event, **_: heard.append(event))
folder = enable()
ready, go = (Path(path) for path in sys.argv[1:])
ready.touch()
while not go.exists():
    time.sleep(0.001)
total = jax.jit(lambda x: jnp.tanh(x @ x).sum() + 1)(jnp.eye(40))
hits = heard.count("/jax/compilation_cache/cache_hits")
print(json.dumps({"folder": folder and str(folder), "total": float(total), "hits": hits}))
"""


def environment(**changes):
    """Of a process that has no cache folder of JAX's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | {
        "JAX_PLATFORMS": "cpu", **{name: str(value) for name, value in changes.items()}
    }  # fmt: skip


def started(tmp_path, count=1, **changes):
    """What so many processes find that compile one program at the same moment."""
    go = tmp_path / "go"
    go.unlink(missing_ok=True)
    marks = [tmp_path / f"ready{index}" for index in range(count)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment(**changes)}
    processes = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(mark), str(go)], **pipes) for mark in marks]
    deadline = time.monotonic() + 60
    while not all(mark.exists() for mark in marks) and time.monotonic() < deadline:
        time.sleep(0.01)
    go.touch()
    found = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        found.append(json.loads(out))
    for mark in marks:
        mark.unlink()
    return found


def entries(folder):
    return sorted(Path(folder).glob("*-cache"))


def test_processes_that_compile_one_program_at_once_share_it(tmp_path):
    both = started(tmp_path, 2, MICO_COMPILATION_CACHE=tmp_path / "cache")
    assert both[0]["total"] == both[1]["total"] == pytest.approx(40 * 0.7615941559557649 + 1)  # forty times tanh(1)
    (folder,) = {one["folder"] for one in both}
    assert Path(folder).parent == tmp_path / "cache"
    written = {path: path.read_bytes() for path in entries(folder)}
    assert written
    (after,) = started(tmp_path, MICO_COMPILATION_CACHE=tmp_path / "cache")
    assert (after["total"], after["hits"]) == (both[0]["total"], len(written))
    for path in written:  # as a process leaves it that was killed while it wrote
        path.write_bytes(path.read_bytes()[:10])
    (after,) = started(tmp_path, MICO_COMPILATION_CACHE=tmp_path / "cache")
    assert (after["total"], after["hits"]) == (both[0]["total"], 0)


def test_by_default_it_is_in_the_users_cache_folder(tmp_path):
    pytest.importorskip("platformdirs")
    (found,) = started(tmp_path, XDG_CACHE_HOME=tmp_path / "home")
    assert Path(found["folder"]).is_relative_to(tmp_path / "home" / "mico")
    assert entries(found["folder"])


def test_one_variable_turns_it_off(tmp_path):
    (found,) = started(tmp_path, XDG_CACHE_HOME=tmp_path / "home", MICO_COMPILATION_CACHE="off")
    assert found["folder"] is None
    assert not (tmp_path / "home").exists()


def test_a_folder_of_ones_own_stays_as_it_is(tmp_path):
    changes = {"JAX_COMPILATION_CACHE_DIR": tmp_path / "own", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 100}
    (found,) = started(tmp_path, XDG_CACHE_HOME=tmp_path / "home", **changes)
    assert found["folder"] is None
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "own").exists() or not entries(tmp_path / "own")  # programs are quicker than 100 seconds


def test_the_tests_have_a_folder_of_their_own():
    assert jax.config.jax_compilation_cache_dir == os.environ["JAX_COMPILATION_CACHE_DIR"]
    assert enable() is None
    assert jax.config.jax_compilation_cache_dir == os.environ["JAX_COMPILATION_CACHE_DIR"]


@pytest.fixture
def no_folder():
    """As JAX is where nobody chose a folder."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_where_nothing_can_be_written_there_is_none(tmp_path, no_folder, monkeypatch, recwarn):
    (tmp_path / "file").touch()
    monkeypatch.delenv(module.VARIABLE, raising=False)
    monkeypatch.setattr(module, "_user_folder", lambda: tmp_path / "file" / "mico")
    assert enable() is None
    assert not recwarn.list
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "file"))
    for _ in range(2):
        assert enable() is None
    assert [str(one.message) for one in recwarn.list] == [
        f"MICO_COMPILATION_CACHE is {tmp_path / 'file'}, which cannot be written: compiled programs are not kept"
    ]
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.parametrize(
    ("jaxlib", "threads"), [("0.0.1", ""), ("", "1"), ("", "7")], ids=["another jaxlib", "one thread", "seven"]
)
def test_other_code_has_another_folder(tmp_path, no_folder, monkeypatch, jaxlib, threads):
    """JAX's keys do not tell how many threads a program was compiled for."""
    monkeypatch.setenv(module.VARIABLE, str(tmp_path))
    monkeypatch.setenv("NPROC", "2")
    usual = enable()
    assert usual.is_dir()
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setattr(module, "_JAXLIB", jaxlib or module._JAXLIB)
    monkeypatch.setenv("NPROC", threads or "2")
    assert enable() not in (None, usual)


def test_what_was_not_used_for_longest_goes_when_there_is_too_much(tmp_path):
    ours, foreign = tmp_path / "jaxlib-0.10.2-0123456789ab", tmp_path / "photos"
    for folder in (ours, foreign):
        folder.mkdir()
        for day in range(10):
            file = folder / f"jit_{day}-cache"
            file.write_bytes(bytes(100))
            os.utime(file, (86_400.0 * (day if day else 20), 86_400.0 * day))  # the oldest was read last
    prune(tmp_path, 1_000)
    assert len(entries(ours)) == 10
    prune(tmp_path, 999)  # more than three quarters of it stay only until then
    assert [path.name for path in entries(ours)] == [f"jit_{day}-cache" for day in (0, 4, 5, 6, 7, 8, 9)]
    assert len(entries(foreign)) == 10


def test_the_size_is_looked_at_once_an_hour(tmp_path, no_folder, monkeypatch):
    looked = []
    monkeypatch.setenv(module.VARIABLE, str(tmp_path))
    monkeypatch.setattr(module, "prune", lambda root, limit: looked.append((root, limit)))
    for age in (None, 0, 3_500, 3_700):
        jax.config.update("jax_compilation_cache_dir", None)
        if age is not None:
            os.utime(tmp_path / ".pruned", (time.time() - age,) * 2)
        enable()
    assert looked == [(tmp_path, 2**30)] * 2


def test_trainings_are_the_same_to_the_bit_without_it_with_an_empty_one_and_with_a_full_one(tmp_path):
    argv = ["train", "--env", "mdp/frozen-lake", "--metric", "mico", *FLAGS, "--steps", "160"]
    found = []
    for name, cache in (("off", "off"), ("cold", tmp_path / "cache"), ("warm", tmp_path / "cache")):
        command = [sys.executable, "-m", "mico.cli", *argv, "--out", str(tmp_path / name)]
        own = environment(MICO_COMPILATION_CACHE=cache, JAX_DISABLE_MOST_OPTIMIZATIONS=1)  # which spares time
        done = subprocess.run(command, env=own, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        found.append(left(tmp_path / name))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2
