"""What can be chosen of a run: its parts by name, and their fields with the values that a preset gives them."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import equinox as eqx

from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv, environment
from mico.deep.envs.names import near
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.presets import FAMILY_PRESETS, PRESETS
from mico.deep.settings import Run
from mico.tabular import PROBLEMS

METRICS = ("none", *METRIC_LOSSES)
PARTS = ("agent", "metric", "env", "network", "replay", "schedule")
_AGENTS_OWN = ("discount", "policy")  # of a problem, for which an agent brings its own


class Option(NamedTuple):
    """A field of some settings; runs of a fleet may differ in it if it `varies`."""

    name: str
    kind: Any
    default: Any
    purpose: str
    varies: bool

    def fitted(self, value: Any) -> Any:
        """The value as the field holds it, a whole number as a float where it must be; a ValueError if it cannot be."""
        if not _fits(self.kind, value):
            raise ValueError(f"{self.name} cannot be {value!r}: it is {_wanted(self.kind)}")
        kinds = {self.kind, *get_args(self.kind)}
        if isinstance(value, Path):
            return str(value)  # as JSON holds it
        return float(value) if isinstance(value, int) and float in kinds and int not in kinds else value


class Choice(NamedTuple):
    """The parts of a run that have a name; without a preset's the environment's family decides."""

    env: str
    agent: str
    metric: str
    preset: str | None

    def check(self) -> None:
        """Refuse names that are unknown."""
        for name, known in (("agent", AGENTS), ("metric", METRICS), ("preset", PRESETS)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name} {value!r} is unknown: did you mean {near(value, known)}?")
        family, _, member = self.env.partition("/")
        if family not in ENVS:
            raise ValueError(f"env {self.env!r} has no such family: did you mean {near(family, ENVS)}?")
        if family == "mdp" and member not in PROBLEMS:
            raise ValueError(f"env {self.env!r} is no problem: did you mean {near(member, PROBLEMS)}?")
        if self.agent not in PRESETS[self._preset]:
            self._check_actions()
            fitting = ", ".join(PRESETS[self._preset])
            raise ValueError(f"agent {self.agent!r} has no settings in preset {self._preset}, which is for {fitting}")

    def _check_actions(self) -> None:
        """Refuse an agent for actions of another kind than a family's are, which are those of its preset's agents."""
        wanted, (own, *more) = AGENTS[self.agent].actions, {AGENTS[name].actions for name in PRESETS[self._preset]}
        if self.preset is None and not more and own != wanted:
            family, fitting = self.env.partition("/")[0], ", ".join(PRESETS[self._preset])
            raise ValueError(
                f"agent {self.agent!r} needs {wanted} actions, but those of {family} are {own}: try {fitting}"
            )

    @property
    def _preset(self) -> str:
        return self.preset or FAMILY_PRESETS[self.env.partition("/")[0]]

    def settings(self) -> dict[str, eqx.Module]:
        """What the preset says of each part but the environment, and of a metric loss only if there is one."""
        preset = PRESETS[self._preset][self.agent]
        parts: dict[str, eqx.Module] = {
            name: getattr(preset, name) for name in ("agent", "network", "replay", "schedule")
        }
        return parts if self.metric == "none" else parts | {"metric": preset.metric_loss(self.metric)}

    def options(self) -> dict[str, list[Option]]:
        """The fields of each part."""
        return _options_of(self)

    def makers(self) -> dict[str, Callable[..., Any]]:
        """What makes each part of its fields."""
        makers: dict[str, Any] = {name: type(part) for name, part in self.settings().items()}
        return makers | {"env": partial(_environment, self.env)}

    def run(self, fields: Mapping[str, Any], seed: int, *, env: AbstractHostEnv | None = None) -> Run:
        """The preset's run with other values for the fields that are given by dotted names; `env` in place of its own.

        That is for environments whose packages are not here.
        """
        options, made = self.options(), dict[str, Any](metric=None, env=env)
        for part, make in self.makers().items():
            if part == "env" and env is not None:
                continue
            own = {option.name: fields.get(f"{part}.{option.name}", option.default) for option in options[part]}
            own = {name: value for name, value in own.items() if value is not inspect.Parameter.empty}
            made[part] = make(**own)
        return Run(**made, seed=seed)


@cache
def _options_of(choice: Choice) -> dict[str, list[Option]]:
    """Type hints are slow to look up, and a sweep has thousands of runs."""
    found = {name: _options(part) for name, part in choice.settings().items()} | {"env": _env_options(choice.env)}
    return {name: found[name] for name in PARTS if name in found}


def _environment(name: str, **fields: Any) -> AbstractEnv | AbstractHostEnv:
    return _kept_environment(name, tuple(fields.items()))


@cache
def _kept_environment(name: str, fields: Iterable[tuple[str, Any]]) -> AbstractEnv | AbstractHostEnv:
    """An environment is a value, and one that Gymnasium has is slow to look at."""
    return environment(name, **dict(fields))


def _options(settings: eqx.Module) -> list[Option]:
    hints = get_type_hints(type(settings))
    return [
        Option(field.name, hints[field.name], getattr(settings, field.name), field.metadata["help"], _is_leaf(field))
        for field in dataclasses.fields(settings)
    ]


def _env_options(name: str) -> list[Option]:
    """The environment's own parameters, and those of an MDP's problem."""
    family, _, member = name.partition("/")
    fields = {field.name: field for field in dataclasses.fields(cast(Any, ENVS[family]))}
    found = []
    for parameter in list(inspect.signature(ENVS[family]).parameters.values())[1:]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            field = fields[parameter.name]
            about = field.metadata["help"], _is_leaf(field)
            found.append(Option(parameter.name, parameter.annotation, parameter.default, *about))
    if family == "mdp":
        for parameter in inspect.signature(PROBLEMS[member]).parameters.values():
            if parameter.name not in _AGENTS_OWN:
                purpose = "of the problem's own random draws" if parameter.name == "seed" else "of the problem"
                found.append(Option(parameter.name, parameter.annotation, parameter.default, purpose, varies=False))
    return found


def _is_leaf(field: dataclasses.Field) -> bool:
    return not field.metadata.get("static", False)


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(one, value) for one in get_args(kind))
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, (str, Path) if kind is Path else kind)


def _wanted(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "nothing", Path: "a path"}
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return words.get(kind) or " or ".join(map(_wanted, get_args(kind))) or str(kind)
