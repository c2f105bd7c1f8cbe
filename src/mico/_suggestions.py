"""Names that were meant, for errors about those that were given."""

import difflib
import re
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """The known names most like the given one, however it is spelt, or all of them if none is."""
    names = {_plain(one): one for one in known}
    found = difflib.get_close_matches(_plain(name), names, n=3, cutoff=0.4) or names
    return ", ".join(names[one] for one in found)


def _plain(name: str) -> str:
    """MsPacman and ms_pacman are ms-pacman."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()
