"""Two writers never share a folder, and no dead one keeps it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mico.runs import lock
from mico.runs.lock import exclusive, locked_folder

HOLD = """
import os, sys, time
from pathlib import Path
from mico.runs.lock import exclusive
with exclusive(Path(sys.argv[1])):
    if sys.argv[2] == "forks":
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder, manner="alone"):
    command = [sys.executable, "-c", HOLD, str(folder), manner]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_second_process_is_told_who_holds_the_folder_until_that_is_killed(tmp_path):
    process = holder(tmp_path)
    try:
        assert process.stdout.readline() == "held\n"
        message = f"{tmp_path} is being written by process {process.pid} on "
        with pytest.raises(ValueError, match=message), exclusive(tmp_path):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "lock").exists()  # left by the process that was killed, and taken over
    with exclusive(tmp_path):
        assert f"process {os.getpid()} on" in (tmp_path / "lock").read_text()
    assert not [*tmp_path.iterdir()]


RACE = """
import os, sys
from pathlib import Path
from mico.runs import lock
lock._PATIENCE, lock._PAUSES = 60.0, (0.0, 0.0001)
folder, counter, inside = (Path(path) for path in sys.argv[1:])
print(flush=True)
sys.stdin.readline()
for _ in range(1000):
    with lock.exclusive(folder):
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if the other one is inside
        counter.write_text(str(int(counter.read_text()) + 1))
        os.unlink(inside)
"""


def test_of_two_that_race_a_thousand_times_only_one_is_inside_and_no_lock_file_is_left(tmp_path):
    folder, counter, inside = tmp_path / "folder", tmp_path / "counter", tmp_path / "inside"
    folder.mkdir()
    counter.write_text("0")
    command = [sys.executable, "-c", RACE, *map(str, (folder, counter, inside))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    assert [(racer.communicate()[1], racer.returncode) for racer in racers] == [("", 0), ("", 0)]
    assert counter.read_text() == "2000"
    assert not [*folder.iterdir()]


def test_the_file_of_a_lock_that_is_released_while_another_waits_is_not_taken(tmp_path, monkeypatch):
    """The waiting process has opened a file whose name goes with its holder: it must open the new one instead."""
    opened, real = [], lock.open_unlinked

    def swapped(path, flags):
        descriptor = real(path, flags)
        if not opened:  # as if a holder removed its file now, and the next one made another
            path.unlink()
            path.touch()
        opened.append(os.fstat(descriptor).st_ino)
        return descriptor

    monkeypatch.setattr(lock, "open_unlinked", swapped)
    with exclusive(tmp_path):
        assert f"process {os.getpid()} on" in (tmp_path / "lock").read_text()
    assert len(set(opened)) == 2
    assert not [*tmp_path.iterdir()]


def test_a_lock_file_that_is_no_longer_ours_stays(tmp_path):
    with exclusive(tmp_path):
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").write_text("of somebody else")
    assert (tmp_path / "lock").read_text() == "of somebody else"


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_links_are_refused_and_what_they_point_to_stays_as_it_is(tmp_path, make):
    keys, folder = tmp_path / "authorized_keys", tmp_path / "out"
    keys.write_text("ssh-ed25519 AAAA me")
    folder.mkdir()
    make(folder / "lock", keys)
    with pytest.raises((OSError, ValueError), match=r"symbolic link|where a lock has to be"), exclusive(folder):
        pass
    assert keys.read_text() == "ssh-ed25519 AAAA me"
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_file_or_a_folder_of_that_name_is_refused_and_stays(tmp_path):
    for name in ("text", "folder", "pipe"):
        (tmp_path / name).mkdir()
    (tmp_path / "text/lock").write_text("combination: 3-14-15")
    (tmp_path / "folder/lock").mkdir()
    os.mkfifo(tmp_path / "pipe/lock")
    for name in ("text", "folder", "pipe"):
        with pytest.raises((OSError, ValueError), match=r"lock"), exclusive(tmp_path / name):
            pass
        assert (tmp_path / name / "lock").exists()
    assert (tmp_path / "text/lock").read_text() == "combination: 3-14-15"


@pytest.mark.parametrize("left", [b"", b"\0" * 25, b"process 12 on vm\n"])
def test_what_a_crash_left_is_taken_over(tmp_path, left):
    (tmp_path / "lock").write_bytes(left)
    with exclusive(tmp_path):
        pass
    assert not [*tmp_path.iterdir()]


FORKS = """
import os, sys
from pathlib import Path
from mico.runs import lock
lock._PATIENCE = 0.1
folder = Path(sys.argv[1])


def is_free():
    try:
        with lock.exclusive(folder):
            return True
    except ValueError:  # its parent holds it
        return False


context = lock.exclusive(folder)
with context:
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "asks":
            os._exit(is_free())
        context.__exit__(None, None, None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert f"process {os.getpid()} on" in (folder / "lock").read_text()
    assert not is_free()
assert is_free()
"""


@pytest.mark.parametrize("child", ["asks", "leaves the block"])
def test_a_forked_child_neither_has_the_lock_of_its_parent_nor_releases_it(tmp_path, child):
    done = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path), child], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [*tmp_path.iterdir()]


def test_a_folder_is_made_and_locked_and_removed_if_nothing_came_of_it(tmp_path):
    out = tmp_path / "a/b"
    with pytest.raises(IsADirectoryError), locked_folder(out) as folder:
        folder.read_text()
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match=str(os.getpid())), locked_folder(out), exclusive(out):
        pass
    assert not [*tmp_path.iterdir()]
    with locked_folder(out):
        (out / "log.jsonl").write_text("")
    assert [path.name for path in out.iterdir()] == ["log.jsonl"]


def test_children_of_a_killed_process_do_not_keep_the_folder(tmp_path):
    process = holder(tmp_path, "forks")
    child = int(process.stdout.readline())
    try:
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(child, 0)  # it is alive
        with exclusive(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_folder_that_is_let_go_of_in_a_moment_is_waited_for(tmp_path):
    process = holder(tmp_path)
    assert process.stdout.readline() == "held\n"
    began = time.monotonic()
    killer = threading.Timer(0.3, process.kill)
    killer.start()
    with exclusive(tmp_path):
        assert time.monotonic() - began > 0.25
    killer.join()
    process.wait()


def test_the_same_process_cannot_hold_a_folder_twice_but_again(tmp_path):
    with exclusive(tmp_path), pytest.raises(ValueError, match=str(os.getpid())), exclusive(tmp_path):
        pass
    with pytest.raises(KeyError), exclusive(tmp_path):
        raise KeyError
    with exclusive(tmp_path):
        pass


def test_a_holder_that_has_not_written_its_name_is_another_process(tmp_path):
    with exclusive(tmp_path):
        (tmp_path / "lock").write_text("")
        with pytest.raises(ValueError, match="another process"), exclusive(tmp_path):
            pass


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="lock"), exclusive(tmp_path / "none"):
        pass
