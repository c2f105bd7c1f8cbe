"""The config.json of a run, checked where it is read: other software, or somebody else, may have written it."""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from types import NoneType
from typing import Any

from mico._checks import check_plain_name
from mico.runs.files import read_regular

NEEDED = ("run", "agent", "metric", "env", "seed")  # what every row of a run shares
MOST_STEPS = 2**53  # beyond, floating point skips whole numbers
_MOST_SEEDS = 2**63  # what a column of int64 holds
_LONGEST = 500  # letters of a name: it is drawn, and figures of thousands take all memory
_DEEPEST = 20
_NAMES = ("run", "agent", "metric", "env")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "run": ((str,), "text"),
    "agent": ((str,), "text"),
    "metric": ((str, NoneType), "text or null"),
    "env": ((str,), "text"),
    "seed": ((int,), "a whole number"),
    "steps": ((int, NoneType), "a whole number or null"),
    "varied": ((dict,), "an object"),
    "settings": ((dict, NoneType), "an object or null"),
    "starts": ((list,), "a list"),
}
_START: dict[str, tuple[type, ...]] = {
    "step": (int,),
    "versions": (dict, NoneType),
    "commit": (str, NoneType),
    "device": (str, NoneType),
}


def read_config(file: Path, needed: Collection[str] = NEEDED) -> dict[str, Any]:
    """Read the configuration of a run, and refuse one whose values are not what they must be.

    Args:
        file: The config.json.
        needed: Entries that must be there; others are checked if they are there.

    Returns:
        The configuration.

    Raises:
        ValueError: If it is not JSON, or an entry is missing or of another kind; names the file and the entry.
        OSError: If it cannot be read.
    """
    try:
        config = json.loads(read_regular(file))
        _check_values(config, "it")
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{file} must hold an object, got {_short(config)}")
    lacking = [name for name in needed if name not in config]
    if lacking:
        raise ValueError(f"{file} must tell {', '.join(needed)}, but lacks {', '.join(lacking)}")
    try:
        _check_entries(config)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return config


def is_showable(name: str) -> bool:
    """Whether a name can be drawn and printed: at most 500 letters, none of them a control character."""
    return len(name) <= _LONGEST and not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in name)


def are_settings(given: Any) -> bool:
    """Whether it has the form of a run's settings: parts that are objects, the names of three of them, and a seed."""
    match given:
        case {
            "agent": {"name": str()},
            "env": {"name": str()},
            "metric": None | {"name": str()},
            "seed": int(seed),
        } if not isinstance(seed, bool):
            return all(isinstance(part, dict | None) for name, part in given.items() if name != "seed")
    return False


def _check_entries(config: dict[str, Any]) -> None:
    for name, (types, words) in _KINDS.items():
        if name in config and not _is_kind(config[name], types):
            raise ValueError(f"{name} must be {words}, got {_short(config[name])}")
    for name in _NAMES:
        if not is_showable(config.get(name) or ""):
            raise ValueError(
                f"{name} must have at most {_LONGEST} letters and no control characters: {_short(config[name])}"
            )
    if "run" in config:
        check_plain_name(config["run"], "run")  # it becomes a part of paths
    if not -_MOST_SEEDS <= config.get("seed", 0) < _MOST_SEEDS:
        raise ValueError(f"seed must fit into 64 bits, got {_short(config['seed'])}")
    if not 0 <= (config.get("steps") or 0) <= MOST_STEPS:
        raise ValueError(f"steps must be from 0 to 2⁵³, got {_short(config['steps'])}")
    for name, value in config.get("varied", {}).items():
        if isinstance(value, dict | list):
            raise ValueError(f"varied.{name} must be text or a number, got {_short(value)}")
    for start in config.get("starts", []):
        if not isinstance(start, dict) or not all(
            _is_kind(start[name], types) for name, types in _START.items() if name in start
        ):
            raise ValueError(
                f"starts must be objects with a step, versions, a commit and a device, got {_short(start)}"
            )
    if config.get("settings") is not None and not are_settings(config["settings"]):
        raise ValueError("settings must have objects for agent, metric and env with their names, and a seed")


def _check_values(value: Any, where: str, depth: int = 0) -> None:
    """Refuse what JSON can say and nothing here can hold: numbers that are no finite float64, text that is no UTF-8."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        for name, one in value.items():
            _check_values(name, where)
            _check_values(one, name, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check_values(one, where, depth + 1)
    elif isinstance(value, str):
        if any(0xD800 <= ord(letter) < 0xE000 for letter in value):
            raise ValueError(f"{where} has text that UTF-8 cannot encode, {_short(value)}")
    elif isinstance(value, int | float) and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{where} has a number that float64 cannot hold, {_short(value)}")


def _is_kind(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
