"""The flags of `mico train`: those that every training has, and a group for each part of this one's settings."""

import argparse
import dataclasses
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_type_hints

import equinox as eqx
import tyro

from mico.commands.text import summary
from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS, environment
from mico.deep.envs.names import near
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.presets import FAMILY_PRESETS, PRESETS
from mico.deep.settings import Run
from mico.deep.train import CheckpointReplay
from mico.tabular import MDPS

_DEFAULT_ENV = "minatar/breakout"
_METRICS = ("none", *METRIC_LOSSES)
_PARTS = ("agent", "metric", "env", "network", "replay", "schedule")
_AGENTS_OWN = ("discount", "policy")  # of a problem, for which an agent brings its own


@dataclass(frozen=True)
class Options:
    """What every training has."""

    steps: Annotated[int, tyro.conf.arg(help="agent steps of each run")]
    out: Annotated[Path, tyro.conf.arg(help="folder for logs, checkpoints and parameters")]
    env: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"family/member of {', '.join(ENVS)}")] = _DEFAULT_ENV
    agent: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(AGENTS)}")] = "dqn"
    metric: Annotated[str, tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(_METRICS)}")] = "none"
    preset: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME", help=f"one of {', '.join(PRESETS)}", help_behavior_hint="(default: by --env)"),
    ] = None
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(help="a run for each")] = (0,)
    resume: Annotated[bool, tyro.conf.arg(help="go on with the runs in OUT, if there are any")] = False
    checkpoint_seconds: Annotated[float, tyro.conf.arg(help="at least so many between checkpoints")] = 300.0
    checkpoint_replay: Annotated[
        CheckpointReplay, tyro.conf.arg(help="the replay in checkpoints; an empty one is filled again after --resume")
    ] = "whole"
    tensorboard: Annotated[bool, tyro.conf.arg(help="write files for TensorBoard too")] = False


class Flag(NamedTuple):
    """A field of some settings; where runs of a fleet may differ in it, it takes several values."""

    name: str
    kind: Any
    default: Any
    purpose: str
    varies: bool


def parse(argv: list[str]) -> tuple[Options, list[Run]]:
    """The options, and a run for each seed and each combination of numbers that were given in lists."""
    chosen = _chosen(argv)
    preset = PRESETS[chosen.preset or FAMILY_PRESETS[chosen.env.partition("/")[0]]][chosen.agent]
    settings: dict[str, Any] = {name: getattr(preset, name) for name in ("agent", "network", "replay", "schedule")}
    if chosen.metric != "none":
        settings["metric"] = preset.metric_loss(chosen.metric)
    flags = {name: _flags(part) for name, part in settings.items()} | {"env": _env_flags(chosen.env)}
    groups = [(name, Annotated[_group(flags[name]), tyro.conf.arg(name=name)]) for name in _PARTS if name in flags]
    every = make_dataclass("Every", [("options", Annotated[Options, tyro.conf.arg(name="")]), *groups])
    about = f"{summary(AGENTS[chosen.agent])} A number given as a list makes a fleet of runs."
    pairs_off = (tyro.conf.FlagCreatePairsOff,)
    given = tyro.cli(every, prog="mico train", description=about, args=argv, config=pairs_off)
    makers: dict[str, Any] = {name: type(part) for name, part in settings.items()}
    makers["env"] = lambda **fields: environment(chosen.env, **fields)
    fields = {name: _each(name, flags[name], getattr(given, name)) for name in makers}
    parts = {name: [make(**one) for one in fields[name]] for name, make in makers.items()}
    return given.options, _runs(parts, given.options.seeds)


def _chosen(argv: list[str]) -> argparse.Namespace:
    """What decides which other flags there are, read ahead of them."""
    ahead = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, default in (("env", _DEFAULT_ENV), ("agent", "dqn"), ("metric", "none"), ("preset", None)):
        ahead.add_argument(f"--{name}", default=default)
    try:
        chosen, _ = ahead.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ValueError(str(error).removeprefix("argument ")) from None
    lost = next((flag for flag in argv if flag.startswith("--metric.")), None)
    if chosen.metric == "none" and lost is not None:
        raise ValueError(f"{lost} is a field of a metric loss: it needs --metric, one of {', '.join(METRIC_LOSSES)}")
    for name, known in (("agent", AGENTS), ("metric", _METRICS), ("preset", PRESETS)):
        value = getattr(chosen, name)
        if value is not None and value not in known:
            raise ValueError(f"{name} {value!r} is unknown: did you mean {near(value, known)}?")
    family, _, member = chosen.env.partition("/")
    if family not in ENVS:
        raise ValueError(f"env {chosen.env!r} has no such family: did you mean {near(family, ENVS)}?")
    if family == "mdp" and member not in MDPS:
        raise ValueError(f"env {chosen.env!r} is no problem: did you mean {near(member, MDPS)}?")
    return chosen


def _flags(settings: eqx.Module) -> list[Flag]:
    hints = get_type_hints(type(settings))
    return [
        Flag(field.name, hints[field.name], getattr(settings, field.name), field.metadata["help"], _is_leaf(field))
        for field in dataclasses.fields(settings)
    ]


def _env_flags(name: str) -> list[Flag]:
    """The environment's own parameters, and those of an MDP's problem."""
    family, _, member = name.partition("/")
    fields = {field.name: field for field in dataclasses.fields(cast(Any, ENVS[family]))}
    found = []
    for parameter in list(inspect.signature(ENVS[family]).parameters.values())[1:]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            field = fields[parameter.name]
            about = field.metadata["help"], _is_leaf(field)
            found.append(Flag(parameter.name, parameter.annotation, parameter.default, *about))
    if family == "mdp":
        for parameter in inspect.signature(MDPS[member]).parameters.values():
            if parameter.name not in _AGENTS_OWN:
                purpose = "of the problem's own random draws" if parameter.name == "seed" else "of the problem"
                found.append(Flag(parameter.name, parameter.annotation, parameter.default, purpose, varies=False))
    return found


def _is_leaf(field: dataclasses.Field) -> bool:
    return not field.metadata.get("static", False)


def _group(flags: Sequence[Flag]) -> type:
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


def _each(part: str, flags: Sequence[Flag], given: Any) -> list[dict[str, Any]]:
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
