"""Words that a terminal can show: what the code says about itself, and sizes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rich.console import Console

_SYMBOLS = {"$": "", r"\Pi ": "Π", r"\pi": "π", r"\gamma": "γ", r"\Delta ": "Δ", r"\le": "≤"}


def summary(documented: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, its formulas in plain symbols."""
    described = documented.func if isinstance(documented, functools.partial) else documented
    text = " ".join((inspect.getdoc(described) or "").split("\n\n")[0].split())
    for formula, symbol in _SYMBOLS.items():
        text = text.replace(formula, symbol)
    return text


def printable(text: str) -> str:
    """Replace control characters, which names from files may hold, so that none reaches the terminal."""
    return "".join(" " if letter.isspace() else letter if letter.isprintable() else "�" for letter in text)


def moves(console: Console) -> bool:
    """Whether lines can be painted over."""
    return console.is_terminal and not console.is_dumb_terminal


def in_bytes(size: int) -> str:
    """A number of bytes, to three digits."""
    number = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
