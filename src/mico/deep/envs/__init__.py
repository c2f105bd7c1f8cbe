"""Environments by name: families, and what the loop asks of those inside JAX and of those outside."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mico._suggestions import near
from mico.deep.envs.api import AbstractEnv, Outcome
from mico.deep.envs.host.atari import Atari
from mico.deep.envs.host.control import Control
from mico.deep.envs.host.episodes import AbstractHostEnv, AbstractHostEnvs, Episodes, HostOutcome, HostStep
from mico.deep.envs.host.gym import Gym
from mico.deep.envs.mdp import Tabular, is_problem_file
from mico.deep.envs.minatar.minatar import MinAtar
from mico.tabular import PROBLEMS

ENVS: dict[str, Callable[..., AbstractEnv | AbstractHostEnv]] = {
    "minatar": MinAtar,
    "mdp": Tabular,
    "gym": Gym,
    "atari": Atari,
    "control": Control,
}


class EnvName(NamedTuple):
    """A name in parts: its family, the member, and for an MDP from a file the path to it."""

    family: str
    member: str
    file: Path | None = None


def split_name(name: str) -> EnvName:
    """Split a name such as "minatar/breakout" or "mdp/folder/mine.npz", and refuse names that are none.

    Examples:
        >>> split_name("mdp/four-rooms").member
        'four-rooms'
        >>> split_name("mdp/../mine.npz").file
        PosixPath('../mine.npz')
    """
    family, _, member = name.partition("/")
    if family not in ENVS:
        from mico.deep.envs.catalogue import suggestions  # it asks every family for its names

        raise ValueError(f"env {name!r} is no environment: did you mean {suggestions(name)}?")
    if not member:
        raise ValueError(f"env {name!r} names a family alone: say which one, {family}/...")
    if family == "mdp" and is_problem_file(member):
        return EnvName(family, Path(member).name, Path(member))
    if family == "mdp" and member not in PROBLEMS:
        raise ValueError(f"env {name!r} is no problem: did you mean {near(member, PROBLEMS)}?")
    return EnvName(family, member)


def environment(name: str, **fields: Any) -> AbstractEnv | AbstractHostEnv:
    """The environment of a name such as "minatar/breakout": a family of ENVS, and which of it.

    Args:
        name: Family and member. "mdp/" takes a problem's name, or the path of an .npz or .json file of one.
        **fields: Settings of the environment, and options of an MDP's problem.

    Raises:
        ValueError: If there is no such environment, or it has no such field.

    Examples:
        >>> environment("mdp/four-rooms", slip=0.1).spec.num_actions
        4
    """
    family, member, file = split_name(name)
    if file is not None:
        fields = {"path": file, **fields}  # a configuration has the path beside the name
    try:
        inspect.signature(ENVS[family]).bind(member, **fields)
    except TypeError as error:
        raise ValueError(f"env {name!r}: {error}") from None
    return ENVS[family](member, **fields)


__all__ = [
    "ENVS",
    "AbstractEnv",
    "AbstractHostEnv",
    "AbstractHostEnvs",
    "Atari",
    "Control",
    "EnvName",
    "Episodes",
    "Gym",
    "HostOutcome",
    "HostStep",
    "MinAtar",
    "Outcome",
    "Tabular",
    "environment",
    "split_name",
]
