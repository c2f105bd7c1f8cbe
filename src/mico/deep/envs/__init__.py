"""Environments by name: families, and what the loop asks of those inside JAX and of those outside."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mico._registry import Registry
from mico._suggestions import near
from mico.deep.envs.api import AbstractEnv, AbstractEnvSettings
from mico.deep.envs.host.atari import Atari
from mico.deep.envs.host.control import Control
from mico.deep.envs.host.episodes import AbstractHostEnv, AbstractHostEnvs, Episodes
from mico.deep.envs.host.gym import Gym
from mico.deep.envs.mdp import Tabular, is_problem_file
from mico.deep.envs.minatar.minatar import MinAtar
from mico.deep.extensions import check_class, takes_member
from mico.tabular import PROBLEMS

ENVS: Registry[Callable[..., AbstractEnv | AbstractHostEnv]] = Registry(
    "environment",
    "mico.envs",
    {"minatar": MinAtar, "mdp": Tabular, "gym": Gym, "atari": Atari, "control": Control},
    check=check_class((AbstractEnv, AbstractHostEnv), needs_defaults=False),
)


class EnvName(NamedTuple):
    """A name in parts: its family, the member if the family has any, and for an MDP from a file the path to it."""

    family: str
    member: str | None
    file: Path | None = None


def split_name(name: str) -> EnvName:
    """Split a name such as "minatar/breakout" or "mdp/folder/mine.npz", and refuse names that are none.

    Examples:
        >>> split_name("mdp/four-rooms").member
        'four-rooms'
        >>> split_name("mdp/../mine.npz").file
        PosixPath('../mine.npz')
    """
    if name in ENVS and not takes_member(ENVS[name]):
        return EnvName(name, None)
    family, _, member = name.partition("/")
    if family not in ENVS or not takes_member(ENVS[family]):
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
    """Make an environment by name, such as "minatar/breakout": a family of ENVS, and which of it.

    Args:
        name: Family and member, or the family alone where it has no members. "mdp/" takes a problem's name, or the path
            of an .npz or .json file of one.
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
    first = () if member is None else (member,)
    try:
        inspect.signature(ENVS[family]).bind(*first, **fields)
    except TypeError as error:
        raise ValueError(f"env {name!r}: {error}") from None
    return ENVS[family](*first, **fields)


__all__ = [
    "ENVS",
    "AbstractEnv",
    "AbstractEnvSettings",
    "AbstractHostEnv",
    "AbstractHostEnvs",
    "Atari",
    "Control",
    "EnvName",
    "Episodes",
    "Gym",
    "MinAtar",
    "Tabular",
    "environment",
    "split_name",
]
