"""Full disks and killed processes leave the checkpoints that were there."""

import errno
import gc
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from mico.deep.training import array_store
from mico.deep.training import checkpoints as module
from mico.deep.training.checkpoints import Checkpoints
from mico.runs import files as folders
from states import assert_same, names, numbers, saved


def test_what_a_killed_process_left_is_removed(tmp_path):
    for number in (5, 6):
        (tmp_path / f".{number}.arrays.{'0' * 16}.tmp").write_bytes(b"half")
    assert Checkpoints(tmp_path).restore(numbers(0)) is None
    saved(tmp_path, 6)
    assert names(tmp_path) == ["6"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("part", [(array_store, "_write_leaf"), (folders.os, "fsync"), (folders.Path, "replace")])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, part):
    checkpoints = saved(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(*part, full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            checkpoints.save(2, numbers(2), {})
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "2.arrays"))
    assert names(tmp_path) == ["1"]
    assert_same(checkpoints.restore(numbers(0)).state, numbers(1))
    checkpoints.save(2, numbers(2), {})
    assert checkpoints.latest() == 2


@pytest.mark.parametrize("call", ["wait", "save", "restore"])
def test_an_error_in_the_background_is_raised_by_the_next_call(tmp_path, monkeypatch, call):
    checkpoints = saved(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_arrays", full)
        checkpoints.save(2, numbers(2), {}, background=True)
        calls = {
            "wait": checkpoints.wait,
            "save": lambda: checkpoints.save(3, numbers(3), {}),
            "restore": lambda: checkpoints.restore(numbers(0)),
        }
        with pytest.raises(OSError, match="No space left on device"):
            calls[call]()
    checkpoints.wait()  # an error is raised once
    assert names(tmp_path) == ["1"]


@pytest.fixture
def tiny(tmp_path):
    """A file system of half a megabyte."""
    if shutil.which("mount") is None:
        pytest.skip("no tool to mount a file system")
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", tmp_path]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    yield tmp_path
    gc.collect()
    subprocess.run(["umount", tmp_path], check=True)


def test_a_really_full_disk(tiny, caplog):
    checkpoints = saved(tiny, 1)
    with pytest.raises(OSError, match="No space left on device") as caught:
        checkpoints.save(2, numbers(2, size=100_000), {})
    assert caught.value.filename == str(tiny / "2.arrays")
    assert names(tiny) == ["1"]
    checkpoints.save(2, numbers(2, size=100_000), {}, background=True)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoints.wait()
    assert names(tiny) == ["1"]
    assert_same(checkpoints.restore(numbers(0)).state, numbers(1))
    assert caplog.records == []  # the error is all there is to say


@pytest.fixture
def public():
    """A folder that everybody may look into, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_may_not_be_read_is_not_damaged(public):
    """In a process of its own that is nobody special."""
    if os.getuid():
        pytest.skip("only root may become somebody else")
    saved(public, 1, 2)
    file = public / "2.arrays"
    file.chmod(0)
    command = [sys.executable, "-W", "error", "-c", inspect.getsource(numbers) + UNREADABLE, str(public)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"{errno.EACCES} {file}\n"), done.stderr
    assert names(public) == ["1", "2"]
    file.chmod(0o600)
    assert Checkpoints(public).restore(numbers(0)).step == 2


UNREADABLE = """
import os, sys
from pathlib import Path
import numpy as np
from mico.deep.training.checkpoints import Checkpoints

os.setresuid(65534, 65534, 65534)
try:
    Checkpoints(Path(sys.argv[1])).restore(numbers(0))
except OSError as error:
    print(error.errno, error.filename)
"""


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_an_error_of_the_system_is_not_damage(tmp_path, monkeypatch, number):
    checkpoints = saved(tmp_path, 1, 2)

    def failing(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(array_store, "_read_array", failing)
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            checkpoints.restore(numbers(0))
    assert caught.value.errno == number
    assert checkpoints.restore(numbers(0)).step == 2  # once the fault is over


LIMITED = """
import os, resource, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from mico.deep.training.checkpoints import Checkpoints

folder = Path(sys.argv[1])
mesh = jax.sharding.Mesh(jax.devices(), ("runs",))
spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("runs"))
state = {"spread": jax.device_put(jnp.arange(8.0).reshape(4, 2), spread), "second": jax.device_put(3, jax.devices()[1])}
checkpoints = Checkpoints(folder)
checkpoints.save(1, state, {})
checkpoints.save(2, state, {}, background=True)
checkpoints.wait()
found = checkpoints.restore(state).state
assert found["spread"].sharding == spread and found["spread"].tolist() == state["spread"].tolist()
assert found["second"].devices() == {jax.devices()[1]} and found["second"] == 3

resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    checkpoints.save(3, {"noise": np.random.default_rng(0).normal(size=100_000)}, {})
except OSError as error:
    print(error.errno, error.strerror, error.filename, sorted(os.listdir(folder)), checkpoints.restore(state).step)
"""


def test_shards_go_back_to_their_devices_and_a_limit_on_files_is_an_error(tmp_path):
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error:checkpoint", "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    expected = f"{errno.EFBIG} File too large {tmp_path / '3.arrays'} ['1.arrays', '2.arrays'] 2\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


KILLED = """
import os, random, signal, sys, time, warnings
from pathlib import Path
import jax, numpy as np
import zstandard  # once, not in each of the processes
from mico.deep.training.checkpoints import Checkpoints

warnings.simplefilter("error")
folder, rounds, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(0)

def train(ready, background):
    checkpoints = Checkpoints(folder, keep=2)
    restored = checkpoints.restore(numbers(0, size))
    step = 0
    if restored is not None:
        step, state, extra = restored
        expected = numbers(step, size)
        good = all(np.array_equal(state[name], expected[name]) for name in expected) and extra == {"step": step}
        if not good:
            os._exit(1)
    os.write(ready, b".")
    while True:
        step += 1
        checkpoints.save(step, numbers(step, size), {"step": step}, background=background)

left = 0
for turn in range(rounds):
    signalled, ready = os.pipe()
    child = os.fork()  # before JAX has started any thread
    if child == 0:
        try:
            train(ready, background=turn % 2 == 1)
        finally:
            os._exit(2)
    os.close(ready)
    alive = os.read(signalled, 1)
    time.sleep(rng.uniform(0.05, 0.5) if alive else 0)
    os.kill(child, signal.SIGKILL)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        sys.exit("the process ended by itself")
    left += any(name.startswith(".") for name in os.listdir(folder))
print(left)
"""


def test_processes_killed_at_any_moment_leave_sound_checkpoints(tmp_path):
    size = 100_000
    script = inspect.getsource(numbers) + KILLED
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path), "10", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1  # of the ten was killed while it wrote
    checkpoints = Checkpoints(tmp_path, keep=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step, state, extra = checkpoints.restore(numbers(0, size))
    assert_same(state, numbers(step, size))
    assert extra == {"step": step}
    checkpoints.save(step + 1, numbers(step + 1, size), {})
    assert names(tmp_path) == sorted(map(str, (step, step + 1)))
