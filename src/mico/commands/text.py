"""What the code says about itself, in words that a terminal can show."""

import inspect
from collections.abc import Callable
from typing import Any

_SYMBOLS = {"$": "", r"\Pi ": "Π", r"\gamma": "γ", r"\Delta ": "Δ", r"\le": "≤"}


def summary(documented: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, its formulas in plain symbols."""
    text = " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())
    for formula, symbol in _SYMBOLS.items():
        text = text.replace(formula, symbol)
    return text
