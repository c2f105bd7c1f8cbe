"""What can be chosen of a run: its parts by name, and their fields with the values that a preset gives them."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import equinox as eqx

from mico._checks import count
from mico._suggestions import near
from mico.deep.agents import AGENTS
from mico.deep.config.periods import ROWS, log_period, whole, whole_periods
from mico.deep.config.presets import PRESETS, SHORT_LOG_PERIODS, Preset, find_preset, fitting_agents
from mico.deep.config.run import Run, Schedule
from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv, environment, split_name
from mico.deep.extensions import field_help, takes_member
from mico.deep.metric_losses import METRIC_LOSSES
from mico.tabular import PROBLEMS
from mico.tabular.problems import option_help

PARTS = ("agent", "metric", "env", "network", "replay", "schedule")
_AGENTS_OWN = ("discount", "policy")  # of a problem, for which an agent brings its own


class Option(NamedTuple):
    """A field of some settings; runs of a fleet may differ in it if it `varies`.

    Where its default follows from other settings, it is None and `usual` says in words what it is.
    """

    name: str
    kind: Any
    default: Any
    purpose: str
    varies: bool
    usual: str | None = None

    def fitted(self, value: Any) -> Any:
        """Convert a value to what the field holds: counts such as "10k" to whole numbers, those to floats if it must.

        Raises:
            ValueError: If the field cannot hold the value.
        """
        kinds = {self.kind, *get_args(self.kind)}
        if int in kinds and float not in kinds and isinstance(value, str | float) and not _fits(self.kind, value):
            with suppress(ValueError):  # the next check says what the field can hold
                value = count(value)
        if not _fits(self.kind, value):
            raise ValueError(f"{self.name} cannot be {value!r}: it is {_wanted(self.kind)}")
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
        for name, known in (("agent", AGENTS), ("metric", metric_names()), ("preset", PRESETS)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name} {value!r} is unknown: did you mean {near(value, known)}?")
        split_name(self.env)
        if find_preset(self._preset, self.agent) is None:
            self._check_actions()
            fitting = ", ".join(fitting_agents(self._preset))
            raise ValueError(f"agent {self.agent!r} has no settings in preset {self._preset}, which is for {fitting}")

    def _check_actions(self) -> None:
        """Refuse an agent for actions of another kind than a family's are, which are those of its preset's agents."""
        fit = fitting_agents(self._preset)
        wanted, (own, *more) = AGENTS[self.agent].actions, {AGENTS[name].actions for name in fit}
        if self.preset is None and not more and own != wanted:
            with suppress(ModuleNotFoundError):
                environment(self.env)  # a misspelt name is refused first
            family, fitting = self.env.partition("/")[0], ", ".join(fit)
            raise ValueError(
                f"agent {self.agent!r} needs {wanted} actions, but those of {family} are {own}: try {fitting}"
            )

    @property
    def _preset(self) -> str:
        return self.preset or ENVS[split_name(self.env).family].preset

    @property
    def _found(self) -> Preset:
        found = find_preset(self._preset, self.agent)
        if found is None:
            raise ValueError(f"agent {self.agent!r} has no settings in preset {self._preset}")
        return found

    def settings(self) -> dict[str, eqx.Module]:
        """What the preset says of each part but the environment, and of a metric loss only if there is one."""
        preset = self._found
        parts: dict[str, eqx.Module] = {"agent": preset.agent_beside(self.metric)}
        parts |= {name: getattr(preset, name) for name in ("network", "replay", "schedule")}
        return parts if self.metric == "none" else parts | {"metric": preset.metric_loss(self.metric)}

    def options(self) -> dict[str, list[Option]]:
        """The fields of each part."""
        kinds = AGENTS[self.agent], METRIC_LOSSES.get(self.metric), ENVS[split_name(self.env).family]
        return _options_of(self, *kinds)

    def makers(self, steps: int | None = None) -> dict[str, Callable[..., Any]]:
        """What makes each part of its fields, for a training of so many steps."""
        makers: dict[str, Any] = {name: type(part) for name, part in self.settings().items()}
        return makers | {"env": partial(_environment, self.env), "schedule": partial(self.schedule, steps)}

    def schedule(self, steps: int | None, **fields: Any) -> Schedule:
        """A schedule of these fields, its periods rounded up to whole updates.

        A log period that is None is the preset's, or in the presets `table` and `vector` one that gives a training of
        so many steps 40 rows, if that is less.
        """
        if fields.get("log_period") is not None:
            return Schedule(**whole_periods(fields))
        usual = whole(self._found.schedule.log_period, fields["update_period"])
        made = Schedule(**whole_periods({**fields, "log_period": usual}))
        if steps is None or self._preset not in SHORT_LOG_PERIODS:
            return made
        return dataclasses.replace(made, log_period=log_period(made, steps))

    def run(
        self, fields: Mapping[str, Any], seed: int, *, steps: int | None = None, env: AbstractHostEnv | None = None
    ) -> Run:
        """Build the preset's run with other values for some fields.

        Args:
            fields: Values by dotted names, such as `{"metric.alpha": 0.1, "replay.capacity": "100k"}`.
            seed: The random seed.
            steps: How long it will be trained: the presets `table` and `vector` choose a log period by it.
            env: An environment in place of its own, for one whose packages are not here.

        Returns:
            The run. Periods of its schedule that are no multiples of the update period are rounded up, with a warning.

        Raises:
            ValueError: If a field is unknown, or cannot hold its value.

        Examples:
            >>> run = Choice("mdp/four-rooms", "dqn", "mico", None).run({"metric.alpha": 0.1}, seed=0, steps=20_000)
            >>> run.schedule.log_period
            500
        """
        options, made = self.options(), dict[str, Any](metric=None, env=env)
        known = {f"{part}.{option.name}": option for part, own in options.items() for option in own}
        for name in fields:
            if name not in known:
                raise ValueError(f"{name} is no field of this run: did you mean {near(name, known)}?")
        for part, make in self.makers(steps).items():
            if part != "env" or env is None:
                made[part] = make(**_own(part, options[part], fields))
        return Run(**made, seed=seed)

    def planned_schedule(self, fields: Mapping[str, Any], steps: int | None) -> Schedule:
        """The schedule of the run with these fields, without making the rest of it."""
        return self.schedule(steps, **_own("schedule", self.options()["schedule"], fields))


def metric_names() -> tuple[str, ...]:
    """What may be chosen as the metric loss."""
    return ("none", *METRIC_LOSSES)


def kept_log_period(out: Path) -> int | None:
    """The log period of the fleet in a folder, which a resumed training keeps; None where there is none to read."""
    try:
        return int(json.loads((out / "fleet.json").read_bytes())["settings"][0]["schedule"]["log_period"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):  # what is damaged is refused where it is read whole
        return None


def _own(part: str, options: Iterable[Option], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a part: as given by dotted names, or their defaults if they have any."""
    own = {}
    for option in options:
        name = f"{part}.{option.name}"
        own[option.name] = option._replace(name=name).fitted(fields[name]) if name in fields else option.default
    return {name: value for name, value in own.items() if value is not inspect.Parameter.empty}


