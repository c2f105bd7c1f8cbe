"""Whole numbers on the command line, as people type them: 200000, 200k, 2M or 1e6."""

from typing import Annotated, Any

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
