"""Tables as numbers and as text."""

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd


@dataclass(frozen=True)
class Sheet:
    """A table as it is read; the first `labels` cells of a row name it, and a folded one is opened by a click."""

    name: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    folded: bool = False


class Tabled(NamedTuple):
    """A table as numbers, for a file, and as text."""

    numbers: pd.DataFrame
    sheet: Sheet


def crossed(name: str, caption: str, cells: dict[tuple[str, str], str], sides: tuple[str, str]) -> Sheet:
    """Texts of pairs as a table, the longer side downwards; a dash where there is none."""
    down, across = (list(dict.fromkeys(pair[side] for pair in cells)) for side in (0, 1))
    if len(across) > len(down):
        turned = {(second, first): text for (first, second), text in cells.items()}
        return crossed(name, caption, turned, (sides[1], sides[0]))
    rows = tuple((first, *(cells.get((first, second), "–") for second in across)) for first in down)
    return Sheet(name, caption, (sides[0], *across), rows)