@cache
def _options_of(choice: Choice, *kinds: Any) -> dict[str, list[Option]]:
    """The fields of each part; looked up once for the classes that the names stand for, which takes long."""
    found = {name: _options(part) for name, part in choice.settings().items()} | {"env": _env_options(choice.env)}
    if choice._preset in SHORT_LOG_PERIODS:
        found["schedule"] = [_short_log_period(option) for option in found["schedule"]]
    return {name: found[name] for name in PARTS if name in found}


def _short_log_period(option: Option) -> Option:
    """The log period as it is chosen by the number of steps; other options as they are."""
    if option.name != "log_period":
        return option
    usual = f"a {ROWS}th of the steps, at most {option.default}"
    return option._replace(kind=int | None, default=None, usual=usual)


def _environment(name: str, **fields: Any) -> AbstractEnv | AbstractHostEnv:
    if split_name(name).file is not None or "path" in fields:
        return environment(name, **fields)  # what is in a file may change
    return _kept_environment(name, tuple(fields.items()))


@cache
def _kept_environment(name: str, fields: Iterable[tuple[str, Any]]) -> AbstractEnv | AbstractHostEnv:
    """An environment is a value, and one that Gymnasium has is slow to look at."""
    return environment(name, **dict(fields))


def _options(settings: eqx.Module) -> list[Option]:
    hints, purposes = get_type_hints(type(settings)), field_help(type(settings))
    return [
        Option(field.name, hints[field.name], getattr(settings, field.name), purposes[field.name], _is_leaf(field))
        for field in dataclasses.fields(settings)
    ]


def _env_options(name: str) -> list[Option]:
    """The environment's own parameters, and those of an MDP's problem."""
    family, member, file = split_name(name)
    kind = cast(Any, ENVS[family])
    fields, purposes, found = {field.name: field for field in dataclasses.fields(kind)}, field_help(kind), []
    for parameter in list(inspect.signature(kind).parameters.values())[takes_member(kind) :]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            about = purposes[parameter.name], _is_leaf(fields[parameter.name])
            found.append(Option(parameter.name, parameter.annotation, parameter.default, *about))
    if family == "mdp" and member is not None and file is None:
        purposes = option_help(member)
        for parameter in inspect.signature(PROBLEMS[member]).parameters.values():
            if parameter.name not in _AGENTS_OWN:
                about = purposes[parameter.name], False
                found.append(_in_words(Option(parameter.name, parameter.annotation, parameter.default, *about)))
    return found


def _in_words(option: Option) -> Option:
    """The option with what its description says of the default, in place of None."""
    purpose, marker, usual = option.purpose.partition(" Default: ")
    return option._replace(purpose=purpose, usual=usual.rstrip(".")) if marker and option.default is None else option


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
