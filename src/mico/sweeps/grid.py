"""A sweep as a value: a grid over environments, agents, metric losses, fields and seeds, and the cells in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from mico.deep.envs.names import near
from mico.deep.fields import flat
from mico.sweeps.absent import Shape, shape_of

_LISTS = ("env", "agent", "metric", "seeds")

# Dotted names of fields, such as metric.alpha, with a value each.
Values = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sweep:
    """Every environment with every agent, metric loss, seed and combination of fields, and each of those per variant.

    A variant sets some fields, none in the plainest. What does not apply to a run, such as the fields of a metric loss
    to a baseline, does not multiply it.
    """

    steps: int
    env: Sequence[str]
    agent: Sequence[str] = ("dqn",)
    metric: Sequence[str] = ("none",)
    seeds: Sequence[int] = (0,)
    preset: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    variants: Sequence[Mapping[str, Any]] = ({},)

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, but is {self.steps!r}")
        if not isinstance(self.preset, str | None):
            raise ValueError(f"preset must be a name, but is {self.preset!r}")
        for name in _LISTS:
            kind = int if name == "seeds" else str
            object.__setattr__(self, name, _listed(name, getattr(self, name), kind))
        far = [seed for seed in self.seeds if not 0 <= seed < 2**31]
        if far:
            raise ValueError(f"seeds must lie in [0, 2³¹), but has {far[0]}")
        given = {name: _listed(name, values) for name, values in named_values("fields", self.fields).items()}
        object.__setattr__(self, "fields", given)
        variants = _listed("variants", self.variants)
        object.__setattr__(self, "variants", tuple(named_values("variants", variant) for variant in variants))
        both = [name for variant in self.variants for name in variant if name in self.fields]
        if both:
            raise ValueError(f"{both[0]} is one of the fields, and a variant sets it too")

    def as_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries, of which `Sweep(**…)` makes the same again."""
        found = asdict(self)
        fields = {name: list(values) for name, values in self.fields.items()}
        return found | {name: list(found[name]) for name in (*_LISTS, "variants")} | {"fields": fields}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; `fields` are those of the sweep that apply to it."""

    env: str
    agent: str
    metric: str
    preset: str | None
    fields: Values
    seed: int

    @property
    def shape(self) -> Shape:
        """What its run is like."""
        return shape_of(self.env, self.agent, self.metric, self.preset)


def cells(sweep: Sweep) -> list[Cell]:
    """All runs of a sweep, each once; names and fields that are none of theirs are refused."""
    found: dict[Cell, None] = {}
    known: dict[str, None] = {}
    for env, agent, metric in product(sweep.env, sweep.agent, sweep.metric):
        shape = shape_of(env, agent, metric, sweep.preset)
        known |= dict.fromkeys(shape.options)
        for fields, seed in product(_combinations(sweep, shape), sweep.seeds):
            found[Cell(env, agent, metric, sweep.preset, fields, seed)] = None
    for name in [*sweep.fields, *(name for variant in sweep.variants for name in variant)]:
        if name not in known:
            raise ValueError(f"{name} is no field of any run of this sweep: did you mean {near(name, known)}?")
    return [*found]


def arms(sweep: Sweep) -> list[str]:
    """The fields that have several values in a sweep, and so tell its arms apart."""
    several = [name for name, values in sweep.fields.items() if len(values) > 1]
    names = dict.fromkeys(name for variant in sweep.variants for name in variant)
    alike = [name for name in names if len({repr(variant.get(name)) for variant in sweep.variants}) == 1]
    return several + [name for name in names if name not in alike]


def named_values(entry: str, given: Any) -> dict[str, Any]:
    """What an entry gives to fields, by their dotted names; log-period, as in flags, is log_period."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{entry} must give values to names of fields, but is {given!r}")
    found = {}
    for spelt, value in flat(given).items():
        name = spelt.replace("-", "_")
        if name in found:
            raise ValueError(f"{entry} gives {name} twice, with - and with _")
        found[name] = value
    return found


def _combinations(sweep: Sweep, shape: Shape) -> list[Values]:
    """The values of those fields that apply, for each variant and each combination of the grid, each once.

    Their order is that of the settings, however they were given.
    """
    lists = {name: _fitted(shape, name, values) for name, values in sweep.fields.items() if name in shape.options}
    found: dict[Values, None] = {}
    for variant, values in product(sweep.variants, product(*lists.values())):
        own = {name: shape.options[name].fitted(value) for name, value in variant.items() if name in shape.options}
        given = dict(zip(lists, values)) | own
        found[tuple((name, given[name]) for name in shape.options if name in given)] = None
    return [*found]


def _fitted(shape: Shape, name: str, values: Iterable[Any]) -> list[Any]:
    fitted = [shape.options[name].fitted(value) for value in values]
    _check_once(name, fitted)
    return fitted


def _listed(name: str, given: Any, kind: type | None = None) -> tuple[Any, ...]:
    """One value or several as a tuple, none of them twice."""
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not values:
        raise ValueError(f"{name} needs a value, but is empty")
    wrong = [value for value in values if kind and (isinstance(value, bool) or not isinstance(value, kind))]
    if wrong:
        raise ValueError(f"{name} must hold {'names' if kind is str else 'whole numbers'}, but has {wrong[0]!r}")
    _check_once(name, values)
    return values


def _check_once(name: str, values: Sequence[Any]) -> None:
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise ValueError(f"{name} has {twice!r} twice")
