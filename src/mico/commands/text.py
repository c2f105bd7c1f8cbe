"""What the code says about itself, in words that a terminal can show."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

_SYMBOLS = {"$": "", r"\Pi ": "Π", r"\gamma": "γ", r"\Delta ": "Δ", r"\le": "≤"}


def summary(documented: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, its formulas in plain symbols."""
    described = documented.func if isinstance(documented, functools.partial) else documented
    text = " ".join((inspect.getdoc(described) or "").split("\n\n")[0].split())
    for formula, symbol in _SYMBOLS.items():
        text = text.replace(formula, symbol)
    return text
