"""Trainings in a process of their own or in this one, and what they leave."""

import os
import subprocess
import sys

from mico.deep.training.train import train

SMALL = {
    "network.width": 8,
    "network.hidden": 8,
    "replay.capacity": 200,
    "replay.batch-size": 8,
    "schedule.learning-starts": 40,
    "schedule.target-period": 40,
    "schedule.log-period": 40,
    "schedule.epsilon-decay": 200,
}
FLAGS = [text for name, value in SMALL.items() for text in (f"--{name}", str(value))]
_PERIODS = ("schedule.target-period", "schedule.epsilon-decay")  # which an actor has no use for
_ACTOR = {name: value for name, value in SMALL.items() if name not in _PERIODS} | {
    "network.latent": 5,
    "network.initialiser": "xavier",
    "schedule.update-period": 4,
}
ACTOR_FLAGS = [text for name, value in _ACTOR.items() for text in (f"--{name}", str(value))]


class Crash(BaseException):
    """The end of a process, as far as the files can tell: nothing that follows is done."""


def crashing(at):
    """A report that crashes once a step is reached."""

    def report(progress):
        if progress.step >= at:
            raise Crash

    return report


def left(out):
    """What must not depend on interruptions: every byte of the logs and the parameters."""
    kept = [*out.glob("*/log.jsonl"), *out.glob("*/params/*")]
    return {str(path.relative_to(out)): path.read_bytes() for path in kept}


def reference(runs, out, steps):
    """What an undisturbed training leaves."""
    train(runs, out, steps=steps)
    found = left(out)
    assert len(found) == 2 * len(runs)
    return found


def mico(*arguments, quick=True):
    """A command in a process of its own; programs that are compiled quickly are less optimised."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(quick))}
    command = [sys.executable, "-m", "mico.cli", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process, timeout=300):
    """Its exit code, and what it printed."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err
