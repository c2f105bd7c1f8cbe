"""Tables as the bytes of a CSV file that is safe to open in a spreadsheet, and such text as it was."""

import re
from typing import Any

import pandas as pd

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # a cell of text that begins so is run as a formula, or is one made harmless


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Write a table as CSV; text that a spreadsheet would take for a formula gets an apostrophe before it.

    Args:
        table: The table; its index is not written.

    Returns:
        The contents of the file.

    Examples:
        >>> csv_bytes(pd.DataFrame({"agent": ["=cmd()", "dqn + mico"], "value": [-1.0, 2.0]}))
        b"agent,value\\n'=cmd(),-1.0\\ndqn + mico,2.0\\n"
    """
    harmless = table.rename(columns=escape_formula)
    for name in harmless.select_dtypes(exclude=["number", "bool"]):
        harmless[name] = harmless[name].map(escape_formula)
    return harmless.to_csv(index=False).encode(errors="replace")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run; all else stays as it is.

    Examples:
        >>> escape_formula("=cmd()"), escape_formula("dqn"), escape_formula(-1.0)
        ("'=cmd()", 'dqn', -1.0)
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", " ")  # some readers end a line there
    return f"'{text}" if _FORMULA.match(cell) else text


def unescape_formula(cell: Any) -> Any:
    """Take away the apostrophe that `escape_formula` has put before text.

    Examples:
        >>> unescape_formula("'=cmd()"), unescape_formula("'quoted'"), unescape_formula("dqn")
        ('=cmd()', "'quoted'", 'dqn')
    """
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell


def unescape_table(table: pd.DataFrame) -> pd.DataFrame:
    """Take away all the apostrophes of a table that was read from a file of `csv_bytes`.

    Args:
        table: The table, as pandas reads it.

    Returns:
        A table whose text and names of columns are as they were.
    """
    found = table.rename(columns=unescape_formula)
    for name in found.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in found.dtypes]]:
        found[name] = found[name].map(unescape_formula)
    return found
