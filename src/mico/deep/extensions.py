"""What lets a class of another package be an agent, a metric loss or an environment: plain fields, checks and help."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import Field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import equinox as eqx

_PLAIN = (bool, bytes, int, str, NoneType, Path)


class ConfigModule(eqx.Module):
    """An Equinox module whose fields are settings, such as an agent or a metric loss.

    A field declared as plain Python (`int`, `str`, `bool`, `Literal`, or one of these or None) is static: the same for
    every run of a fleet, and a constant for JAX. A `float` is a leaf, which may differ between the runs of a fleet. The
    string below a field is its help.

    Examples:
        >>> class Wide(ConfigModule):
        ...     units: int = 8
        ...     scale: float = 1.0
        >>> import jax
        >>> jax.tree.leaves(Wide())
        [1.0]
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for name, hint in inspect.get_annotations(cls).items():
            given = cls.__dict__.get(name, inspect.Parameter.empty)
            if isinstance(given, Field) or not _is_plain(_evaluated(hint, cls.__module__)):
                continue
            default = {} if given is inspect.Parameter.empty else {"default": given}
            setattr(cls, name, eqx.field(static=True, **default))


def field_help(kind: type) -> dict[str, str]:
    """The help of each field: of its metadata, or the string below the field in the source of the class."""
    written = {name: text for base in reversed(kind.__mro__) for name, text in _strings_below_fields(base).items()}
    fields = getattr(kind, "__dataclass_fields__", {})
    return {name: field.metadata.get("help") or written.get(name, "") for name, field in fields.items()}


def takes_member(kind: Callable[..., Any]) -> bool:
    """Whether an environment has members ("family/member"): its first parameter then has no default."""
    first = next(iter(inspect.signature(kind).parameters.values()), None)
    return first is not None and first.default is first.empty and first.kind is first.POSITIONAL_OR_KEYWORD


def check_class(base: type | tuple[type, ...], *, needs_defaults: bool) -> Callable[[str, Any], Any]:
    """A check for a registry: a value must be a finished subclass of a base class.

    Args:
        base: The base class, or several of which one will do.
        needs_defaults: Whether it must be possible to make one without arguments.

    Returns:
        A function of a name and a value that returns the value, or raises a ValueError that says what to do.
    """
    bases = base if isinstance(base, tuple) else (base,)
    wanted = " or ".join(f"{one.__module__}.{one.__name__}" for one in bases)

    def check(name: str, value: Any) -> Any:
        if not (isinstance(value, type) and issubclass(value, bases)):
            raise ValueError(f"{name!r} must be a subclass of {wanted}, got {value!r}")
        where = class_path(value)
        lacking = sorted(getattr(value, "__abstractmethods__", ()))
        if lacking:
            raise ValueError(f"{name!r} must have all methods, but {where} lacks {_listed(lacking)}")
        lacking = [one for one in _class_values(bases) if not hasattr(value, one)]
        if lacking:
            raise ValueError(f"{name!r} must have all class attributes, but {where} lacks {_listed(lacking)}")
        if needs_defaults:
            try:
                value()
            except Exception as error:
                raise ValueError(f"{name!r} needs a default for each field, but {where}() fails: {error}") from error
        return value

    return check


def class_path(kind: type | Callable[..., Any]) -> str:
    """Name where a class or a function is defined, as "module:Class"."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_values(bases: Iterable[type]) -> list[str]:
    """The class attributes that a base class asks for."""
    every = [one for base in bases for one in base.__mro__]
    hints = {name: hint for one in every for name, hint in inspect.get_annotations(one).items()}
    return [name for name, hint in hints.items() if "ClassVar" in str(hint) and not _has_any(bases, name)]


def _has_any(bases: Iterable[type], name: str) -> bool:
    return any(hasattr(base, name) for base in bases)


def _evaluated(hint: Any, module: str) -> Any:
    """A hint as a value, where `from __future__ import annotations` made it a string."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, vars(sys.modules[module]))
    except Exception:  # a name that is not defined yet: such a field is a leaf, as in any Equinox module
        return None


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (Union, UnionType):
        return all(map(_is_plain, get_args(hint))) and hint is not NoneType
    if get_origin(hint) is tuple:
        return all(one is Ellipsis or _is_plain(one) for one in get_args(hint))
    return hint in _PLAIN


@cache
def _strings_below_fields(kind: type) -> dict[str, str]:
    """The strings that stand below the fields of a class, in one line each; none where its source is not known."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    found = {}
    for field, below in pairwise(getattr(tree, "body", [])):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
