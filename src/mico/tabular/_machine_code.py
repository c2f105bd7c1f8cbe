"""Compile functions by Numba and keep the machine code on disk; importing this takes a quarter of a second."""

from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from numba import njit

# No function makes an array, so that Numba need not count references to them by atomic operations. Without the lock of
# the interpreter threads work at the same time.
_OPTIONS: dict[str, Any] = {"forceinline": True, "nogil": True, "_nrt": False}


def machine_code(function: Callable) -> Callable:
    """Compile a function when it is first called, and keep the machine code on disk where there is room for it."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder can be written: neither that of this file nor one of the user
        return njit(**_OPTIONS)(function)


def interpreted(module: ModuleType) -> SimpleNamespace:
    """The functions of a module as Python runs them, for work that is over sooner than they are compiled."""
    names = dict(vars(module))
    functions = {name: each.py_func for name, each in names.items() if hasattr(each, "py_func")}
    plain = {name: FunctionType(function.__code__, names) for name, function in functions.items()}
    names.update(plain)
    return SimpleNamespace(**plain)
