"""What makes a transition kernel, a reward, a policy and a discount valid; errors that say what and where."""

from collections.abc import Callable, Sequence
from numbers import Integral
from numbers import Real as RealNumber
from types import UnionType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, Real

Matrix = np.ndarray | sp.csr_array
States = int | np.integer | Sequence[Any] | Int[np.ndarray, "..."]  # a state, or an array of states
Distances = Float[np.ndarray, "S S"]


@runtime_checkable
class HasMatrix(Protocol):
    """A solved metric, or whatever else has distances as its `matrix`."""

    @property
    def matrix(self) -> np.ndarray: ...


DistancesLike = HasMatrix | Real[np.ndarray, "_ _"] | Sequence[Sequence[float]]
ValueLike = Real[np.ndarray, " _"] | Sequence[float]

_SUM_TOLERANCE = 1e-6  # rows nearer to 1 than this are taken as meant, and normalised


def numbers(name: str, values: Any) -> np.ndarray:
    """A fresh float64 array of what the caller gave; text, dates and masked entries are no numbers."""
    try:
        given = np.asarray(values)
        if np.ma.isMaskedArray(values) or given.dtype.kind not in "biufO":
            raise TypeError
        if given.dtype.kind == "O" and not all(isinstance(one, RealNumber) for one in given.ravel()):
            raise TypeError
        return np.array(given, dtype=float)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last from tensors that carry gradients
        raise ValueError(f"{name} must be an array of real numbers, got {described_array(values)}") from None


def described_array(values: Any) -> str:
    """A short description of what cannot be an array of numbers."""
    if np.ma.isMaskedArray(values):
        return "a masked array"
    if isinstance(values, np.ndarray):
        return f"{values.dtype} {list(values.shape)}"
    text = repr(values)
    return text if len(text) <= 60 else f"{type(values).__name__} {text[:50]}…"


def is_sparse_list(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) > 0 and all(sp.issparse(matrix) for matrix in values)


def sparse_list(name: str, matrices: Sequence[Any]) -> tuple[sp.csr_array, ...]:
    """A square CSR matrix an action, all of one size."""
    if any(matrix.dtype.kind == "c" for matrix in matrices):
        raise ValueError(f"{name} must hold real numbers")
    kernels = tuple(sp.csr_array(matrix, dtype=float) for matrix in matrices)
    size = kernels[0].shape[0]
    for action, kernel in enumerate(kernels):
        if kernel.shape != (size, size):
            raise ValueError(f"{name} of action {action} has shape {list(kernel.shape)}, not [{size}, {size}]")
    return kernels


def checked_discount(discount: float) -> float:
    if not isinstance(discount, RealNumber) or isinstance(discount, bool):
        raise ValueError(f"discount must be a number in [0, 1), not {discount!r}")
    if not 0.0 <= discount < 1.0:
        raise ValueError(f"discount must lie in [0, 1), but is {discount}")
    return float(discount)


def check_tolerance(tolerance: float) -> None:
    if not isinstance(tolerance, RealNumber) or isinstance(tolerance, bool) or not 0 < tolerance < np.inf:
        raise ValueError(f"tolerance must be positive and finite, but is {tolerance!r}")


def check_whole(name: str, number: Any, least: int, most: int | None = None) -> None:
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise ValueError(f"{name} must be a whole number, not {number!r}")
    if most is not None and not least <= int(number) <= most:
        raise ValueError(f"{name} must lie in {least}..{most}, but is {number}")
    if int(number) < least:
        raise ValueError(f"{name} must be at least {least}, but is {number}")


def checked_not_negative(name: str, number: Any) -> float:
    """The number, which may be an array without axes."""
    scalar = getattr(number, "ndim", None) == 0 and np.asarray(number).dtype.kind in "iuf"
    if not isinstance(number, RealNumber) and not scalar:
        raise ValueError(f"{name} must be a number, not {number!r}")
    found = float(number)
    if not 0 <= found < np.inf:
        raise ValueError(f"{name} must be finite and not negative, but is {number}")
    return found


def check_kind(name: str, value: Any, kind: type | UnionType, described: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {described}, not {type(value).__name__}")


def check_finite(name: str, values: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        spot = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name}[{', '.join(map(str, spot))}] = {values[spot]} is not finite")


def check_index(name: str, index: np.ndarray, bound: int) -> None:
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, not {index.dtype}")
    bad = np.flatnonzero((index < 0) | (index >= bound))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}] = {index[bad[0]]} is outside 0..{bound - 1}")


def checked_distances(d: Any, name: str = "d") -> Distances:
    """A fresh, finite, square and non-empty matrix of what the caller gave: an array, or a solved metric."""
    matrix = checked_matrix(name, getattr(d, "matrix", d), "[S, S]")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must have shape [S, S], but has {list(matrix.shape)}")
    return matrix


