"""Words that a terminal can show: what the code says about itself, and sizes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status
from rich.text import Text

from mico._checks import printable

_SYMBOLS = {"$": "", r"\Pi ": "Π", r"\pi": "π", r"\gamma": "γ", r"\Delta ": "Δ", r"\le": "≤"}


def summary(documented: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, its formulas in plain symbols."""
    described = documented.func if isinstance(documented, functools.partial) else documented
    text = " ".join((inspect.getdoc(described) or "").split("\n\n")[0].split())
    for formula, symbol in _SYMBOLS.items():
        text = text.replace(formula, symbol)
    return text


class PlainConsole(Console):
    """A console that prints text as it is: no markup, no colours of its own, and no control characters of others.

    Names from files, messages of workers and paths may hold escape sequences, which would reach the terminal.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn text, also that in tables, into what is printed."""
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show what is being done; text is no markup here either."""
        return super().status(self.render_str(status) if isinstance(status, str) else status, **options)


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
