"""Environments by name: families, and what the loop asks of those inside JAX and of those outside."""

import inspect
from collections.abc import Callable
from typing import Any

from mico.deep.envs.abstract import AbstractEnv, Outcome
from mico.deep.envs.atari import Atari
from mico.deep.envs.control import Control
from mico.deep.envs.gym import Gym
from mico.deep.envs.host import AbstractHostEnv, AbstractHostEnvs, Episodes, HostOutcome, HostStep
from mico.deep.envs.minatar import MinAtar
from mico.deep.envs.names import near
from mico.deep.envs.tabular import Tabular

ENVS: dict[str, Callable[..., AbstractEnv | AbstractHostEnv]] = {
    "minatar": MinAtar,
    "mdp": Tabular,
    "gym": Gym,
    "atari": Atari,
    "control": Control,
}


def environment(name: str, **fields: Any) -> AbstractEnv | AbstractHostEnv:
    """The environment of a name such as "minatar/breakout": a family of ENVS, and which of it."""
    family, _, member = name.partition("/")
    if family not in ENVS:
        raise ValueError(f"env {name!r} has no such family: did you mean {near(family, ENVS)}?")
    if not member:
        raise ValueError(f"env {name!r} names a family alone: say which one, {family}/...")
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
    "Episodes",
    "Gym",
    "HostOutcome",
    "HostStep",
    "MinAtar",
    "Outcome",
    "Tabular",
    "environment",
]
