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

from mico.cli._flags import parse_flags
from mico.cli.counts import OptionalCount, several_numbers
from mico.cli.text import summary
from mico.deep.agents import AGENTS
from mico.deep.config.choices import Choice, Option, kept_log_period, metric_names
from mico.deep.config.periods import round_up
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Run
from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv, Atari
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.training.train import CheckpointReplay

_DEFAULT_ENV = "minatar/breakout"

CheckpointSeconds = Annotated[
    float, tyro.conf.arg(help="Seconds between checkpoints; 0 saves after every chunk of steps.")
]
KeptReplay = Annotated[
    CheckpointReplay,
    tyro.conf.arg(
        help="Whether checkpoints hold the replay. With `empty` they are small, but a resumed run first fills its"
        " replay again, so it does not end as an uninterrupted one."
    ),
]
TensorBoardToo = Annotated[bool, tyro.conf.arg(help="Also write the log for TensorBoard.")]


def _arg(purpose: str, default: str | None = None, metavar: str | None = None) -> Any:
    """How an option is described; `default` says in words what holds without it."""
    return tyro.conf.arg(help=purpose, help_behavior_hint=default and f"({default})", metavar=metavar)


@dataclass(frozen=True)
class Options:
    """Options of every training."""

    out: Annotated[Path, _arg("Folder for logs, checkpoints and parameters; it must be new or empty.", None, "FOLDER")]
    steps: Annotated[
        OptionalCount, _arg("Agent steps of each run, such as 20000, 200k or 1e6.", "required, or --frames")
    ] = None
    frames: Annotated[
        OptionalCount,
        _arg("Atari frames of each run, in place of --steps; an agent step is usually 4 frames.", "Atari only"),
    ] = None
    env: Annotated[
        str,
        _arg(
            f"Environment as family/name, where the families are {', '.join(ENVS)}: `mico list envs` shows names."
            " mdp/FILE.npz or mdp/FILE.json is an MDP of your own.",
            metavar="NAME",
        ),
    ] = _DEFAULT_ENV
    agent: Annotated[str, _arg(f"Agent to train, one of {', '.join(AGENTS)}.", metavar="NAME")] = "dqn"
    metric: Annotated[
        str, _arg(f"Metric loss beside the agent's own loss, one of {', '.join(metric_names())}.", metavar="NAME")
    ] = "none"
    preset: Annotated[
        str | None,
        _arg(
            f"Values of all fields below that are not given, one of {', '.join(PRESETS)}.",
            "default: that of the environment's family",
            "NAME",
        ),
    ] = None
    seeds: Annotated[tuple[int, ...], _arg("Random seeds, one run for each.", metavar="INT ...")] = (0,)
    resume: Annotated[bool, _arg("Continue the training in OUT if there is one; otherwise start it.")] = False
    checkpoint_seconds: CheckpointSeconds = 300.0
    checkpoint_replay: KeptReplay = "whole"
    tensorboard: TensorBoardToo = False


class Asked(NamedTuple):
    """The options, how many steps they mean, and the runs."""

    options: Options
    steps: int
    runs: list[Run]


def parse(argv: list[str]) -> Asked:
    """Parse the command line: a run for each seed and each combination of values that are given as lists."""
    chosen = _chosen(argv)
    options = chosen.options()
    groups = [(name, Annotated[_group(own), tyro.conf.arg(name=name)]) for name, own in options.items()]
    every = make_dataclass("Every", [("options", Annotated[Options, tyro.conf.arg(name="")]), *groups])
    about = (
        "Train an agent, with or without a metric loss: a run for each seed, and for each combination of the fields"
        f" that have several values. `mico train --agent NAME --help` shows the fields of another agent."
        f"\n\n{chosen.agent}: {summary(AGENTS[chosen.agent])}"
    )
    pairs_off = (tyro.conf.FlagCreatePairsOff,)
    given = parse_flags(every, prog="mico train", description=about, args=argv, config=pairs_off)
    fields = {name: _each(name, own, getattr(given, name)) for name, own in options.items()}
    env = chosen.makers()["env"](**fields["env"][0])
    steps = _steps(given.options, env, fields["schedule"][0]["update_period"])
    if given.options.resume:
        _keep_log_period(fields["schedule"], given.options.out)
    parts = {name: [make(**one) for one in fields[name]] for name, make in chosen.makers(steps).items()}
    return Asked(given.options, steps, _runs(parts, given.options.seeds))


def _keep_log_period(schedules: Sequence[dict[str, Any]], out: Path) -> None:
    """Keep the log period of a resumed folder if none is given, also for more steps than before."""
    for schedule in schedules:
        if schedule["log_period"] is None:
            schedule["log_period"] = kept_log_period(out)


def _steps(options: Options, env: AbstractEnv | AbstractHostEnv, update_period: int) -> int:
    """Steps of each run, in whole updates."""
    if options.frames is None:
        if options.steps is None:
            raise ValueError("steps is missing: give --steps, or --frames on Atari")
        return round_up("steps", options.steps, update_period)
    if options.steps is not None:
        raise ValueError(f"steps is {options.steps} and frames is {options.frames}: give one of them")
    if not isinstance(env, Atari):
        raise ValueError(f"frames is {options.frames}, but only Atari has frames, and not {env.name}: give --steps")
    if options.frames < 1:
        raise ValueError(f"frames must be at least 1, but is {options.frames}")
    return round_up("frames", options.frames, env.frame_skip * update_period) // env.frame_skip


def _chosen(argv: list[str]) -> Choice:
    """Read the options on which the other options depend."""
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
    fields = []
    for flag in flags:
        numbers = several_numbers(flag.kind, metavar="{} ..." if flag.varies else None)
        default = flag.default
        if numbers is not None and default is not inspect.Parameter.empty:
            default = (default,)
        about = _arg(flag.purpose, flag.usual and f"default: {flag.usual}", "NAME" if flag.kind is str else None)
        shown = Annotated[numbers or flag.kind, about]
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
    twice = next((seed for index, seed in enumerate(seeds) if seed in seeds[:index]), None)
    if twice is not None:
        raise ValueError(f"seeds must differ, but {twice} is given twice")
    combinations = [dict(zip(parts, combination)) for combination in product(*parts.values())]
    without: dict[str, Any] = {"metric": None}
    return [Run(**without | made, seed=seed) for made in combinations for seed in seeds]
