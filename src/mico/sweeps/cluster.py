"""A sweep on a Ray cluster: each fleet a task, tried again on another node from its last checkpoint."""

import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

from mico._plugins import import_modules, imported_modules
from mico._signals import stop_signals
from mico.deep.training.train import Manner
from mico.sweeps.fleets import attempt
from mico.sweeps.local import Watch
from mico.sweeps.plan import Fleet
from mico.sweeps.processes import take_cores
from mico.sweeps.status import Status, read_status, write_status

_LOOK = 1.0  # seconds between looks at how far the tasks are
_ANSWER = 5.0  # seconds that an address has to answer: Ray itself would try for minutes
_SAVING = 120.0  # seconds that tasks have to save where they are when the driver is stopped


class Need(NamedTuple):
    """Resources that a fleet reserves on its node, and how often it is restarted when node or process is lost."""

    cpus: float = 1.0
    gpus: float | None = None
    retries: int = 10


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A driver of the cluster at an address, "auto" for the one that this machine is part of."""
    _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        hint = "`ray start --head` starts one on this machine" if address == "auto" else "is it running?"
        raise ValueError(f"no Ray cluster at --ray {address}: {hint}") from error
    except RuntimeError as error:  # such as another version of Ray or Python there
        raise ValueError(f"the Ray cluster at {address} does not take this process: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse a HOST:PORT where nobody listens; what else an address may be, Ray itself looks at."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), port), timeout=_ANSWER).close()
    except (OSError, UnicodeError) as error:  # the latter of names that no host can have
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"no Ray cluster at --ray {address}: {why}") from error


def check_room(need: Need) -> None:
    """Refuse what no node of the cluster has: Ray would wait for one for ever.

    Args:
        need: What a fleet takes of its node.

    Raises:
        ValueError: If no node has as much, with what they have.
    """
    nodes, gpus = [node["Resources"] for node in ray.nodes() if node["Alive"]], _gpus(need)
    if not any(node.get("CPU", 0) >= need.cpus and node.get("GPU", 0) >= gpus for node in nodes):
        shown = ", ".join(sorted({f"{node.get('CPU', 0):g} cores and {node.get('GPU', 0):g} GPUs" for node in nodes}))
        raise ValueError(f"a fleet needs {need.cpus:g} cores and {gpus:g} GPUs, but the nodes have {shown}")


def on_ray(fleets: Sequence[Fleet], out: Path, manner: Manner, watch: Watch, *, need: Need) -> None:
    """Train fleets as tasks of the cluster that this process is connected to.

    Args:
        fleets: The fleets.
        out: The folder of the sweep, which all nodes see.
        manner: How they are trained.
        watch: Called with the newest state of a fleet.
        need: What a fleet takes of its node.
    """
    placed = {"num_cpus": need.cpus, "num_gpus": _gpus(need), "max_retries": need.retries}
    alone = ray.remote(max_calls=1)(_work)  # a process for each fleet, which leaves nothing to the next
    task = alone.options(**placed, scheduling_strategy="SPREAD")
    tries = dict.fromkeys(fleets, 0)

    def begin(fleet: Fleet) -> Any:
        tries[fleet] += 1
        return task.remote(fleet, out.resolve(), manner, need.cpus, imported_modules())

    with stop_signals() as stopping:
        active = {begin(fleet): fleet for fleet in fleets}
        while active and not stopping():
            done, going = ray.wait([*active], timeout=_LOOK)
            for fleet in [active[reference] for reference in going]:
                if (status := read_status(out, fleet.name)).state == "running":
                    watch(fleet, status)
            for reference in done:
                fleet = active.pop(reference)
                status = _result(fleet, out, reference)
                if status.state in ("finished", "failed"):
                    watch(fleet, status)
                elif tries[fleet] <= need.retries:  # stopped with its node, not by us
                    active[begin(fleet)] = fleet
                else:
                    watch(fleet, _failed(fleet, out, f"it was stopped {tries[fleet]} times"))
        stopped = stopping()
        if stopped:
            _stop([*active])
    if stopped:
        raise KeyboardInterrupt("stopped; what was trained is saved")


def _work(fleet: Fleet, out: Path, manner: Manner, cpus: float, modules: tuple[str, ...]) -> Status:
    take_cores(cpus)
    import_modules(modules)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several fleets may share a GPU
    warnings.simplefilter("ignore")
    try:
        return attempt(fleet, out, manner)
    except KeyboardInterrupt:  # by ray.cancel, or because the node is about to go
        return read_status(out, fleet.name)


def _result(fleet: Fleet, out: Path, reference: Any) -> Status:
    """The status that a task returns, or a failure with the error that Ray reports."""
    try:
        return ray.get(reference)
    except RayError as error:
        return _failed(fleet, out, str(error))


def _failed(fleet: Fleet, out: Path, why: str) -> Status:
    line = " ".join(why.split())[:300]
    status = read_status(out, fleet.name)._replace(state="failed", error=line, details=why)
    write_status(out, fleet.name, status)
    return status


def _stop(references: list[Any]) -> None:
    """Let every task save and end; those that have not begun never do."""
    for reference in references:
        ray.cancel(reference, force=False)
    deadline = time.monotonic() + _SAVING
    while references and time.monotonic() < deadline:
        _, references = ray.wait(references, num_returns=len(references), timeout=_LOOK)


def _gpus(need: Need) -> float:
    """GPUs of a fleet: as asked for, or one if the cluster has any."""
    return need.gpus if need.gpus is not None else float(ray.cluster_resources().get("GPU", 0) > 0)
