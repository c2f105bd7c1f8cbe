"""Checks that packages share: counts as people type them, names that become paths, text for terminals, extras."""

import hashlib
import math
import re
from typing import Any

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000, "g": 1_000_000_000}
_COUNT = re.compile(r"([+-]?(?:\d[\d_,]*)?(?:\.\d*)?(?:e[+-]?\d+)?)([kmbg]?)", re.IGNORECASE)
_LONGEST_NAME = 200  # bytes: file systems allow 255, and temporary files add to a name
_LONGEST_MADE = 150  # bytes of a name that is made of longer text, as others may be added to it


def count(value: Any, name: str = "count") -> int:
    """Read a whole number as people type it: `200000`, `200_000`, `200k`, `2M` or `1e6`.

    Args:
        value: An int, a float without a fraction, or a string.
        name: The parameter that an error names.

    Returns:
        The whole number.

    Raises:
        ValueError: If the value is no whole number.

    Examples:
        >>> count("200k"), count("1e6"), count(3.0)
        (200000, 1000000, 3)
    """
    refused = ValueError(f"{name} must be a whole number such as 200000, 200k, 2M or 1e6, got {value!r}")
    if isinstance(value, bool):
        raise refused
    if isinstance(value, str):
        match = _COUNT.fullmatch(value.strip())
        digits = match[1].replace("_", "").replace(",", "") if match else ""
        try:
            number = int(digits) if re.fullmatch(r"[+-]?\d+", digits) else float(digits)
        except ValueError:
            raise refused from None
        value = number * _UNITS[match[2].lower()] if match else number
    try:
        nearest = round(value)
    except (TypeError, ValueError, OverflowError):  # no number, or not a finite one
        raise refused from None
    if nearest != value and not math.isclose(
        nearest, value, rel_tol=1e-12
    ):  # 1.1k is 1100.0000000000002 in floating point
        raise refused
    return nearest


def check_plain_name(name: Any, what: str) -> str:
    """Refuse a name that cannot be one file or folder inside another folder.

    Names that come from files which other people wrote (configurations, tables, archives) become paths. A plain name
    has no separator, is neither `.` nor `..`, has no control characters, and is at most 200 bytes long.

    Args:
        name: The name as it was read.
        what: What the name is of, with its file, for the error.

    Returns:
        The name.

    Raises:
        ValueError: If the name is not plain.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} must be a name, got {name!r}")
    shown = name if len(name) <= 80 else f"{name[:80]}…"
    if name in (".", "..") or "/" in name or "\\" in name or any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in name):
        raise ValueError(
            f"{what} must be a plain name, without separators or control characters and not '.' or '..', got {shown!r}"
        )
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be a name that UTF-8 can encode, got {shown!r}") from None
    if size > _LONGEST_NAME:
        raise ValueError(f"{what} must be at most {_LONGEST_NAME} bytes long, got {size} bytes: {shown!r}")
    return name


def printable(text: str) -> str:
    """Replace control characters, which names from files may hold, so that none reaches a terminal.

    Args:
        text: Text of one line.

    Returns:
        The text, with a space for each white space and "�" for what cannot be printed.

    Examples:
        >>> printable("dqn\\x1b]0;title\\x07")
        'dqn�]0;title�'
    """
    return "".join(" " if letter.isspace() else letter if letter.isprintable() else "�" for letter in text)


def install_hint(extra: str) -> str:
    """Say how to install an optional dependency of this package.

    Args:
        extra: Name of the extra, such as `torch`.

    Returns:
        The command, and where to run it.

    Examples:
        >>> install_hint("torch")
        "pip install '.[torch]' in a clone of mico-rl"
    """
    return f"pip install '.[{extra}]' in a clone of mico-rl"


def make_plain_name(text: str) -> str:
    """Make a name that can be one file or folder inside another folder.

    Text that is such a name already stays as it is. In any other, what cannot be part of a name becomes `-`, long text
    is cut, and a digest of the whole is added, so that different texts have different names.

    Args:
        text: What to call it.

    Returns:
        A name that `check_plain_name` accepts.

    Examples:
        >>> make_plain_name("dqn-mico-alpha0.1-seed0")
        'dqn-mico-alpha0.1-seed0'
        >>> make_plain_name("dqn-path/data/a.npz-seed0")
        'dqn-path-data-a.npz-seed0-8f207a5c'
    """
    try:
        return check_plain_name(text, "name")
    except ValueError:
        plain = re.sub(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]+", "-", text)
        kept = plain.encode()[:_LONGEST_MADE].decode(errors="ignore")
        return f"{kept}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"
