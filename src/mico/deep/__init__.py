"""Behavioural metrics in deep agents."""

import importlib
from typing import TYPE_CHECKING, Any

from mico._extras import require

if TYPE_CHECKING:
    from mico.deep.trained.trained import Trained, load

__all__ = ["Trained", "load"]

require("jax", "mico.deep")


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """What a trained run needs brings every agent and environment with it, which the losses alone do without."""
    if name in __all__:
        return getattr(importlib.import_module("mico.deep.trained.trained"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
