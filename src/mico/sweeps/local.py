"""A sweep on this machine: a fleet after another in this process, or several at a time in processes of their own."""

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import jax

from mico._checks import printable
from mico._plugins import import_modules, imported_modules
from mico._signals import stop_signals
from mico.deep.training.train import Manner
from mico.sweeps.fleets import attempt
from mico.sweeps.plan import Fleet
from mico.sweeps.processes import end_with_parent, take_cores
from mico.sweeps.status import Status, read_status, running, write_status

Watch = Callable[[Fleet, Status], None]

_LOOK = 0.5  # seconds between looks at how far the processes are


def in_turn(fleets: Sequence[Fleet], out: Path, manner: Manner, watch: Watch) -> None:
    """One after the other, here."""
    program = None
    for fleet in fleets:
        if fleet.program() != program:
            jax.clear_caches()  # what the fleets before were compiled to would only fill the memory
        program = fleet.program()
        watch(fleet, Status("running"))
        watch(fleet, attempt(fleet, out, manner, lambda progress, fleet=fleet: watch(fleet, running(progress))))


def in_processes(fleets: Sequence[Fleet], out: Path, manner: Manner, watch: Watch, *, count: int) -> None:
    """Train several fleets at a time in processes that share the cores evenly; memory is taken as needed."""
    context = multiprocessing.get_context("spawn")
    cores = max(1, (os.cpu_count() or 1) // count)
    waiting, active = list(fleets), {}
    with stop_signals() as stopping:
        told = False
        while active or (waiting and not stopping()):
            while waiting and len(active) < count and not stopping():
                fleet = waiting.pop(0)
                active[fleet] = context.Process(target=_work, args=(fleet, out, manner, cores))
                active[fleet].start()
            wait([process.sentinel for process in active.values()], timeout=_LOOK)
            for fleet, process in [*active.items()]:
                if not process.is_alive():
                    watch(fleet, _end(fleet, out, active.pop(fleet)))
                elif (status := read_status(out, fleet.name)).state == "running":
                    watch(fleet, status)
            if stopping() and not told:  # once: a second signal would stop them before they have saved
                told = True
                for pid in [process.pid for process in active.values() if process.pid is not None]:
                    os.kill(pid, signal.SIGINT)
        stopped = stopping()
    if stopped:
        raise KeyboardInterrupt("stopped; what was trained is saved")


def _work(fleet: Fleet, out: Path, manner: Manner, cores: int) -> None:
    """A fleet in a process of its own, which Ctrl-C on the terminal does not reach: the parent passes it on."""
    os.setsid()
    end_with_parent()
    take_cores(cores)
    import_modules(imported_modules())
    warnings.showwarning = lambda message, *_, **__: sys.stderr.write(
        f"mico: {printable(f'{fleet.name}: {message}')}\n"
    )
    try:
        attempt(fleet, out, manner)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _end(fleet: Fleet, out: Path, process: SpawnProcess) -> Status:
    """The status that a process left; a failure, if it was killed."""
    process.join()
    status = read_status(out, fleet.name)
    if status.state in ("waiting", "running"):
        code = process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"code {code}"
        error = f"its process ended before its time, with {how}, perhaps for want of memory"
        status = status._replace(state="failed", error=error)
        write_status(out, fleet.name, status)
    return status
