"""The command line that trains runs again, from what their config.json says; the reverse of `train_options`."""

import inspect
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mico.tabular import PROBLEMS


def train_line(settings: Sequence[Mapping[str, Any]], *, steps: int, out: str) -> str | None:
    """`mico train` with every field written out, so that no preset matters; None where one command cannot make them.

    The settings are those of a fleet's runs as config.json and fleet.json hold them: they must be all combinations of
    the values of each field, and of the seeds.
    """
    runs = [_flags(one) for one in settings]
    if not runs or any(run.keys() != runs[0].keys() for run in runs):
        return None
    values = {flag: list(dict.fromkeys(run[flag] for run in runs)) for flag in runs[0]}
    several = {flag for flag, given in values.items() if len(given) > 1}
    different = {tuple(run.values()) for run in runs}
    if several & {"--agent", "--metric", "--env"} or len(different) != math.prod(map(len, values.values())):
        return None
    words = [word for flag, given in values.items() for word in (flag, *given) if word]
    return shlex.join(["mico", "train", *words, "--steps", str(steps), "--out", out])


def _flags(settings: Mapping[str, Any]) -> dict[str, str]:
    """Each flag with its value, the parts' names first."""
    parts = {part: given or {} for part, given in settings.items() if part != "seed"}
    parts["env"] = _named_by_file(parts["env"])
    flags = {f"--{part}": str(parts[part].get("name", "none")) for part in ("env", "agent", "metric")}
    flags["--seeds"] = str(settings["seed"])
    for part, given in parts.items():
        for field, value in given.items():
            name = field.replace("_", "-")
            if isinstance(value, bool):
                if value != _default(flags["--env"], field):
                    flags[f"--{part}.{name}" if value else f"--{part}.no-{name}"] = ""
            elif field != "name":
                flags[f"--{part}.{name}"] = str(value)
    return flags


def _named_by_file(env: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an environment without the digest of its file; an MDP's file becomes part of the name."""
    known = {name: value for name, value in env.items() if name != "digest"}
    if known["name"].lower().endswith((".npz", ".json")):
        known["name"] = f"mdp/{known.pop('path', known['name'])}"
    return known


def _default(env: str, field: str) -> Any:
    """The default of a problem's boolean option, a flag only where it differs; other parts have no booleans."""
    maker = PROBLEMS.get(env.partition("/")[2])
    parameter = None if maker is None else inspect.signature(maker).parameters.get(field)
    return None if parameter is None else parameter.default
