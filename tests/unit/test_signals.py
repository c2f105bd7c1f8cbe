"""What asks a training to end, a lost terminal among it, lets it save first."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from mico._signals import stop_signals
from mico.deep.metric_losses import MICo
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.train import train
from small_runs import small_run
from trainings import FLAGS, left

pytestmark = pytest.mark.usefixtures("quick_compilation")

REQUESTS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
ON_A_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # that of this session from now on
for number in range(3):
    os.dup2(terminal, number)
os.execv(sys.executable, [sys.executable, "-m", "mico.cli", *sys.argv[2:]])
"""


@pytest.mark.parametrize("number", REQUESTS)
def test_a_request_to_end_is_seen_and_handlers_are_as_before(number):
    before = [signal.getsignal(one) for one in REQUESTS]
    with stop_signals() as stopping:
        assert not stopping()
        os.kill(os.getpid(), number)
        assert stopping()
    assert [signal.getsignal(one) for one in REQUESTS] == before


def test_a_second_hangup_does_not_stop_what_is_being_saved():
    """A shell that ends sends one to its jobs, and the system another."""
    with stop_signals() as stopping:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert stopping()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_what_is_ignored_stays_ignored():
    """As a hangup is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopping()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hangup_saves_and_what_is_resumed_ends_as_if_it_had_not_been(tmp_path):
    runs = [small_run("dqn", MICo(alpha=0.25), seed=seed) for seed in (0, 1)]
    train(runs, tmp_path / "whole", steps=200)

    def report(progress):
        if progress.step == 40:
            os.kill(os.getpid(), signal.SIGHUP)

    with pytest.raises(KeyboardInterrupt, match="stopped at step 80 of 200, which is saved"):
        train(runs, tmp_path / "out", steps=200, report=report)
    assert Checkpoints(tmp_path / "out/checkpoints").latest() == 80
    train(runs, tmp_path / "out", steps=200, resume=True)
    assert left(tmp_path / "out") == left(tmp_path / "whole")


def test_a_training_whose_terminal_is_lost_saves_and_ends(tmp_path):
    """It cannot say so any more: writing to the terminal that is gone is an error."""
    out, (ours, theirs) = tmp_path / "out", pty.openpty()
    flags = "--env mdp/frozen-lake --agent dqn --seeds 0 --steps 4000000 --checkpoint-seconds 0.3 --out"
    command = [sys.executable, "-c", ON_A_TERMINAL, os.ttyname(theirs), "train", *flags.split(), str(out), *FLAGS]
    process = subprocess.Popen(command, start_new_session=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        deadline, printed = time.monotonic() + 120, b""
        while not [*out.glob("checkpoints/[0-9]*")]:
            assert process.poll() is None, printed
            assert time.monotonic() < deadline, printed
            time.sleep(0.05)
            with contextlib.suppress(OSError):  # nothing is there to read, or nobody has opened the other end yet
                printed += os.read(ours, 100_000)
        os.close(ours)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    latest = Checkpoints(out / "checkpoints").latest()
    assert latest
    assert [path.name for path in (out / "dqn-none-seed0/params").iterdir()] == [f"{latest}.arrays"]
    assert not (out / "lock").exists()
