"""Fields of settings: what they are for, and checks at construction that name the field and its value."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import equinox as eqx


def static_field(default: Any, purpose: str) -> Any:
    """A whole number, a choice or a name: the same for every run of a fleet. `purpose` is its sentence in the help."""
    return eqx.field(static=True, default=default, metadata={"help": purpose})


def traced_field(default: float | None, purpose: str) -> Any:
    """A number that may differ between the runs of a fleet. `purpose` is its sentence in the help."""
    return eqx.field(default=default, metadata={"help": purpose})


def check_choices(settings: Any) -> None:
    """Fields of type Literal hold one of their values."""
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        choices = get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal else ()
        value = getattr(settings, field.name)
        if choices and value not in choices:
            raise ValueError(f"{field.name} must be one of {', '.join(map(str, choices))}, but is {value!r}")


def check_minimum(settings: Any, **least: int) -> None:
    """Whole numbers that are at least so large."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < bound:
            raise ValueError(f"{name} must be a whole number of at least {bound}, but is {value!r}")


def check_range(settings: Any, **ranges: tuple[float, float]) -> None:
    """Finite numbers within closed bounds; what is being traced or stacked has been checked before."""
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if isinstance(value, (bool, str)) or value is None:
            raise ValueError(f"{name} must be a number, but is {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} must be finite, but is {value!r}")
        if isinstance(value, (int, float)) and not low <= value <= high:
            raise ValueError(f"{name} must lie in [{low:g}, {high:g}], but is {value!r}")


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found
