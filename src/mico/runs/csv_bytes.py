"""Tables as the bytes of a CSV file that is safe to open in a spreadsheet."""

from typing import Any

import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a cell of text that begins so is run as a formula


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
    return table.map(_harmless).to_csv(index=False).encode(errors="replace")


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", " ")  # some readers end a line there
    return f"'{text}" if cell.startswith(_FORMULA) else text
