"""Sweeps small enough to be trained whole in a test, and what they leave."""

import re
import time

from mico.sweeps.grid import Sweep
from mico.sweeps.manifest import Limits, planned, write_manifest
from mico.sweeps.status import read_status
from trainings import FLAGS, SMALL, left

FIELDS = {name.replace("-", "_"): (value,) for name, value in SMALL.items()}
UNLIMITED = Limits(None, None)


def small_sweep(*, fields=None, **entries):
    """Two fleets of four runs."""
    usual = {"steps": 400, "env": ["mdp/frozen-lake", "mdp/two-state"], "metric": ["none", "mico"], "seeds": [0, 1]}
    return Sweep(**usual | entries, fields=FIELDS | (fields or {}))


def pair_of_fleets(out, steps=400):
    """Two fleets of one program: a seed with and without MICo, and another one."""
    return begun(small_sweep(env=["mdp/two-state"], steps=steps), out, Limits(None, 2))


def flags_of_pair(steps=400):
    """The same as flags."""
    words = f"sweep --env mdp/two-state --metric none mico --seeds 0 1 --steps {steps} --max-runs 2"
    return [*words.split(), *FLAGS]


def begun(sweep, out, limits=UNLIMITED):
    """The fleets of a sweep whose folder has been made."""
    out.mkdir(exist_ok=True)
    fleets = planned(sweep, out, limits)
    write_manifest(out, sweep, fleets)
    return fleets


def left_by(fleets, out):
    """What must not depend on interruptions, of every fleet: logs and parameters."""
    return {fleet.name: left(out / fleet.name) for fleet in fleets}


def states(fleets, out):
    return [read_status(out, fleet.name).state for fleet in fleets]


def starts(fleet, out):
    """How many processes have trained a fleet."""
    config = (out / fleet.name / fleet.members[0].name / "config.json").read_text()
    return config.count('"commit"')


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what was waited for did not happen")
        time.sleep(0.02)


def is_under_way(fleet, out, steps=400):
    """Whether a fleet has a checkpoint in the midst of its learning, with steps to go."""
    found = [int(path.stem) for path in (out / fleet.name).glob("checkpoints/[0-9]*.arrays")]
    return any(80 <= step < steps for step in found)


def writer_of(fleet, out):
    """The process that trains a fleet, as its lock names it."""
    found = re.match(r"process (\d+) on", (out / fleet.name / "lock").read_text())
    assert found
    return int(found[1])
