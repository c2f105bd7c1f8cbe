"""Names that were meant, for errors about those that were given."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """The known names most like the given one, or all of them if none is."""
    names = list(known)
    return ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names)
