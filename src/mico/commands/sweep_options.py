"""The flags of `mico sweep`: those that every sweep has, and the fields of its runs, each with a list of values."""

import argparse
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import tyro

from mico.commands.train_options import CheckpointSeconds, KeptReplay, TensorBoardToo
from mico.deep.options import PARTS, Option
from mico.sweeps.absent import shape_of
from mico.sweeps.files import entries, sweep_of
from mico.sweeps.grid import Sweep, named_values
from mico.sweeps.named import SWEEPS

_NAMES = ("env", "agent", "metric")
_USUAL = {"agent": ["dqn"], "metric": ["none"]}
_ENTRIES = ("steps", *_NAMES, "preset", "seeds")


def _arg(purpose: str, default: str, metavar: str | None = None) -> Any:
    return tyro.conf.arg(help=purpose, help_behavior_hint=f"(default: {default})", metavar=metavar)


_Several = tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """What every sweep has."""

    out: Annotated[Path | None, _arg("folder for the sweep", "needed, save with --dry-run", "PATH")] = None
    steps: Annotated[int | None, _arg("agent steps of each run", "needed", "INT")] = None
    env: Annotated[_Several, _arg("family/member, one or several", "needed", "[NAME ...]")] = ()
    agent: Annotated[_Several, _arg("agents", "dqn", "[NAME ...]")] = ()
    metric: Annotated[_Several, _arg("metric losses; none is the baseline", "none", "[NAME ...]")] = ()
    seeds: Annotated[tuple[int, ...], _arg("a run for each", "0", "[INT ...]")] = ()
    preset: Annotated[str | None, _arg("settings by name", "by --env", "NAME")] = None
    dry_run: Annotated[bool, tyro.conf.arg(help="say what there is to do and what it takes, and do nothing")] = False
    devices: Annotated[int, tyro.conf.arg(help="how many the estimate of time is for")] = 1
    memory: Annotated[float | None, _arg("gigabytes that a fleet may take", "what the device has", "FLOAT")] = None
    max_runs: Annotated[int | None, _arg("runs that a fleet may have", "as memory allows", "INT")] = None
    processes: Annotated[int, tyro.conf.arg(help="fleets at a time on this machine")] = 1
    ray: Annotated[str | None, _arg("run on the Ray cluster at this address, or auto", "here", "ADDRESS")] = None
    cpus: Annotated[float, tyro.conf.arg(help="cores of a fleet on Ray")] = 1.0
    gpus: Annotated[float | None, _arg("GPUs of a fleet on Ray", "1 if there are any", "FLOAT")] = None
    retries: Annotated[int, tyro.conf.arg(help="how often a fleet whose node or process is lost is tried again")] = 10
    checkpoint_seconds: CheckpointSeconds = 300.0
    checkpoint_replay: KeptReplay = "whole"
    tensorboard: TensorBoardToo = False

    def __post_init__(self) -> None:
        for name in ("devices", "processes", "max_runs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, but is {value}")
        for name in ("memory", "cpus"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, but is {value}")
        for name in ("retries", "gpus", "checkpoint_seconds"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, but is {value}")
        if self.out is None and not self.dry_run:
            raise ValueError("out is needed, a folder for the sweep")
        if self.ray is not None and self.processes > 1:
            raise ValueError("processes are for this machine alone, and --ray for a cluster: give one of them")


def parse(argv: list[str]) -> tuple[Options, Sweep]:
    """The options, and the sweep that a name or a file says, flags taking the place of its entries."""
    named = bool(argv) and not argv[0].startswith("-")
    given, flags = (entries(argv[0]), argv[1:]) if named else ({}, argv)
    fields = _fields(_ahead(flags), given)
    groups = [(part, Annotated[_group(own), tyro.conf.arg(name=part)]) for part, own in fields.items()]
    every = make_dataclass("Every", [("options", Annotated[Options, tyro.conf.arg(name="")]), *groups])
    off = (tyro.conf.FlagCreatePairsOff,)
    parsed = tyro.cli(every, prog="mico sweep [NAME | FILE]", description=_about(), args=flags, config=off)
    written = {word.partition("=")[0].replace("_", "-") for word in flags}
    more = {name: getattr(parsed.options, name) for name in _ENTRIES if f"--{name}" in written}
    values = {
        f"{part}.{option.name}": getattr(getattr(parsed, part), option.name)
        for part, own in fields.items()
        for option in own
        if f"--{part}.{option.name}".replace("_", "-") in written
    }
    if values:
        more["fields"] = named_values("fields", given.get("fields", {})) | values
    return parsed.options, sweep_of(given | more)


def _about() -> str:
    shown = "; ".join(f"{name}: {known.purpose}" for name, known in SWEEPS.items())
    return (
        "A grid of runs, grouped into fleets, from flags, from a TOML or Python file, or by name, whose entries flags"
        f" replace. Fields take several values each. Running the same again goes on. Names are {shown}."
    )


def _ahead(argv: list[str]) -> dict[str, Any]:
    """What decides which fields there are."""
    ahead = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in _NAMES:
        ahead.add_argument(f"--{name}", nargs="*")
    ahead.add_argument("--preset")
    try:
        given, _ = ahead.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ValueError(str(error).removeprefix("argument ")) from None
    return {name: value for name, value in vars(given).items() if value is not None}


def _fields(ahead: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, list[Option]]:
    """By part, the fields that any of the chosen runs has."""
    own = {name: value for name, value in given.items() if name in (*_NAMES, "preset")}
    chosen: dict[str, Any] = {**_USUAL, **own, **ahead}
    lists = [[chosen[name]] if isinstance(chosen.get(name), str) else chosen.get(name, []) for name in _NAMES]
    known: dict[str, Option] = {}
    for env, agent, metric in product(*lists):
        known |= shape_of(str(env), str(agent), str(metric), chosen.get("preset")).options
    parts = {part: [option for name, option in known.items() if name.startswith(f"{part}.")] for part in PARTS}
    return {part: own for part, own in parts.items() if own}


def _group(options: list[Option]) -> type:
    """Fields as a dataclass that tyro can fill, none of them needed."""
    fields = []
    for option in options:
        kind = float if option.kind == float | None else option.kind
        shown = Annotated[tuple[kind, ...], tyro.conf.arg(help=option.purpose, help_behavior_hint="(default: preset)")]
        fields.append((option.name, shown, dataclasses.field(default=())))
    return make_dataclass("Group", fields, kw_only=True)
