"""Problems in files: `.npz` archives of NumPy arrays, or `.json` objects, with the same keys.

The dense layout:

    transition      [S, A, S] probabilities
    reward          [S, A], or [S, A, S] where each transition has its own
    discount        in [0, 1)

The sparse layout lists what can happen in parallel vectors; one next state may be listed with several rewards:

    state, action, next_state       [K] integers
    probability, reward             [K]
    num_states, num_actions         integers
    discount                        in [0, 1)

Both take, absent or null where there is none:

    names           [S] strings
    policy          [S, A] probabilities
    map             [H, W] integers: the state of each cell, -1 for a wall
    goals           [G] states that have a cell in the map
    actions         [A] strings
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mico.tabular._archives import MOST_BYTES, read_arrays, read_headers
from mico.tabular._validation import check_kind, check_whole, checked_discount
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Layout, Problem

_DENSE = ("transition", "reward", "discount")
_SPARSE = (*Outcomes._fields, "num_states", "num_actions", "discount")
_MANUAL = "docs/file-format.md has both layouts"
_OPTIONAL = ("names", "policy", "map", "goals", "actions")
_JSON_FACTOR = 16  # bytes that a byte of JSON may become: "0," is a float and a pointer to it
_INT64_DIGITS = 20  # with the sign


def load(path: Path | str, *, discount: float | None = None, max_bytes: int = MOST_BYTES) -> Problem:
    """Read a problem from a file; `make` calls this for a path.

    Args:
        path: File whose name ends in .npz or .json.
        discount: Discount factor in [0, 1) that replaces the one in the file.
        max_bytes: Most bytes that the file may take in memory; larger ones are refused before they are unpacked.

    Returns:
        The problem.

    Raises:
        ValueError: If the file cannot be read, is too large or holds no MDP; the message starts with the path.

    Examples:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> mdp = {"transition": [[[0, 1]], [[0, 1]]], "reward": [[1], [0]], "discount": 0.9, "names": ["a", "end"]}
        >>> _ = (folder / "mine.json").write_text(json.dumps(mdp))
        >>> load(folder / "mine.json", discount=0.5)
        Problem(num_states=2, num_actions=1, discount=0.5, names)
    """
    check_kind("path", path, PathLike | str, "a path")
    check_whole("max_bytes", max_bytes, 1)
    override = {} if discount is None else {"discount": checked_discount(discount)}
    path = Path(path)
    with _named(path):
        read = _archive if _suffix(path) == ".npz" else _object
        return read_problem(read(path, max_bytes, override))


def stored_states(path: Path | str) -> int:
    """Read how many states the problem of an archive has, without unpacking it; 0 where that is not known so.

    Args:
        path: File whose name ends in .npz or .json.

    Returns:
        The number of states; 0 for JSON, whose text is as long as its numbers are many.

    Raises:
        ValueError: If the file cannot be read; the message starts with the path.
    """
    path = Path(path)
    with _named(path):
        if _suffix(path) != ".npz":
            return 0
        headers = read_headers(path)
        if "transition" in headers:
            return max(headers["transition"].shape, default=0)
        size = headers.get("num_states")
        if size is None or size.shape != () or size.dtype.kind not in "iu":
            return 0  # which reading it says in full
        return int(read_arrays(path, ["num_states"])["num_states"])


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of one line that start with the path."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None


def save(path: Path | str, problem: Problem) -> None:
    """Write a problem to a file, in the dense layout if its transition is dense.

    Args:
        path: File whose name ends in .npz or .json.
        problem: The problem.

    Raises:
        ValueError: If the name has another ending.

    Examples:
        >>> import pathlib, tempfile
        >>> import mico.tabular as mt
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rooms.npz"
        >>> save(path, mt.make("mirrored-rooms"))
        >>> mt.make(path)
        Problem(num_states=31, num_actions=4, discount=0.9, map 9x7)
    """
    check_kind("path", path, PathLike | str, "a path")
    check_kind("problem", problem, Problem, "a Problem")
    path = Path(path)
    with _named(path):
        suffix = _suffix(path)
    fields = problem_fields(problem)
    if suffix == ".npz":
        with path.open("wb") as file:  # a path would get a second ending where the first is not in lower case
            np.savez_compressed(file, **fields)
    else:
        path.write_text(json.dumps({key: value.tolist() for key, value in fields.items()}), encoding="utf-8")


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".json"):
        raise ValueError("the name of a problem's file must end in .npz or .json")
    return suffix


def _archive(path: Path, max_bytes: int, override: dict[str, Any]) -> dict[str, Any]:
    """The arrays, once the names and sizes of all of them are known to be in order."""
    headers = read_headers(path)
    _check_keys({**headers, **override})
    return read_arrays(path, headers, max_bytes=max_bytes) | override


def _object(path: Path, max_bytes: int, override: dict[str, Any]) -> dict[str, Any]:
    size = _JSON_FACTOR * path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"max_bytes must be at least {size} for JSON of this length, got {max_bytes}")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"), parse_int=_whole)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"must hold an object, not {type(fields).__name__}")
    return {key: value for key, value in fields.items() if value is not None} | override


def _whole(digits: str) -> int | float:
    """A JSON integer; one that NumPy's may be too short for is rounded, as every reward is."""
    number = int(digits) if len(digits) <= _INT64_DIGITS else float(digits)
    return number if -(2**63) <= number < 2**63 else float(digits)


