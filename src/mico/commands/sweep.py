"""`mico sweep`: a grid of runs as fleets, here, in several processes or on a Ray cluster."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from rich import box
from rich.console import Console
from rich.table import Table

from mico.commands.sweep_display import Display
from mico.commands.sweep_options import Options, parse
from mico.commands.text import in_bytes
from mico.deep import host_memory
from mico.deep.periods import few_rows
from mico.deep.train import Manner
from mico.results.folders import writable
from mico.results.lock import exclusive
from mico.results.log import summary_writer
from mico.sweeps import local
from mico.sweeps.costs import DEVICES, Device, duration, estimate, makespan
from mico.sweeps.fleets import finished, frozen
from mico.sweeps.manifest import Limits, planned, write_manifest
from mico.sweeps.plan import Fleet
from mico.sweeps.status import WAITING, Status, read_status, write_status

_HOST_SHARE = 0.5  # of what is free: a checkpoint takes a copy
_LISTED = 20  # fleets or runs, beyond which they are only summed up


def main(argv: list[str]) -> None:
    options, sweep = parse(argv)
    if options.processes > 1 or options.ray is not None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is for those that train
    if options.tensorboard:
        summary_writer()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    like = Path(argv[0]) if argv[0].endswith(".json") else None
    fleets = planned(sweep, options.out, Limits(_memory(options), options.max_runs), like)
    if options.dry_run or options.out is None:
        _say_what_it_takes(console, fleets, options)
        return
    missing = next((fleet for fleet in fleets if fleet.missing), None)
    if missing is not None:
        env = missing.members[0].cell.env
        raise ValueError(f"{env} cannot be run: {missing.missing} (--dry-run says what it takes)")
    _say_what_it_takes(console, fleets, options)
    with exclusive(writable(options.out)):
        write_manifest(options.out, sweep, fleets)
        _run(fleets, options, options.out, console)


def _run(fleets: Sequence[Fleet], options: Options, out: Path, console: Console) -> None:
    """All fleets that are not finished; those that fail are listed at the end."""
    todo = [fleet for fleet in fleets if not finished(fleet, out)]
    if len(todo) < len(fleets):
        console.print(f"{len(fleets) - len(todo)} of {len(fleets)} fleets were finished before.")
    for fleet in todo:
        write_status(out, fleet.name, WAITING)  # whatever became of it before
    display = Display(fleets, todo, console)
    try:
        with display.shown:
            _train(todo, options, out, display)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; what was trained is saved in {out}, and the same command goes on") from None
    failed = {fleet: status for fleet in fleets if (status := read_status(out, fleet.name)).state != "finished"}
    failed |= display.failed  # also of those whose state could not be written
    console.print(_ended(fleets, failed, out))
    bad = [run for fleet in fleets if fleet not in failed for run in frozen(fleet, out)]
    if bad:
        more = f" and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        console.print(f"Frozen, because they were not finite: {', '.join(bad[:_LISTED])}{more}.")
    if failed:
        raise SystemExit(1)


def _train(todo: Sequence[Fleet], options: Options, out: Path, display: Display) -> None:
    manner = Manner(options.checkpoint_seconds, options.checkpoint_replay, options.tensorboard)
    if options.ray is not None:
        cluster = _cluster()
        need = cluster.Need(options.cpus, options.gpus, options.retries)
        with cluster.connected(options.ray):
            cluster.on_ray(todo, out, manner, display.update, need=need)
    elif options.processes > 1:
        local.in_processes(todo, out, manner, display.update, count=options.processes)
    else:
        local.in_turn(todo, out, manner, display.update)


def _cluster() -> Any:
    """What runs fleets on Ray, an extra."""
    try:
        from mico.sweeps import cluster
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("--ray needs: pip install 'mico-rl[cluster]'") from error
    return cluster


def _memory(options: Options) -> int | None:
    """Bytes that a fleet may take: as given, or what the device has for each of those that share it."""
    if options.memory is not None:
        return int(options.memory * 1e9)
    stats = jax.devices()[0].memory_stats() or {}
    room = stats.get("bytes_limit") or int(_HOST_SHARE * host_memory.available())
    return room // options.processes or None


def _say_what_it_takes(console: Console, fleets: Sequence[Fleet], options: Options) -> None:
    runs = sum(len(fleet.members) for fleet in fleets)
    largest = max(fleet.size for fleet in fleets)
    many = f"{runs} runs of {fleets[0].steps:,} steps in {len(fleets)} fleet{'s' * (len(fleets) != 1)}"
    console.print(f"{many}, the largest of about {in_bytes(largest)}.")
    few = next(filter(None, map(_few_rows, fleets)), None)
    if few is not None:
        console.print(few)
    if options.dry_run and len(fleets) <= _LISTED:
        console.print(_table(fleets, options.out), soft_wrap=False)
    here: Device = "cpu" if jax.default_backend() == "cpu" else "gpu"
    kinds: list[Device] = [here] if here == "gpu" or not options.dry_run else [here, "gpu"]
    left = [fleet for fleet in fleets if options.out is None or not finished(fleet, options.out)]
    lines = [_time(left, device, options.devices) for device in kinds] if left else ["Nothing is left to do."]
    known = [*filter(None, lines)]
    if options.dry_run and not known:
        known = ["How long it takes is not known: the pace of such runs was not measured."]
    for line in known:
        console.print(line)


def _few_rows(fleet: Fleet) -> str | None:
    cell = fleet.members[0].cell
    return few_rows(cell.shape.choice.planned_schedule(dict(cell.fields), fleet.steps), fleet.steps)


def _table(fleets: Sequence[Fleet], out: Path | None) -> Table:
    table = Table(box=box.SIMPLE)
    for name in ("fleet", "runs", "memory", "baselines", "state"):
        table.add_column(name, justify="right" if name in ("runs", "memory") else "left", overflow="fold")
    for fleet in fleets:
        state = "waiting" if out is None else read_status(out, fleet.name).state
        shared = f"as {fleet.shared()}, α = 0" if fleet.shared() else ""
        table.add_row(fleet.name, str(len(fleet.members)), in_bytes(fleet.size), shared, state)
    return table


def _time(fleets: Sequence[Fleet], device: Device, devices: int) -> str | None:
    """About how long it all takes on devices of a kind; None if that is not known of every fleet."""
    found = [one for fleet in fleets if (one := estimate(fleet, device)) is not None]
    if len(found) < len(fleets):
        return None
    seconds = [one.seconds for one in found]
    how = "from measured paces" if all(one.measured for one in found) else "an estimate, not measured"
    line = f"About {duration(sum(seconds))} on {DEVICES[device]}"
    if devices > 1:
        line += f", about {duration(makespan(seconds, devices))} on {devices} such"
    return f"{line} ({how})."


def _ended(fleets: Sequence[Fleet], failed: dict[Fleet, Status], out: Path) -> str:
    if not failed:
        return f"All {len(fleets)} fleets are finished; logs and parameters are in {out}."
    lines = [f"  {fleet.name}: {status.error or 'it did not end'}" for fleet, status in failed.items()]
    return "\n".join([f"{len(failed)} of {len(fleets)} fleets failed; the same command tries them again:", *lines])
