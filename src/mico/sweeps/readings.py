"""What a sweep reads otherwise than the released code does, or than this project by default."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from mico.deep.config.presets import RELEASED
from mico.deep.config.run import describe
from mico.deep.envs import ENVS, split_name
from mico.deep.fields import flatten
from mico.sweeps.grid import Cell, Sweep, cells


class Difference(NamedTuple):
    """A field in which runs of a sweep differ from those by another preset, its two values, and the arms with them."""

    field: str
    value: Any
    other: Any
    arms: tuple[str, ...]


def other_readings(sweep: Sweep) -> dict[str, list[Difference]]:
    """Compare the runs of a sweep with those by the preset of the other readings.

    Args:
        sweep: The sweep. Of its environments the first of each family is looked at, and the first of its seeds.

    Returns:
        The fields that differ by the name of that preset: `atari-released` for runs by the preset `atari`, and the
        other way round, and so for `control`. Nothing for other presets. Fields that the sweep sets itself are equal.

    Examples:
        >>> from mico.sweeps.named import SWEEPS
        >>> found = other_readings(SWEEPS["atari-60"].sweep)
        >>> [(one.field, one.value, one.other) for one in found["atari"] if one.arms == ("rainbow",)]
        [('agent.priorities', 'td', 'combined')]
    """
    others = RELEASED | {released: ours for ours, released in RELEASED.items()}
    found: dict[str, list[Difference]] = {}
    for family, own in _by_family(cells(sweep)).items():
        other = others.get(sweep.preset or ENVS[family].preset)
        if other is not None:
            found.setdefault(other, []).extend(_compare(own, other))
    return found


def _by_family(every: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells with the first environment of each family, one for each arm."""
    first: dict[str, str] = {}
    found: dict[str, dict[Any, Cell]] = {}
    for cell in every:
        family = split_name(cell.env).family
        if first.setdefault(family, cell.env) == cell.env:
            found.setdefault(family, {}).setdefault((cell.agent, cell.metric, cell.fields), cell)
    return {family: [*own.values()] for family, own in found.items()}


def _compare(own: Iterable[Cell], preset: str) -> list[Difference]:
    arms: dict[tuple[str, Any, Any], dict[str, None]] = {}
    for cell in own:
        fields = dict(cell.fields)
        ours, theirs = (
            flatten(describe(one.shape.run(fields, cell.seed))) for one in (cell, replace(cell, preset=preset))
        )
        arm = cell.agent if cell.metric == "none" else f"{cell.agent} + {cell.metric}"
        for field, value in ours.items():
            if value != theirs[field]:
                arms.setdefault((field, value, theirs[field]), {})[arm] = None
    return [Difference(*key, tuple(names)) for key, names in arms.items()]
