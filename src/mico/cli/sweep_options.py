"""The flags of `mico sweep`: those that every sweep has, and the fields of its runs, each with a list of values."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from itertools import product
from math import lcm
from pathlib import Path
from typing import Annotated, Any

import tyro

from mico._checks import count
from mico.cli._flags import parse_flags
from mico.cli.counts import Count, OptionalCount, OptionalNumber, several_numbers
from mico.cli.train_options import CheckpointSeconds, KeptReplay, TensorBoardToo
from mico.deep.config.choices import PARTS, Option
from mico.deep.config.periods import round_up
from mico.deep.envs import split_name
from mico.sweeps.absent import shape_of
from mico.sweeps.files import entries
from mico.sweeps.grid import Sweep, cells, make_sweep, named_values
from mico.sweeps.named import SWEEPS

_NAMES = ("env", "agent", "metric")
_USUAL = {"agent": ["dqn"], "metric": ["none"]}
_ENTRIES = ("steps", *_NAMES, "preset", "seeds")


def _arg(purpose: str, default: str, metavar: str | None = None) -> Any:
    """How an option is described; `default` says in words what holds without it."""
    return tyro.conf.arg(help=purpose, help_behavior_hint=f"({default})", metavar=metavar)


_Several = tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """Options of every sweep."""

    out: Annotated[
        Path | None,
        _arg("Folder for logs, checkpoints and parameters of the sweep.", "required, except with --dry-run", "FOLDER"),
    ] = None
    steps: Annotated[OptionalCount, _arg("Agent steps of each run, such as 20000, 200k or 1e6.", "required")] = None
    env: Annotated[
        _Several,
        _arg("Environments as family/name, or mdp/FILE.npz: `mico list envs` shows names.", "required", "NAME ..."),
    ] = ()
    agent: Annotated[_Several, _arg("Agents to train, see `mico list agents`.", "default: dqn", "NAME ...")] = ()
    metric: Annotated[
        _Several,
        _arg(
            "Metric losses to train with, see `mico list losses`; `none` is the agent alone.",
            "default: none",
            "NAME ...",
        ),
    ] = ()
    seeds: Annotated[tuple[int, ...], _arg("Random seeds, one run for each.", "default: 0", "INT ...")] = ()
    preset: Annotated[
        str | None,
        _arg("Values of all fields below that are not given.", "default: that of the environment's family", "NAME"),
    ] = None
    dry_run: Annotated[
        bool, tyro.conf.arg(help="Print how many runs there are, and the memory they take; train nothing.")
    ] = False
    memory: Annotated[
        OptionalNumber, _arg("Gigabytes of memory that a fleet may take.", "default: that of the device")
    ] = None
    max_runs: Annotated[
        OptionalCount, _arg("Most runs that a fleet may have.", "default: as many as memory allows")
    ] = None
    processes: Annotated[Count, tyro.conf.arg(help="How many fleets to train at the same time on this machine.")] = 1
    ray: Annotated[
        str | None, _arg("Address of a Ray cluster to train on, or `auto`.", "default: this machine", "ADDRESS")
    ] = None
    cpus: Annotated[float, tyro.conf.arg(help="CPU cores that each fleet reserves on Ray.")] = 1.0
    gpus: Annotated[OptionalNumber, _arg("GPUs that each fleet reserves on Ray.", "default: 1 if there are any")] = None
    retries: Annotated[
        Count, tyro.conf.arg(help="How often a fleet is started again after its node or process was lost.")
    ] = 10
    checkpoint_seconds: CheckpointSeconds = 300.0
    checkpoint_replay: KeptReplay = "whole"
    tensorboard: TensorBoardToo = False

    def __post_init__(self) -> None:
        for name in ("processes", "max_runs"):
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
    parsed = parse_flags(every, prog="mico sweep [NAME | FILE]", description=_about(), args=flags, config=off)
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
        more["fields_by_metric"] = {
            metric: {name: own[name] for name in own if name not in values}
            for metric, own in given.get("fields_by_metric", {}).items()
        }
    return parsed.options, _checked(given | more)


def _checked(entries: Mapping[str, Any]) -> Sweep:
    """The sweep of these entries: its steps in whole updates, and files of MDPs by their whole paths."""
    if entries.get("steps") is None:
        raise ValueError("steps is missing: give --steps, the agent steps of each run")
    sweep = make_sweep({**entries, "steps": count(entries["steps"], "steps")})
    sweep = dataclasses.replace(sweep, env=_whole_paths(sweep.env))
    kinds = {(cell.shape.choice, cell.fields) for cell in cells(sweep)}
    periods = {choice.planned_schedule(dict(fields), None).update_period for choice, fields in kinds}
    return dataclasses.replace(sweep, steps=round_up("steps", sweep.steps, lcm(*periods)))


def _whole_paths(names: Sequence[str]) -> list[str]:
    """Names of environments, with files from whatever folder the sweep is resumed in."""
    files = {name: split_name(name).file for name in names}
    whole = {name: name if file is None else f"mdp/{file.absolute()}" for name, file in files.items()}
    names_of_files = [file.name for file in files.values() if file is not None]
    twice = next((name for name in names_of_files if names_of_files.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"env has several files called {twice}, which results could not tell apart: rename one")
    return list(whole.values())


def _about() -> str:
    shown = "\n".join(f"  {name}: {known.purpose}" for name, known in SWEEPS.items())
    return (
        "Train every combination of environments, agents, metric losses, seeds and fields, grouped into fleets."
        " The grid comes from flags, from a TOML file, or by name; flags replace what a file says. Every"
        f" field may have several values. The same command again resumes the sweep.\n\nNamed sweeps:\n{shown}"
    )


def _ahead(argv: list[str]) -> dict[str, Any]:
    """Read the options on which the other options depend."""
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
        numbers = several_numbers(option.kind, metavar="{} ...")
        default = f"default: {option.usual or 'the preset'}"
        about = _arg(option.purpose, default, "NAME ..." if option.kind is str else None)
        shown = Annotated[numbers or tuple[option.kind, ...], about]
        fields.append((option.name, shown, dataclasses.field(default=())))
    return make_dataclass("Group", fields, kw_only=True)
