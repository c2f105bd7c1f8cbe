"""Names and settings of environments that do not say them themselves."""

import dataclasses
from typing import Any

from mico.deep.extensions import class_path, takes_member
from mico.deep.types import Spec


def registered_name(env: Any) -> str:
    """The name that an environment's class is registered by, and the member if the class has members.

    Raises:
        ValueError: If the class is not registered.
    """
    from mico.deep.envs import ENVS

    family = next((name for name in ENVS if ENVS[name] is type(env)), None)
    if family is None:
        kind = type(env).__name__
        where = class_path(type(env))
        raise ValueError(f"env {where} must be registered to have a name: mico.register_env('name', {kind})")
    return f"{family}/{getattr(env, member_field(type(env)))}" if takes_member(type(env)) else family


def member_field(kind: type) -> str:
    """The field of an environment that holds its member."""
    return dataclasses.fields(kind)[0].name


def settings(env: Any) -> dict[str, Any]:
    """The fields of an environment without the one of its member."""
    names = [field.name for field in dataclasses.fields(env) if field.init]
    return {name: getattr(env, name) for name in (names[1:] if takes_member(type(env)) else names)}


def numbered_actions(spec: Spec) -> tuple[str, ...]:
    """Names for actions that have none."""
    if spec.num_actions:
        return tuple(map(str, range(spec.num_actions)))
    return tuple(f"action {number}" for number in range(1, spec.action_size + 1))
