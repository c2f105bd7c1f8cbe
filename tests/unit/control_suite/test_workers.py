"""Worker processes: they die, are killed, lose their parent, and nothing is lost or left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from mico.control_suite import workers as module
from mico.control_suite.settings import TaskSettings
from mico.control_suite.workers import Workers

TASK = TaskSettings("pendulum", "swingup", "state", 4, 84, 0, None)
ACTIONS = np.random.default_rng(0).uniform(-1, 1, size=(6, 2, 1)).astype(np.float32)
BOTH, SEEDS = np.ones(2, bool), np.array([3, 4])

# Plays on until it is ended; a first Ctrl-C it survives, to tell whether its workers have.
PROGRAM = """
import signal, sys, numpy as np
from mico.control_suite.settings import TaskSettings
from mico.control_suite.workers import Workers
workers = Workers(TaskSettings("pendulum", "swingup", "state", 4, 84, 0, 10**6), 2, (3,), "float32")
workers.reset(np.ones(2, bool), np.arange(2))
stops = []
def stop(*_):
    stops.append(1)
    if len(stops) > 1:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, stop)
told = -1
while True:
    workers.send(np.zeros((2, 1), np.float32))
    workers.receive()
    if len(stops) > told:
        told = len(stops)
        print(*workers.pids, flush=True)
"""


@pytest.fixture
def pool():
    made = []

    def make(task=TASK, number=2, shape=(3,)):
        made.append(Workers(task, number, shape, "float32"))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def undisturbed():
    workers = Workers(TASK, 2, (3,), "float32")
    found = [workers.reset(BOTH, SEEDS).tobytes(), *(stepped(workers, action) for action in ACTIONS)]
    workers.close()
    return found


def stepped(workers, actions):
    workers.send(actions)
    return workers.receive().tobytes()


def killed(pid):
    """Gone, but not yet noticed by the process that began it."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(done, seconds=20):
    last = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < last, "nothing came of it"
        time.sleep(0.01)


def test_one_that_hangs_is_replaced(pool, undisturbed, monkeypatch):
    workers = pool()
    found = [workers.reset(BOTH, SEEDS).tobytes(), stepped(workers, ACTIONS[0])]
    monkeypatch.setattr(module, "_PATIENCE", 3.0)
    os.kill(workers.pids[1], signal.SIGSTOP)
    with pytest.warns(RuntimeWarning, match=r"environment 1 \(pendulum-swingup, process \d+\) was killed by signal 9"):
        found.append(stepped(workers, ACTIONS[1]))
    assert found == undisturbed[:3]


def test_a_worker_killed_in_the_middle_of_a_step_is_replaced_and_nothing_changes(pool, undisturbed):
    workers = pool()
    found, pids = [workers.reset(BOTH, SEEDS).tobytes()], workers.pids
    for time_, actions in enumerate(ACTIONS):
        if time_ == 3:
            os.kill(workers.pids[1], signal.SIGSTOP)  # so that the step cannot be over before the end comes
            workers.send(actions)
            os.kill(workers.pids[1], signal.SIGKILL)
            told = r"environment 1 \(pendulum-swingup, process \d+\) was killed by signal 9: .* plays the 4 steps"
            with pytest.warns(RuntimeWarning, match=told):
                found.append(workers.receive().tobytes())
        else:
            found.append(stepped(workers, actions))
    assert found == undisturbed
    assert workers.pids[0] == pids[0]
    assert workers.pids[1] != pids[1]
    assert not alive(pids[1])


def test_a_worker_that_died_between_steps_or_before_the_first_is_replaced_too(pool, undisturbed):
    workers = pool()
    killed(workers.pids[0])
    with pytest.warns(RuntimeWarning, match=r"environment 0 .* plays the 0 steps"):
        found = [workers.reset(BOTH, SEEDS).tobytes()]
    found.append(stepped(workers, ACTIONS[0]))
    killed(workers.pids[1])
    with pytest.warns(RuntimeWarning, match=r"environment 1 .* plays the 2 steps"):
        found.append(stepped(workers, ACTIONS[1]))
    assert found == undisturbed[:3]


def test_resets_leave_other_episodes_alone(pool, undisturbed):
    workers = pool()
    workers.reset(BOTH, np.array([3, 9]))
    stepped(workers, ACTIONS[1])
    killed(workers.pids[1])
    with pytest.warns(RuntimeWarning, match="environment 1"):  # whose new episode is the one that is played again
        first = workers.reset(np.array([False, True]), SEEDS)
    assert first[1].tobytes() == undisturbed[0][12:]
    assert stepped(workers, ACTIONS[0])[:24] != undisturbed[1][:24]
    workers.reset(np.array([True, False]), SEEDS)
    half = len(undisturbed[1]) // 2
    found = [stepped(workers, actions) for actions in ACTIONS[:2]]
    assert found[0][:half] == undisturbed[1][:half]


