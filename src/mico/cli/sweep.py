"""`mico sweep`: a grid of runs as fleets, here, in several processes or on a Ray cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from rich import box
from rich.console import Console
from rich.table import Table

from mico import _memory as host_memory
from mico._checks import install_hint
from mico.cli.sweep_display import Display
from mico.cli.sweep_options import Options, parse
from mico.cli.text import PlainConsole, in_bytes
from mico.deep.config.periods import few_rows
from mico.deep.config.presets import RELEASED
from mico.deep.training.train import Manner
from mico.runs.lock import locked_folder
from mico.runs.log import summary_writer
from mico.sweeps import local
from mico.sweeps.fleets import finished, frozen
from mico.sweeps.grid import Sweep
from mico.sweeps.manifest import MANIFEST, Limits, planned, write_manifest
from mico.sweeps.plan import Fleet
from mico.sweeps.readings import other_readings
from mico.sweeps.status import WAITING, Status, read_status, write_status

_HOST_SHARE = 0.5  # of what is free: a checkpoint takes a copy
_LISTED = 20  # fleets or runs, beyond which they are only summed up
Train = Callable[[Sequence[Fleet], Path, local.Watch], None]


def main(argv: list[str]) -> None:
    """Run `mico sweep` with these arguments."""
    options, sweep = parse(argv)
    if options.processes > 1 or options.ray is not None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is for those that train
    if options.tensorboard:
        summary_writer()
    console = PlainConsole(soft_wrap=True)
    like = Path(argv[0]) if argv[0].endswith(".json") else None
    fleets = planned(sweep, options.out, Limits(_memory(options), options.max_runs), like)
    fixed = like is not None or (options.out is not None and (options.out / MANIFEST).exists())
    takes = _what_it_takes(fleets, options, fixed=fixed)
    if options.dry_run or options.out is None:
        console.print("\n".join([*takes, *_readings(sweep)]))
        if len(fleets) <= _LISTED:
            console.print(_table(fleets, options.out), soft_wrap=False)
        return
    missing = next((fleet for fleet in fleets if fleet.missing), None)
    if missing is not None:
        env = missing.members[0].cell.env
        raise ValueError(f"{env} cannot be run: {missing.missing} (--dry-run says what it takes)")
    with _trainer(options) as train, locked_folder(options.out):
        console.print("\n".join(takes))
        write_manifest(options.out, sweep, fleets)
        _run(fleets, train, options.out, console)


def _run(fleets: Sequence[Fleet], train: Train, out: Path, console: Console) -> None:
    """Train all fleets that are not finished; those that fail are listed at the end."""
    todo = [fleet for fleet in fleets if not finished(fleet, out)]
    if len(todo) < len(fleets):
        console.print(f"{len(fleets) - len(todo)} of {len(fleets)} fleets were finished before.")
    for fleet in todo:
        write_status(out, fleet.name, WAITING)  # whatever became of it before
    display = Display(fleets, todo, console)
    try:
        with display.shown:
            train(todo, out, display.update)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; what was trained is saved in {out}: run the same command again to continue"
        ) from None
    failed = {fleet: status for fleet in fleets if (status := read_status(out, fleet.name)).state != "finished"}
    failed |= display.failed  # also of those whose state could not be written
    console.print(_ended(fleets, failed, out))
    bad = [run for fleet in fleets if fleet not in failed for run in frozen(fleet, out)]
    if bad:
        more = f" and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        console.print(f"Stopped learning because a loss was not finite: {', '.join(bad[:_LISTED])}{more}.")
    if failed:
        raise SystemExit(1)


@contextmanager
def _trainer(options: Options) -> Iterator[Train]:
    """Yield the function that trains fleets; missing packages are reported before anything is written."""
    manner = Manner(options.checkpoint_seconds, options.checkpoint_replay, options.tensorboard)
    if options.ray is not None:
        cluster = _cluster()
        need = cluster.Need(options.cpus, options.gpus, options.retries)
        with cluster.connected(options.ray):
            cluster.check_room(need)
            yield lambda fleets, out, watch: cluster.on_ray(fleets, out, manner, watch, need=need)
    elif options.processes > 1:
        yield lambda fleets, out, watch: local.in_processes(fleets, out, manner, watch, count=options.processes)
    else:
        yield lambda fleets, out, watch: local.in_turn(fleets, out, manner, watch)


def _cluster() -> Any:
    """Import the module that runs fleets on Ray, an optional dependency."""
    try:
        from mico.sweeps import cluster
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"--ray needs: {install_hint('cluster')}") from error
    return cluster


def _memory(options: Options) -> int | None:
    """Bytes that a fleet may take: as given, or what the device has for each of those that share it."""
    if options.memory is not None:
        return int(options.memory * 1e9)
    stats = jax.devices()[0].memory_stats() or {}
    room = stats.get("bytes_limit") or int(_HOST_SHARE * host_memory.available())
    return room // options.processes or None


def _what_it_takes(fleets: Sequence[Fleet], options: Options, *, fixed: bool) -> list[str]:
    """Lines about how many runs and fleets there are, and how large; a dry run says what their size is for.

    Fleets that are `fixed` have their size from a manifest, and not from a device.
    """
    runs = sum(len(fleet.members) for fleet in fleets)
    largest = max(fleet.size for fleet in fleets)
    fleets_counted = f"{len(fleets)} fleet{'s' * (len(fleets) != 1)}"
    many = f"{runs} run{'s' * (runs != 1)} of {fleets[0].steps:,} steps in {fleets_counted}"
    lines = [f"{many}, the largest of about {in_bytes(largest)}."]
    lines += [*filter(None, map(_few_rows, fleets))][:1]
    memory = _memory(options)
    if options.dry_run and options.memory is None and memory is not None and not fixed:
        lines.append(f"Fleets are sized for this machine, up to {in_bytes(memory)} each; --memory sets another size.")
    if options.out is not None and all(finished(fleet, options.out) for fleet in fleets):
        lines.append("Nothing is left to do.")
    return lines


def _readings(sweep: Sweep) -> list[str]:
    """Lines about the readings of the paper in which the runs differ from the released code, or from our defaults."""
    lines = []
    for preset, differences in other_readings(sweep).items():
        theirs, who = ("ours", "our defaults") if preset in RELEASED else ("released", "the released code")
        if differences:
            lines.append(f"These readings are not those of {who}, --preset {preset}:")
        every = {arm for one in differences for arm in one.arms}
        for field, value, other, arms in differences:
            of = "" if len(arms) == len(every) else f" ({', '.join(arms)})"
            lines.append(f"  {field.replace('_', '-')}: {value}, {theirs} {other}{of}")
    return lines


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


def _ended(fleets: Sequence[Fleet], failed: dict[Fleet, Status], out: Path) -> str:
    if not failed:
        which = "The fleet is" if len(fleets) == 1 else f"All {len(fleets)} fleets are"
        return f"{which} finished; logs and parameters are in {out}."
    lines = [f"  {fleet.name}: {status.error or 'it did not finish'}" for fleet, status in failed.items()]
    return "\n".join([f"{len(failed)} of {len(fleets)} fleets failed; the same command tries them again:", *lines])
