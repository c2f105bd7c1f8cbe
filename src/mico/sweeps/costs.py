"""Estimates of a sweep before it starts: fleets, memory and, from measured speeds, time."""

import heapq
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from mico.deep.agents.iqn import AbstractImplicitAgent
from mico.deep.config.run import Run
from mico.sweeps.plan import Fleet

Device = Literal["cpu", "gpu"]
GPU_MEMORY = 130e9  # bytes that a fleet may take on an H200, which has 141 GB
DEVICES: dict[Device, str] = {"cpu": "two CPU cores", "gpu": "one H200"}


class Pace(NamedTuple):
    """Agent steps per second of all runs of a fleet together, by how many there are, without and with a metric loss."""

    none: dict[int, float]
    metric: dict[int, float]


# DQN on MinAtar's Breakout, and DQN with MICo on the Atari one, where the emulator sets the pace: docs/speed.md.
_DQN: dict[Device, Pace] = {
    "cpu": Pace({1: 6_110.0, 4: 16_405.0}, {1: 4_738.0, 4: 12_395.0}),
    "gpu": Pace({64: 887_000.0, 256: 1_267_000.0}, {64: 814_000.0, 256: 1_035_000.0}),
}
_ATARI = Pace(*2 * ({1: 677.0, 8: 4_007.0, 16: 6_634.0, 32: 8_129.0},))
# A fleet of ten runs of IQN with MICo learnt Space Invaders on the H200 at this pace, and two side by side at half of
# it each, so that more runs are no faster.
_IQN = Pace(*2 * ({10: 48_000.0},))
# Of 20 with shared fractions in bfloat16, for which there are kernels (Seaquest): docs/speed.md.
_FUSED_IQN = Pace(*2 * ({20: 170_000.0},))
# How many times DQN's time the others took, beside other work: rough.
_TIMES_OF_DQN: dict[Device, dict[str, float]] = {
    "cpu": {"dqn": 1.0, "rainbow": 1.9, "qr-dqn": 1.8, "iqn": 90.0, "m-iqn": 110.0},
    "gpu": {"dqn": 1.0, "rainbow": 1.3, "qr-dqn": 1.3},
}
_TIMES_OF_IQN = {"iqn": 1.0, "m-iqn": 1.4}
# SAC with MICo in bfloat16; one run without it, or with DBC, is within a tenth of that.
_CONTROL = Pace(*2 * ({1: 196.0, 8: 273.0},))


class Cost(NamedTuple):
    """Seconds of a fleet, and whether its pace was measured for such runs or is derived from others'."""

    seconds: float
    measured: bool


def estimate(fleet: Fleet, device: Device) -> Cost | None:
    """How long a fleet takes on a device; None where nothing like it was measured."""
    cell = fleet.members[0].cell
    family = cell.env.partition("/")[0]
    learns = any(member.cell.metric != "none" for member in fleet.members)
    found = _pace(family, fleet, device)
    if found is None:
        return None
    pace, slower, measured = found
    paces, count = pace.metric if learns else pace.none, len(fleet.members)
    return Cost(count * fleet.steps * slower / _rate(paces, count), measured and count >= min(paces))


def makespan(seconds: Sequence[float], devices: int) -> float:
    """The time until all are done if each device takes the longest fleet that is left."""
    ends = [0.0] * devices
    for one in sorted(seconds, reverse=True):
        heapq.heappush(ends, heapq.heappop(ends) + one)
    return max(ends)


def duration(seconds: float) -> str:
    """In the unit of which there are a few: an estimate is no more exact."""
    units = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
    name = next((name for name, unit in units.items() if seconds >= 2 * unit), "seconds")
    return f"{seconds / units[name]:,.0f} {name}"


def _pace(family: str, fleet: Fleet, device: Device) -> tuple[Pace, float, bool] | None:
    """A pace, how many times as long the agent takes, and whether that was measured as it is."""
    agent = fleet.members[0].cell.agent
    if family == "minatar" and device == "gpu" and agent in _TIMES_OF_IQN:
        return _FUSED_IQN if _fused(fleet.runs()[0]) else _IQN, _TIMES_OF_IQN[agent], agent == "iqn"
    if family == "minatar":
        return _DQN[device], _TIMES_OF_DQN[device][agent], agent == "dqn"
    if device == "gpu" and family == "atari":
        return _ATARI, 1.0, agent == "dqn"
    if device == "gpu" and family == "control":
        return _CONTROL, 1.0, False
    return None


def _fused(run: Run) -> bool:
    """Whether IQN's products are of the kind that has kernels on a GPU."""
    agent, precision = run.agent, run.network.precision
    return isinstance(agent, AbstractImplicitAgent) and agent.fractions == "shared" and precision == "bfloat16"


def _rate(paces: dict[int, float], count: int) -> float:
    """Steps per second: between measured counts by the logarithm, in proportion below them, the same above them."""
    counts = sorted(paces)
    if count <= counts[0]:
        return paces[counts[0]] * count / counts[0]
    for low, high in pairwise(counts):
        if count <= high:
            share = math.log(count / low) / math.log(high / low)
            return paces[low] + share * (paces[high] - paces[low])
    return paces[counts[-1]]
