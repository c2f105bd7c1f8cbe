"""The flags of `mico train`: those that every training has, and a group for each part of this one's settings."""

import argparse
import dataclasses
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from mico.commands.text import summary
from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS, Atari
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.options import METRICS, Choice, Option
from mico.deep.presets import PRESETS
from mico.deep.settings import Run
from mico.deep.train import CheckpointReplay

_DEFAULT_ENV = "minatar/breakout"

CheckpointSeconds = Annotated[float, tyro.conf.arg(help="at least so many between checkpoints")]
KeptReplay = Annotated[
    CheckpointReplay, tyro.conf.arg(help="the replay in checkpoints; an empty one is filled again by who goes on")
]
TensorBoardToo = Annotated[bool, tyro.conf.arg(help="write files for TensorBoard too")]


@dataclass(frozen=True)
class Options:
    """What every training has."""

    out: Annotated[Path, tyro.conf.arg(help="folder for logs, checkpoints and parameters")]
    steps: Annotated[
        int | None,
        tyro.conf.arg(metavar="INT", help="agent steps of each run", help_behavior_hint="(needed, or --frames)"),
    ] = None
    frames: Annotated[
        int | None,
        tyro.conf.arg(metavar="INT", help="instead of --steps, on Atari", help_behavior_hint="(usually 4 a step)"),
    ] = None
    env: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"family/member of {', '.join(ENVS)}")] = _DEFAULT_ENV
    agent: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(AGENTS)}")] = "dqn"
    metric: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(METRICS)}")] = "none"
    preset: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(PRESETS)}", help_behavior_hint="(default: by --env)"),
    ] = None
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(help="a run for each")] = (0,)
    resume: Annotated[bool, tyro.conf.arg(help="go on with the runs in OUT, if there are any")] = False
    checkpoint_seconds: CheckpointSeconds = 300.0
    checkpoint_replay: KeptReplay = "whole"
    tensorboard: TensorBoardToo = False


class Asked(NamedTuple):
    """The options, how many steps they mean, and the runs."""

    options: Options
    steps: int
    runs: list[Run]


def parse(argv: list[str]) -> Asked:
    """What was asked for; a run for each seed and each combination of numbers that were given in lists."""
    chosen = _chosen(argv)
    options = chosen.options()
    groups = [(name, Annotated[_group(own), tyro.conf.arg(name=name)]) for name, own in options.items()]
    every = make_dataclass("Every", [("options", Annotated[Options, tyro.conf.arg(name="")]), *groups])
    about = f"{summary(AGENTS[chosen.agent])} A number given as a list makes a fleet of runs."
    pairs_off = (tyro.conf.FlagCreatePairsOff,)
    given = tyro.cli(every, prog="mico train", description=about, args=argv, config=pairs_off)
    makers = chosen.makers()
    fields = {name: _each(name, options[name], getattr(given, name)) for name in makers}
    parts = {name: [make(**one) for one in fields[name]] for name, make in makers.items()}
    runs = _runs(parts, given.options.seeds)
    return Asked(given.options, _steps(given.options, runs[0]), runs)


def _steps(options: Options, run: Run) -> int:
    env = run.env
    if options.frames is None:
        if options.steps is None:
            raise ValueError("steps is missing: --steps, or --frames on Atari")
        return options.steps
    if options.steps is not None:
        raise ValueError(f"steps is {options.steps} and frames is {options.frames}: give one of them")
    if not isinstance(env, Atari):
        raise ValueError(f"frames is {options.frames}, but only Atari has frames, and not {env.name}: give --steps")
    update = env.frame_skip * run.schedule.update_period
    if options.frames < 1 or options.frames % update:
        words = f"env.frame_skip {env.frame_skip} × schedule.update_period {run.schedule.update_period}"
        raise ValueError(f"frames must be a positive multiple of {update}, {words}, but is {options.frames}")
    return options.frames // env.frame_skip


def _chosen(argv: list[str]) -> Choice:
    """What decides which other flags there are, read ahead of them."""
    ahead = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, default in (("env", _DEFAULT_ENV), ("agent", "dqn"), ("metric", "none"), ("preset", None)):
        ahead.add_argument(f"--{name}", default=default)
    try:
        given, _ = ahead.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ValueError(str(error).removeprefix("argument ")) from None
    lost = next((flag for flag in argv if flag.startswith("--metric.")), None)
    if given.metric == "none" and lost is not None:
        raise ValueError(f"{lost} is a field of a metric loss: it needs --metric, one of {', '.join(METRIC_LOSSES)}")
    chosen = Choice(given.env, given.agent, given.metric, given.preset)
    chosen.check()
    return chosen


def _group(flags: Sequence[Option]) -> type:
    """The flags as a dataclass that tyro can fill. All numbers may be lists, if only for a better word on it."""
    lists = {int: tuple[int, ...], float: tuple[float, ...], float | None: tuple[float, ...] | None}
    fields = []
    for flag in flags:
        kind, default = lists.get(flag.kind, flag.kind), flag.default
        metavar = None if flag.varies or flag.kind not in lists else flag.kind.__name__.upper()
        if flag.kind in lists and default not in (None, inspect.Parameter.empty):
            default = (default,)
        shown = Annotated[kind, tyro.conf.arg(help=flag.purpose, metavar=metavar)]
        required = default is inspect.Parameter.empty
        fields.append((flag.name, shown, dataclasses.field() if required else dataclasses.field(default=default)))
    return make_dataclass("Group", fields, kw_only=True)


def _each(part: str, flags: Sequence[Option], given: Any) -> list[dict[str, Any]]:
    """The fields of a part of the settings, for every combination of those that were given as lists."""
    lists = {}
    for flag in flags:
        value = getattr(given, flag.name)
        lists[flag.name] = value if isinstance(value, tuple) else (value,)
        if not lists[flag.name]:
            raise ValueError(f"{part}.{flag.name} needs a value")
        if len(lists[flag.name]) > 1 and not flag.varies:
            raise ValueError(f"{part}.{flag.name} is the same for all runs of a fleet, but is {[*value]}")
    return [dict(zip(lists, combination)) for combination in product(*lists.values())]


def _runs(parts: dict[str, list[Any]], seeds: Sequence[int]) -> list[Run]:
    """Every seed with every combination of parts."""
    if not seeds:
        raise ValueError("seeds needs a number")
    combinations = [dict(zip(parts, combination)) for combination in product(*parts.values())]
    without: dict[str, Any] = {"metric": None}
    return [Run(**without | made, seed=seed) for made in combinations for seed in seeds]