def test_one_that_dies_again_at_once_is_given_up(pool, monkeypatch):
    workers = pool()
    workers.reset(BOTH, SEEDS)
    killed(workers.pids[1])
    monkeypatch.setattr(sys, "executable", "/bin/false")
    message = r"environment 1 \(pendulum-swingup, process \d+\) ended with exit code 1 again .* given up"
    with pytest.warns(RuntimeWarning), pytest.raises(ChildProcessError, match=message):
        stepped(workers, ACTIONS[0])
    workers.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_all_processes_of_a_job_are_for_the_parent_alone(undisturbed, number):
    workers = Workers(TASK, 2, (3,), "float32")
    found, pids = [workers.reset(BOTH, SEEDS).tobytes()], workers.pids
    for pid in pids:
        os.kill(pid, number)
    found.append(stepped(workers, ACTIONS[0]))
    assert found == undisturbed[:2]
    assert workers.pids == pids  # none was replaced
    workers.close()
    assert not any(map(alive, pids))


def test_errors_in_a_worker_are_told_with_where_they_came_from(pool):
    workers = pool(TASK._replace(domain="pendlum"), number=1)
    with pytest.raises(
        ChildProcessError, match=r"environment 0 \(pendlum-swingup, process \d+\) failed: ValueError: .*'pendlum'"
    ) as told:
        workers.reset(np.ones(1, bool), SEEDS[:1])
    assert "suite.load" in told.value.__notes__[0]


def test_steps_are_taken_while_others_work(pool):
    workers = pool(number=1)
    workers.reset(np.ones(1, bool), SEEDS[:1])
    os.kill(workers.pids[0], signal.SIGSTOP)
    workers.send(np.zeros((1, 1), np.float32))  # it does not wait
    os.kill(workers.pids[0], signal.SIGCONT)
    assert not workers.receive()["terminal"].any()


@pytest.mark.parametrize("way", ["close", "forget"])
def test_nothing_is_left_of_workers_that_are_closed_or_forgotten(way):
    gc.collect()  # what tests before this one have left
    files = len(os.listdir("/proc/self/fd"))
    workers = Workers(TASK, 2, (3,), "float32")
    workers.reset(BOTH, SEEDS)
    pids = workers.pids
    assert all(map(alive, pids))
    if way == "close":
        workers.close()
        workers.close()
    del workers
    gc.collect()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == files


def test_workers_end_with_a_parent_that_is_killed():
    """And the memory that they share with them, which has no name by which it could stay."""
    with begun() as (program, pids):
        assert all("/memfd:mico-physics (deleted)" in Path(f"/proc/{pid}/maps").read_text() for pid in pids)
        program.kill()
        program.wait(20)
        until(lambda: not any(map(alive, pids)))


def test_ctrl_c_is_for_the_parent_alone():
    with begun() as (program, pids):
        os.killpg(program.pid, signal.SIGINT)
        assert numbers(program) == pids  # none was replaced
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(20) != 0
        until(lambda: not any(map(alive, pids)))
        assert b"KeyboardInterrupt" in program.stderr.read()


@contextmanager
def begun(text=PROGRAM):
    """A program in a group of its own, as a shell begins it, with two workers at work."""
    with subprocess.Popen([sys.executable, "-c", text], stdout=-1, stderr=-1, start_new_session=True) as program:
        try:
            yield program, numbers(program)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def numbers(program):
    return [int(word) for word in program.stdout.readline().split()]


def test_workers_end_though_a_copy_of_their_parent_holds_their_pipes_open():
    copying = PROGRAM.replace("told = -1", "import os, time; told = -1 if os.fork() else time.sleep(60)")
    with begun(copying) as (program, pids):
        assert all(map(alive, pids))
        program.kill()  # its copy sleeps on
        until(lambda: not any(map(alive, pids)))


def test_whoever_waits_is_interrupted_by_closing_and_nothing_begins_again(pool, monkeypatch):
    workers = pool()
    workers.reset(BOTH, SEEDS)
    began = []
    monkeypatch.setattr(module, "connect", lambda *args, **options: began.append(args))
    os.kill(workers.pids[1], signal.SIGSTOP)
    workers.send(ACTIONS[0])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(workers.receive)
        time.sleep(0.2)
        workers.close()
        with pytest.raises(InterruptedError, match="pendulum-swingup was closed while environment 1 took a step"):
            waiting.result(timeout=20)
    assert began == []
