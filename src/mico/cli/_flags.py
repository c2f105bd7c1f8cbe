"""Flags of a command, parsed by tyro, with one line in place of its box where they are wrong."""

import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

_RULE = r"^(?:[-─]{3,}|[╭╰].*)$"
_WIDE = "4000"  # columns: nothing of a message is wrapped


def parse_flags(kind: Any, *, prog: str, args: Sequence[str], description: str | None = None, config: Any = ()) -> Any:
    """Parse the flags of a command into an instance of a type.

    Args:
        kind: The type whose fields are the flags.
        prog: The command as it is typed.
        args: The arguments.
        description: What the command does, for its help.
        config: Settings of tyro.

    Returns:
        The instance.

    Raises:
        ValueError: If a flag is unknown, missing or has a value that it does not take.
    """
    box = io.StringIO()
    try:
        with _wide_columns(not {"-h", "--help"} & {*args}), contextlib.redirect_stderr(box):
            parsed = tyro.cli(kind, prog=prog, description=description, args=args, config=config)
    except SystemExit as stop:
        if stop.code == 2:
            command = prog.split(" [")[0]
            raise ValueError(f"{_one_line(box.getvalue())} (see {command} --help)") from None
        raise
    sys.stderr.write(box.getvalue())
    return parsed


@contextlib.contextmanager
def _wide_columns(wide: bool) -> Iterator[None]:
    """Make tyro's boxes so wide that nothing in them is wrapped."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDE if wide else str(shutil.get_terminal_size().columns)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def _one_line(box: str) -> str:
    """Say what is in a box of tyro's: its sections without the help of flags, each flag by its name."""
    lines = [line.strip(" │") for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()]
    sections = re.split(_RULE, "\n".join(lines), flags=re.MULTILINE)
    title = 0 if "│" in box else 1  # where the output is not Unicode, it is a section of its own
    said = [_say_section(section.split("\n")) for section in map(str.strip, sections[title:]) if section]
    return "; ".join(filter(None, said)) or " ".join(" ".join(lines).split())


def _say_section(lines: list[str]) -> str:
    """Say a section of a box in a line; empty for those that only explain."""
    head, *rest = lines
    flags = [line.split(" ")[0] for line in rest if line.startswith("-")]
    if head.startswith(("For full helptext", "Argument helptext")):
        return ""
    if head.startswith("Missing from"):
        return f"{' and '.join(flags)} must be given"
    if head.startswith("Perhaps you meant"):
        return f"did you mean {' or '.join(dict.fromkeys(flags))}?"
    text = " ".join([head, *rest])
    if match := re.match(r"Unrecognized options: *(.*)", text):
        unknown = match[1].split(",")[0].split(" ")[0]
        return f"unknown {'option' if unknown.startswith('-') else 'argument'} {unknown}"
    if match := re.match(r"invalid choice (.*) for argument '(.*?)'\. Expected one of \((.*?),?\)\.", text):
        return f"{match[2]} must be one of {match[3]}, got {match[1]}".replace("'", "")
    if match := re.match(r"Missing value for argument '(.*?)'", text):
        return f"{match[1]} must have a value"
    text = re.sub(r"Could not find valid parse for arguments: \[(.*)\]", r"cannot be read from \1", text)
    return text.removeprefix("Error parsing ")