def checked_matrix(name: str, values: Any, shape: str) -> Float[np.ndarray, "m n"]:
    """A fresh, finite and non-empty matrix."""
    matrix = numbers(name, values)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have shape {shape}, but has {list(matrix.shape)}")
    if matrix.size == 0:
        raise ValueError(f"{name} is empty: distances need at least one state")
    check_finite(name, matrix)
    return matrix


def checked_value(name: str, values: Any, size: int) -> Float[np.ndarray, " S"]:
    """A fresh finite vector with a number for each state."""
    value = numbers(name, values)
    if value.shape != (size,):
        raise ValueError(f"{name} must have shape [{size}], got {list(value.shape)}")
    check_finite(name, value)
    return value


def checked_reward(reward: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = numbers("reward", reward)
    if values.shape != shape:
        raise ValueError(f"reward has shape {list(values.shape)}, but transition asks for {list(shape)}")
    check_finite("reward", values)
    values.setflags(write=False)
    return values


def check_span(reward: np.ndarray, discount: float) -> None:
    """A sum of discounted differences of rewards must be a number."""
    low, high = float(reward.min()), float(reward.max())
    if not np.isfinite((high / 2 - low / 2) / (1 - discount) * 4):
        raise ValueError(f"reward spans {low:g} to {high:g}, too far for sums of differences in float64")


def checked_policy(policy: Any, shape: tuple[int, int]) -> np.ndarray:
    """The uniform policy by name, or any [S, A] array whose rows are distributions."""
    if isinstance(policy, str):
        if policy != "uniform":
            raise ValueError(f"policy must be 'uniform' or an array [S, A], not {policy!r}")
        return np.full(shape, 1.0 / shape[1])
    rows = numbers("policy", policy)
    if rows.shape != shape:
        raise ValueError(f"policy has shape {list(rows.shape)}, but the MDP asks for {list(shape)}")
    return checked_rows("policy", rows, lambda row: f"state {row}", "action")


def checked_kernel(transition: Any) -> np.ndarray | tuple[sp.csr_array, ...]:
    """A dense kernel [S, A, S], or one sparse matrix an action."""
    kernel = sparse_list("transition", transition) if is_sparse_list(transition) else numbers("transition", transition)
    if isinstance(kernel, np.ndarray) and kernel.size and (kernel.ndim != 3 or kernel.shape[0] != kernel.shape[2]):
        raise ValueError(f"transition must have shape [S, A, S], but has {list(kernel.shape)}")
    if 0 in kernel[0].shape if isinstance(kernel, tuple) else kernel.size == 0:
        raise ValueError("transition is empty: an MDP needs at least one state and one action")
    if isinstance(kernel, tuple):
        return tuple(
            checked_rows("transition", matrix, lambda row, a=action: f"state {row}, action {a}")
            for action, matrix in enumerate(kernel)
        )
    states, actions, _ = kernel.shape
    name = lambda row: f"state {row // actions}, action {row % actions}"  # noqa: E731
    return checked_rows("transition", kernel.reshape(-1, states), name).reshape(kernel.shape)


def checked_rows(name: str, matrix: Any, where: Callable[[int], str], column: str = "state") -> Any:
    """Rows that are distributions, normalised; otherwise an error that says where."""
    if matrix.dtype.kind == "c":
        raise ValueError(f"{name} must hold real numbers")
    rows = sp.csr_array(matrix, dtype=float, copy=True) if sp.issparse(matrix) else matrix
    if sp.issparse(rows):
        rows.sum_duplicates()
    entries = rows.data if sp.issparse(rows) else rows.ravel()
    for bad, what in ((~np.isfinite(entries), "not finite"), (entries < 0, "negative")):
        if bad.any():
            spot = int(bad.argmax())
            if sp.issparse(rows):
                row, spot_column = int(np.searchsorted(rows.indptr, spot, side="right")) - 1, int(rows.indices[spot])
            else:
                row, spot_column = divmod(spot, rows.shape[1])
            raise ValueError(f"{name} of {where(row)}, at {column} {spot_column}, is {entries[spot]}: {what}")
    sums = np.asarray(rows.sum(axis=1)).ravel()
    off = np.flatnonzero(np.abs(sums - 1) > _SUM_TOLERANCE)
    if off.size:
        raise ValueError(f"{name} of {where(int(off[0]))} sums to {sums[off[0]]:.10g}, not to 1")
    if sp.issparse(rows):
        rows.data /= np.repeat(sums, np.diff(rows.indptr))
        rows.eliminate_zeros()
        rows.data.setflags(write=False)
        return rows
    rows /= sums[:, None]
    rows.setflags(write=False)
    return rows


def checked_states(name: str, states: Any, num_states: int) -> np.ndarray:
    """An integer array of states, from a state or any array of them."""
    index = np.asarray(states)
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold states as integers, not {index.dtype}")
    if index.size and (index.min() < 0 or index.max() >= num_states):
        raise ValueError(f"{name} holds {index.min()}..{index.max()}, but states are 0..{num_states - 1}")
    return index
