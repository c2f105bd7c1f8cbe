"""Names of arms: one function, so that an arm has the same name while it trains, in sweeps and in reports."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

_PARTS = ("agent", "metric", "env")


def arm_names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the arm of each run: its agent, its metric loss, and the fields that tell it from similar runs.

    An arm is an agent with a metric loss and its settings, over all seeds and environments. A field is part of the
    name if runs of the same agent and metric loss have several values of it in one environment.

    Args:
        runs: A description of each run: `agent`, `metric` (None or "none" without a metric loss) and, where there are
            several, `env`; every further key is a field, such as "metric.alpha", but for `seed` and the names of parts
            ("agent.name"). A field that a run does not have may be missing, None or NaN.

    Returns:
        A name for each run, in the order of the runs.

    Examples:
        >>> arm_names([{"agent": "dqn", "metric": None}, {"agent": "dqn", "metric": "mico", "metric.alpha": 0.1}])
        ['dqn', 'dqn + mico']
        >>> arm_names([{"agent": "dqn", "metric": "mico", "metric.alpha": alpha} for alpha in (0.0, 0.1)])
        ['dqn + mico (metric.alpha=0)', 'dqn + mico (metric.alpha=0.1)']
    """
    kinds: dict[Hashable, list[Mapping[str, Any]]] = {}
    for run in runs:
        kinds.setdefault(_kind(run), []).append(run)
    varied = {kind: _varied_fields(own) for kind, own in kinds.items()}
    return [_name(run, varied[_kind(run)]) for run in runs]


def _kind(run: Mapping[str, Any]) -> tuple[str, str]:
    metric = run.get("metric")
    return str(run["agent"]), "none" if _is_missing(metric) else str(metric)


def _varied_fields(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The fields of which runs in the same environment have several values; not to have one is a value too."""
    runs = list(runs)
    fields = dict.fromkeys(field for run in runs for field in run if field not in (*_PARTS, "seed"))
    varied = []
    for field in fields:
        values: dict[str, set[Hashable]] = {}
        for run in runs:
            values.setdefault(str(run.get("env")), set()).add(_comparable(run.get(field)))
        if max(map(len, values.values())) > 1 and not field.endswith(".name"):
            varied.append(field)
    return varied


def _name(run: Mapping[str, Any], fields: Iterable[str]) -> str:
    agent, metric = _kind(run)
    values = ", ".join(f"{field}={_text(run[field])}" for field in fields if not _is_missing(run.get(field)))
    name = agent if metric == "none" else f"{agent} + {metric}"
    return f"{name} ({values})" if values else name


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _comparable(value: Any) -> Hashable:
    if _is_missing(value):
        return None
    return value if isinstance(value, Hashable) else repr(value)


def _text(value: Any) -> str:
    """The shortest text of a number that reads as the same number: two arms must not share a name by rounding."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == float(value) else repr(float(value))
