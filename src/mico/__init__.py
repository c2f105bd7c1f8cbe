"""Behavioural metrics in reinforcement learning: exact on finite MDPs, learnt in deep agents.

mico.make("four-rooms")             a finite MDP, by name, from a file or from a Gymnasium environment
mico.solve("mico", model)           a metric of it, exact to a certified error
mico.train("minatar/breakout", …)   agents with a metric loss (needs the extra deep)
mico.load(folder)                   a trained run
mico.evaluate(run, …)               its returns
mico.report(folders, out)           many runs as one page with intervals
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mico._api import evaluate, load, train
    from mico.cli.report_writing import report
    from mico.deep.config.registry import register_agent, register_encoder, register_env, register_metric_loss
    from mico.tabular import make, register_metric, register_problem, solve

__version__ = "0.1.0"

_HOMES = {
    "evaluate": "mico._api",
    "load": "mico._api",
    "make": "mico.tabular",
    "register_agent": "mico.deep.config.registry",
    "register_encoder": "mico.deep.config.registry",
    "register_env": "mico.deep.config.registry",
    "register_metric": "mico.tabular",
    "register_metric_loss": "mico.deep.config.registry",
    "register_problem": "mico.tabular",
    "report": "mico.cli.report_writing",
    "solve": "mico.tabular",
    "train": "mico._api",
}

__all__ = [
    "__version__",
    "evaluate",
    "load",
    "make",
    "register_agent",
    "register_encoder",
    "register_env",
    "register_metric",
    "register_metric_loss",
    "register_problem",
    "report",
    "solve",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `import mico` alone loads neither NumPy nor JAX."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
