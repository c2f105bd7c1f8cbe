"""Two writers never share a folder, and no dead one keeps it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mico.results.lock import exclusive

HOLD = """
import os, sys, time
from pathlib import Path
from mico.results.lock import exclusive
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
    with exclusive(tmp_path):
        assert f"process {os.getpid()} on" in (tmp_path / "lock").read_text()


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
