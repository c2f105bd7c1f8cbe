"""Modules of users, which register agents, losses, environments and others, imported for `mico --import MODULE`."""

import importlib
import os
import sys
from collections.abc import Iterable

_VARIABLE = "MICO_IMPORT"  # so that worker processes import what the command did


def import_modules(names: Iterable[str]) -> None:
    """Import modules by name, also from the current folder, here and in the worker processes of this one.

    Args:
        names: Names of modules, such as "my_plugin" or "my_plugin.losses".

    Raises:
        ValueError: If a module cannot be found, or its code raises an error.

    Examples:
        >>> import_modules(["json"])
    """
    names = [name for name in dict.fromkeys(names) if name]
    if names and "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    for name in names:
        _import(name)
    every = dict.fromkeys([*imported_modules(), *names])
    if every:
        os.environ[_VARIABLE] = ",".join(every)


def imported_modules() -> tuple[str, ...]:
    """The modules that a command was told to import, for processes that it starts."""
    return tuple(filter(None, os.environ.get(_VARIABLE, "").split(",")))


def check_env_module(env_id: str) -> None:
    """Refuse an id of Gymnasium that would import a module which the user has not imported.

    Gymnasium imports MODULE for "MODULE:Name-v0", and ids also come from files that somebody else wrote.

    Args:
        env_id: The id, as Gymnasium takes it.

    Raises:
        ValueError: If it names a module that is not imported, with the flag that imports it.

    Examples:
        >>> check_env_module("CartPole-v1")
    """
    module, colon, _ = env_id.partition(":")
    if colon and module not in sys.modules and module not in imported_modules():
        asked = f"--import {module}, or in Python import {module}"
        raise ValueError(f"id {env_id!r} would import the module {module!r}, which must be asked for: {asked}")


def split_imports(argv: Iterable[str]) -> tuple[list[str], list[str]]:
    """Take `--import MODULE` out of the arguments of a command.

    Examples:
        >>> split_imports(["--env", "corridor", "--import", "my_plugin"])
        (['--env', 'corridor'], ['my_plugin'])
    """
    rest, names, given = [], [], iter(argv)
    for word in given:
        if word == "--import":
            name = next(given, "")
            if not name or name.startswith("-"):
                raise ValueError("--import needs the name of a module, as in --import my_plugin")
            names.append(name)
        elif word.startswith("--import="):
            names.append(word.partition("=")[2])
        else:
            rest.append(word)
    return rest, [name for given in names for name in given.split(",")]


def _import(name: str) -> None:
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"--import must be the name of a module, without .py or folders, got {name!r}")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = "the current folder and the installed packages were searched"
            raise ValueError(f"--import {name}: there is no module {error.name!r}; {where}") from error
        raise
    except Exception as error:  # whatever the code of users raises
        raise ValueError(f"--import {name}: {type(error).__name__}: {error}") from error
