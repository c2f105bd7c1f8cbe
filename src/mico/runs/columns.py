"""Column names of other people's tables: what they must be, and a mapping from theirs to ours."""

import difflib
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pandas as pd

RESULTS = ("agent", "env", "seed", "step", "score")
OPTIONAL = ("metric", "episodes")
SCALE = ("env", "low", "high")
_OURS = (*RESULTS, *OPTIONAL, "low", "high")
_OTHER_WORDS = {
    "agent": ("algo", "algorithm", "method", "model", "policy"),
    "env": ("environment", "game", "task", "env_id", "env_name", "domain"),
    "seed": ("run", "trial", "random_seed", "run_id"),
    "step": ("steps", "timestep", "timesteps", "global_step", "total_timesteps", "env_step", "env_steps"),
    "score": ("reward", "return", "returns", "episode_reward", "episode_return", "episodic_return", "value"),
    "low": ("min", "minimum", "random"),
    "high": ("max", "maximum", "human"),
}
_MOST_NAMES = 12  # of a table that an error lists


def parse_columns(words: Iterable[str]) -> dict[str, str]:
    """Read a mapping of column names from words such as `algo=agent`, their name before ours.

    Args:
        words: A word for each column.

    Returns:
        The mapping, as `read_scores` takes it.

    Raises:
        ValueError: If a word is no such pair, or two of them contradict each other.

    Examples:
        >>> parse_columns(["algo=agent", "timestep=step"])
        {'algo': 'agent', 'timestep': 'step'}
    """
    columns: dict[str, str] = {}
    for word in words:
        theirs, equals, ours = word.rpartition("=")  # a name of ours has no sign of equality, and theirs may have one
        if not (equals and theirs and ours):
            raise ValueError(f"columns must be pairs such as algo=agent (their name, then ours), got {word!r}")
        if theirs in columns:
            raise ValueError(f"columns must map each column once, got {theirs}={columns[theirs]} and {word}")
        columns[theirs] = ours
    return check_columns(columns)


def check_columns(columns: Mapping[Any, Any] | None) -> dict[str, str]:
    """Refuse a mapping to a name that no table of ours has, or of two columns to the same name."""
    columns = dict(columns or {})
    for theirs, ours in columns.items():
        if not isinstance(theirs, str) or not isinstance(ours, str):
            raise ValueError(f"columns must map names to names, got {theirs!r}: {ours!r}")
        if ours not in _OURS and not _is_field(ours):
            near = difflib.get_close_matches(ours, _OURS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            known = f"{', '.join(_OURS)}, or to a field with a dot such as metric.alpha"
            raise ValueError(f"columns must map to {known}, got {theirs}={ours}{hint}")
    twice = [ours for ours in columns.values() if [*columns.values()].count(ours) > 1]
    if twice:
        pairs = " and ".join(f"{theirs}={ours}" for theirs, ours in columns.items() if ours == twice[0])
        raise ValueError(f"columns must map one column to {twice[0]}, got {pairs}")
    return columns


def check_used(columns: Mapping[str, str], tables: Mapping[str, Collection[str]]) -> None:
    """Refuse a mapping of a column that no table has; `tables` are the names of the columns of each."""
    if columns and not tables:
        raise ValueError("columns are for CSV files, and there is none: folders of runs need no mapping")
    found = dict.fromkeys(name for names in tables.values() for name in names)
    for theirs in columns:
        if theirs not in found:
            near = difflib.get_close_matches(theirs, list(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"columns must map names that {_listed(tables)} has, got {theirs!r}: found {_listed(found)}{hint}"
            )


def rename_columns(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Rename the columns of a table; one that has the new name already, and is not itself renamed, is dropped."""
    new = {ours for theirs, ours in columns.items() if theirs in table.columns}
    replaced = [name for name in table.columns if name in new and name not in columns]
    return table.drop(columns=replaced).rename(columns=dict(columns))


def check_has(table: pd.DataFrame, needed: Collection[str], source: str) -> None:
    """Refuse a table that lacks columns or has one twice: say which names it has, and how to map them to ours."""
    twice = [str(name) for name in needed if list(table.columns).count(name) > 1]
    if twice:
        raise ValueError(f"{source} must have one column {twice[0]}, but has several")
    lacking = [name for name in needed if name not in table.columns]
    if lacking:
        found = [str(name) for name in table.columns]
        guesses = _guesses(lacking, [name for name in found if name not in needed])
        pairs = " ".join(shlex.quote(f"{guesses.get(name, 'NAME')}={name}") for name in lacking)
        raise ValueError(
            f"{source} must have the columns {', '.join(needed)}, but lacks {', '.join(lacking)}; "
            f"found {_listed(found) or 'none'}. Name them with --columns {pairs} (their name, then ours)"
        )


def _guesses(lacking: Iterable[str], found: Iterable[str]) -> dict[str, str]:
    """For names of ours the columns that probably are what is meant, by their usual names."""
    guesses = {}
    for name in lacking:
        words = [name, *_OTHER_WORDS.get(name, ())]
        likely = [theirs for theirs in found if theirs.strip().lower().replace(" ", "_").replace("-", "_") in words]
        if len(likely) == 1:
            guesses[name] = likely[0]
    return guesses


def _is_field(name: str) -> bool:
    return all(name.partition("."))


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
