"""What the options of a factory mean: its docstring says so once, for Python and for the command line."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

_ENTRY = re.compile(r"(\*{0,2}\w+)(?: \([^)]*\))?: (.*)")


def documented_arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Read the `Args:` section of a docstring: a sentence for each parameter that it describes.

    Args:
        function: Any callable with a docstring in Google's style; of a partial, the function inside is read.

    Returns:
        The description of each parameter, on one line, by the name of the parameter.

    Examples:
        >>> def grid(size: int) -> None:
        ...     '''A grid.
        ...
        ...     Args:
        ...         size: Number of cells
        ...             along each side.
        ...     '''
        >>> documented_arguments(grid)
        {'size': 'Number of cells along each side.'}
    """
    while isinstance(function, partial):
        function = function.func
    lines = (inspect.getdoc(function) or "").splitlines()
    section = lines[lines.index("Args:") + 1 :] if "Args:" in lines else []
    found: dict[str, str] = {}
    name = None
    for line in section:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        entry = _ENTRY.fullmatch(line.strip()) if indent == 4 else None
        if entry is not None:
            name = entry[1].lstrip("*")
            found[name] = entry[2]
        elif name is not None and line.strip():
            found[name] += f" {line.strip()}"
    return found
