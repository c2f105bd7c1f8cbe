"""Whole numbers on the command line, as people type them: 200000, 200k, 2M or 1e6."""

from collections.abc import Sequence
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from tyro.constructors import PrimitiveConstructorSpec

from mico._checks import count


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="COUNT",
        instance_from_str=lambda words: count(words[0]),
        is_instance=_is_count,
        str_from_instance=lambda value: [str(value)],
    ),
]
OptionalCount = Annotated[
    int | None,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="COUNT",
        instance_from_str=lambda words: None if words[0].lower() == "none" else count(words[0]),
        is_instance=lambda value: value is None or _is_count(value),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    ),
]


OptionalNumber = Annotated[
    float | None,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda words: None if words[0].lower() == "none" else float(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    ),
]


def optional_word(words: Sequence[str]) -> Any:
    """A type by which tyro reads one of several words, or `none` for None."""
    spec = PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(words) + "}",
        choices=(*words, "none"),
        instance_from_str=lambda given: None if given[0] == "none" else given[0],
        is_instance=lambda value: value is None or value in words,
        str_from_instance=lambda value: ["none" if value is None else value],
    )
    return Annotated[str | None, spec]


def several_numbers(kind: Any, *, metavar: str | None = None) -> Any:
    """A type by which tyro reads one or several numbers; None for a type without numbers.

    Whole numbers are read as counts. A word that may stand in place of a number is read too, `none` for None.
    """
    kinds = {kind, *get_args(kind)}
    if not kinds & {int, float}:
        return None
    literals = [one for one in kinds if get_origin(one) is Literal]
    words: dict[str, Any] = {word: word for one in literals for word in get_args(one)}
    words |= {"none": None} if NoneType in kinds else {}
    name, read = ("INT", count) if int in kinds else ("FLOAT", _number)
    one = "|".join([name, *words])
    spec = PrimitiveConstructorSpec(
        nargs="*",
        metavar=one if metavar is None else metavar.format(one),
        instance_from_str=lambda given: tuple(
            words[word] if word in words else read(word) for word in map(_plain, given)
        ),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: ["none" if each is None else str(each) for each in value],
    )
    return Annotated[tuple[Any, ...], spec]


def _plain(word: str) -> str:
    """None as the command line writes it, also where it is written as in Python."""
    return "none" if word.lower() == "none" else word


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"a number is needed, got {word!r}") from None