def _check_keys(fields: Mapping[str, Any]) -> None:
    """The keys of one of the two layouts, all of them and no others."""
    keys = _DENSE if "transition" in fields else _SPARSE
    if not any(key in fields for key in ("transition", "state")):
        asked = f"{_listed(_DENSE)}, or {_listed(_SPARSE)}"
        raise ValueError(f"must have the keys {asked}; found {_listed(fields)} ({_MANUAL})")
    for key in keys:
        if key not in fields:
            raise ValueError(f"has no key {key!r}; found {_listed(fields)}, needs {_listed(keys)} ({_MANUAL})")
    for key in fields:
        if key not in (*keys, *_OPTIONAL):
            raise ValueError(
                f"has a key {_listed([key])!r}, which is none of {_listed((*keys, *_OPTIONAL))} ({_MANUAL})"
            )


def read_problem(fields: Mapping[str, Any]) -> Problem:
    """Make a problem of the fields of a file.

    Args:
        fields: Arrays, numbers and lists by key, as the two layouts have them.

    Returns:
        The problem.

    Raises:
        ValueError: If a key is missing, unknown, or its value is no part of an MDP.
    """
    _check_keys(fields)
    mdp = _dense(fields) if "transition" in fields else _sparse(fields)
    if "goals" in fields and "map" not in fields:
        raise ValueError("has the key 'goals' without the key 'map'")
    goals = tuple(_array(fields, "goals", "iu", 1).tolist()) if "goals" in fields else ()
    layout = Layout(_array(fields, "map", "iu", 2).astype(np.int64), goals) if "map" in fields else None
    policy = _array(fields, "policy", "iuf", 2) if "policy" in fields else None
    return Problem(mdp, layout, _names(fields), policy, _names(fields, "actions"))


def _listed(keys: Iterable[str]) -> str:
    """Keys for an error, which a file of another kind may have in any number."""
    names = [key if len(key) <= 40 else f"{key[:40]}…" for key in keys]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "") or "none"


def _dense(fields: Mapping[str, Any]) -> MDP:
    transition, reward = _array(fields, "transition", "iuf", 3), _array(fields, "reward", "iuf", 2, 3)
    return MDP(transition, reward, float(_scalar(fields, "discount", "iuf")))


def _sparse(fields: Mapping[str, Any]) -> MDP:
    outcomes = Outcomes(
        *(_array(fields, key, "iu", 1).astype(np.int64) for key in ("state", "action", "next_state")),
        *(_array(fields, key, "iuf", 1) for key in ("probability", "reward")),
    )
    num_states, num_actions = (_scalar(fields, key, "iu") for key in ("num_states", "num_actions"))
    for key, number in (("num_states", num_states), ("num_actions", num_actions)):
        if number < 1:
            raise ValueError(f"{key} must be at least 1, but is {number}")
    if num_states * num_actions > outcomes.state.size:
        asked = f"num_states · num_actions = {num_states} · {num_actions}"
        raise ValueError(f"lists {outcomes.state.size} outcomes, too few for {asked}")
    return MDP.from_outcomes(outcomes, num_states, num_actions, float(_scalar(fields, "discount", "iuf")))


def _names(fields: Mapping[str, Any], key: str = "names") -> tuple[str, ...] | None:
    if key not in fields:
        return None
    names = fields[key].tolist() if isinstance(fields[key], np.ndarray) else fields[key]
    if not isinstance(names, list):
        raise ValueError(f"{key} must hold strings, got {type(names).__name__}")
    return tuple(names)  # a Problem says which of them are no strings


def _array(fields: Mapping[str, Any], key: str, kinds: str, *ranks: int) -> np.ndarray:
    """An array whose dtype is of one of the kinds, and that has one of the numbers of axes."""
    try:
        array = np.asarray(fields[key])
    except ValueError:
        raise ValueError(f"{key} has rows of different lengths") from None
    if array.size and array.dtype.kind not in kinds:
        raise ValueError(f"{key} must hold {'numbers' if 'f' in kinds else 'integers'}, not {array.dtype}")
    if array.ndim not in ranks:
        raise ValueError(f"{key} must have {' or '.join(map(str, ranks))} axes, but has shape {list(array.shape)}")
    return array


def _scalar(fields: Mapping[str, Any], key: str, kinds: str) -> Any:
    return _array(fields, key, kinds, 0).item()


def problem_fields(problem: Problem) -> dict[str, Any]:
    """The arrays of a file, by key, in the dense layout if the transition is dense."""
    mdp, layout = problem.mdp, problem.layout
    if isinstance(mdp.transition, np.ndarray):
        fields: dict[str, Any] = {"transition": mdp.transition, "reward": _dense_reward(mdp.transition, mdp)}
    else:
        fields = mdp.outcomes()._asdict() | {"num_states": mdp.num_states, "num_actions": mdp.num_actions}
    fields["discount"] = mdp.discount
    optional = {
        "names": problem.names,
        "policy": problem.policy,
        "map": None if layout is None else layout.cells,
        "goals": None if layout is None else np.array(layout.goals, dtype=np.int64),
        "actions": problem.actions,
    }
    fields |= {key: value for key, value in optional.items() if value is not None}
    return {key: np.asarray(value) for key, value in fields.items()}


def _dense_reward(transition: np.ndarray, mdp: MDP) -> np.ndarray:
    """[S, A] where that says it all, otherwise [S, A, S]."""
    state, action, next_state, _, reward = mdp.outcomes()
    if np.array_equal(reward, mdp.reward[state, action]):
        return mdp.reward
    prices = np.zeros(transition.shape)
    prices[state, action, next_state] = reward
    return prices
