"""A sweep as a value: a grid over environments, agents, metric losses, fields and seeds, and the cells in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from itertools import product
from typing import Any

from mico._checks import count
from mico._suggestions import near
from mico.deep.config.choices import metric_names
from mico.deep.fields import flatten
from mico.sweeps.absent import Shape, shape_of

_LISTS = ("env", "agent", "metric", "seeds")

# Dotted names of fields, such as metric.alpha, with a value each.
Values = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sweep:
    """Every environment with every agent, metric loss, seed and combination of fields, and each of those per variant.

    What does not apply to a run, such as the fields of a metric loss to a baseline, does not multiply it.

    Args:
        steps: Agent steps of each run.
        env: One environment or several, as family/member.
        agent: One agent or several.
        metric: One metric loss or several; "none" is the baseline.
        seeds: One seed or several.
        preset: Settings by name; None for those of the environment's family.
        fields: One value or several by the dotted names of fields.
        variants: Arms that change a few fields each, instead of every combination of them.
        fields_by_metric: Fields of the runs with one metric loss (or "none") alone, in place of those of `fields`.

    Raises:
        ValueError: If an entry is not as it must be.

    Examples:
        >>> sweep = Sweep(200_000, "mdp/four-rooms", metric=["none", "mico"], fields={"metric.alpha": [0.01, 0.1]})
        >>> len(cells(sweep))
        3
    """

    steps: int
    env: Sequence[str]
    agent: Sequence[str] = ("dqn",)
    metric: Sequence[str] = ("none",)
    seeds: Sequence[int] = (0,)
    preset: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    variants: Sequence[Mapping[str, Any]] = ({},)
    fields_by_metric: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ENTRIES:
            object.__setattr__(self, name, read_entry(name, getattr(self, name)))
        fixed = {*self.fields, *(name for own in self.fields_by_metric.values() for name in own)}
        both = [name for variant in self.variants for name in variant if name in fixed]
        if both:
            raise ValueError(f"{both[0]} is one of the fields, and a variant sets it too")

    def fields_with(self, metric: str) -> dict[str, Any]:
        """The fields of the runs with this metric loss, each with its values."""
        return {**self.fields, **self.fields_by_metric.get(metric, {})}

    def as_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries, of which `Sweep(**…)` makes the same again."""
        found = asdict(self)
        found |= {name: list(found[name]) for name in (*_LISTS, "variants")}
        found["fields"] = {name: list(values) for name, values in self.fields.items()}
        found["fields_by_metric"] = {
            metric: {name: list(values) for name, values in own.items()}
            for metric, own in self.fields_by_metric.items()
        }
        return found


ENTRIES = tuple(entry.name for entry in dataclass_fields(Sweep))


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
        """The shape of the cell's run."""
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
    own = [name for metric in sweep.metric for name in sweep.fields_by_metric.get(metric, {})]
    for name in [*sweep.fields, *own, *(name for variant in sweep.variants for name in variant)]:
        if name not in known:
            raise ValueError(f"{name} is no field of any run of this sweep: did you mean {near(name, known)}?")
    return [*found]


def arms(sweep: Sweep) -> list[str]:
    """The fields that have several values in a sweep, and so tell its arms apart."""
    every = [sweep.fields, *sweep.fields_by_metric.values()]
    several = [*dict.fromkeys(name for fields in every for name, values in fields.items() if len(values) > 1)]
    names = dict.fromkeys(name for variant in sweep.variants for name in variant)
    alike = [name for name in names if len({repr(variant.get(name)) for variant in sweep.variants}) == 1]
    return several + [name for name in names if name not in alike]


def read_entry(name: str, value: Any) -> Any:
    """Read an entry of a sweep, of a file or given in Python, as `Sweep` holds it.

    Args:
        name: One of `ENTRIES`.
        value: One value or several, whichever the entry takes.

    Returns:
        A number for `steps`, a name or None for `preset`, dictionaries for fields and `variants`, and a tuple for the
        others.

    Raises:
        ValueError: If the entry is unknown, or the value is not one of it.
    """
    if name not in ENTRIES:
        raise ValueError(f"{name!r} is no entry of a sweep: did you mean {near(name, ENTRIES)}?")
    if name == "steps":
        return _positive(count(value, name), name)
    if name == "preset":
        if not isinstance(value, str | None):
            raise ValueError(f"preset must be a name, got {value!r}")
        return value
    if name == "fields":
        return _listed_fields(name, value)
    if name == "fields_by_metric":
        return _by_metric(name, value)
    if name == "variants":
        return tuple(named_values(name, variant) for variant in _listed(name, value))
    values = _listed(name, value, int if name == "seeds" else str)
    far = [seed for seed in values if name == "seeds" and not 0 <= seed < 2**31]
    if far:
        raise ValueError(f"seeds must lie in [0, 2³¹), got {far[0]}")
    return values


def make_sweep(entries: Mapping[str, Any]) -> Sweep:
    """Make a sweep of its entries.

    Args:
        entries: Values by the names of `ENTRIES`, of which `steps` and `env` are needed; steps also as "200k" or 1e6.

    Raises:
        ValueError: If an entry is unknown, missing or not as it must be.
    """
    given = {name: read_entry(name, value) for name, value in entries.items()}
    for name, what in (("steps", "agent steps of each run"), ("env", "one environment or several")):
        if name not in given:
            raise ValueError(f"{name} is missing: give --{name}, {what}, or {name} in the file of the sweep")
    return Sweep(**given)


def named_values(entry: str, given: Any) -> dict[str, Any]:
    """Read what an entry gives to fields, by dotted names with underscores: log-period, as in flags, is log_period.

    Args:
        entry: The entry, `fields` or `variants`.
        given: Values by names, nested or dotted.

    Raises:
        ValueError: If it does not give values to names, or gives one twice.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{entry} must give values to names of fields, got {given!r}")
    found = {}
    for written, value in flatten(given).items():
        name = written.replace("-", "_")
        if name in found:
            raise ValueError(f"{entry} gives {name} twice, with - and with _")
        found[name] = value
    return found


def _listed_fields(entry: str, given: Any) -> dict[str, tuple[Any, ...]]:
    return {field: _listed(field, values) for field, values in named_values(entry, given).items()}


def _by_metric(entry: str, given: Any) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Fields with their values by the names of metric losses."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{entry} must give fields to names of metric losses, got {given!r}")
    for metric in given:
        if metric not in metric_names():
            raise ValueError(
                f"{entry} has metric {metric!r}, which is unknown: did you mean {near(str(metric), metric_names())}?"
            )
    return {metric: _listed_fields(f"{entry}.{metric}", own) for metric, own in given.items()}


def _combinations(sweep: Sweep, shape: Shape) -> list[Values]:
    """The values of those fields that apply, for each variant and each combination of the grid, each once.

    Their order is that of the settings, however they were given.
    """
    fields = sweep.fields_with(shape.choice.metric)
    lists = {name: _fitted(shape, name, values) for name, values in fields.items() if name in shape.options}
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


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def _listed(name: str, given: Any, kind: type | None = None) -> tuple[Any, ...]:
    """One value or several as a tuple, none of them twice."""
    values = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not values:
        raise ValueError(f"{name} must have at least one value, got none")
    wrong = [value for value in values if kind and (isinstance(value, bool) or not isinstance(value, kind))]
    if wrong:
        raise ValueError(f"{name} must be {'names' if kind is str else 'whole numbers'}, got {wrong[0]!r}")
    _check_once(name, values)
    return values


def _check_once(name: str, values: Sequence[Any]) -> None:
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise ValueError(f"{'seed' if name == 'seeds' else name} {twice!r} is given twice")
