"""Solutions in files: the distances or their factors, what they are of, and the model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mico.tabular._archives import read_arrays, read_headers
from mico.tabular._validation import check_kind, checked_matrix
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.metrics.factored import MICoFactors
from mico.tabular.outcomes import RewardLaw
from mico.tabular.problems.files import problem_fields, read_problem
from mico.tabular.problems.problem import Model, Problem

if TYPE_CHECKING:
    from mico.tabular.metrics.solution import Solution

_FACTORS = ("psi", "value")
_NUMBERS = ("error", "tolerance", "iterations")
_WORDS = ("metric", "reward")
_POLICIES = ("policy", "other_policy")
_LONGEST_WORD = 200
_MOST_BYTES = 2**32  # which hold the distances of 20,000 states


def write_fields(fields: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Write the arrays of a solution to an .npz file."""
    check_kind("path", path, PathLike | str, "a path")
    if Path(path).suffix.lower() != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}")
    with Path(path).open("wb") as file:
        np.savez_compressed(file, **fields)


def solution_fields(solution: Solution) -> dict[str, Any]:
    """The arrays of a file, by name; those of a model begin with the name of the model."""
    fields: dict[str, Any] = {name: getattr(solution, name) for name in (*_WORDS, *_NUMBERS, *_POLICIES)}
    if solution.method == "dense":
        fields["matrix"] = solution.matrix
    else:
        fields |= {name: getattr(solution.factors, name) for name in _FACTORS}
    for name in ("model", "other"):
        model = getattr(solution, name)
        if model is not None:
            fields |= {f"{name}.{key}": value for key, value in _model_fields(model).items()}
    return {key: np.asarray(value) for key, value in fields.items() if value is not None}


def read_fields(path: str | PathLike[str]) -> dict[str, Any]:
    """Read the arguments of a `Solution` from a file."""
    check_kind("path", path, PathLike | str, "a path")
    try:
        names = [name for name in read_headers(path) if _is_ours(name)]
        return _arguments(read_arrays(path, names, max_bytes=_MOST_BYTES))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None


def _is_ours(name: str) -> bool:
    known = (*_WORDS, *_NUMBERS, *_POLICIES, *_FACTORS, "matrix")
    return name in known or name.startswith(("model.", "other."))


def _arguments(fields: Mapping[str, np.ndarray]) -> dict[str, Any]:
    wanted = (*_WORDS, *_NUMBERS, "model.kind", *(_FACTORS if "psi" in fields else ("matrix",)))
    missing = [name for name in wanted if name not in fields]
    if missing:
        raise ValueError(f"holds no solution of a metric: it has no {', '.join(missing)}")
    words = {name: _word(name, fields[name]) for name in _WORDS}
    numbers = {name: _number(name, fields[name]) for name in _NUMBERS}
    if not 0 <= numbers["error"] < np.inf:
        raise ValueError(f"error must be finite and not negative, got {numbers['error']}")
    models = {name: _model(fields, name) for name in ("model", "other")}
    model, other = models["model"], models["other"]
    if model is None:
        raise ValueError("holds no model")
    shape = [model.num_states, (other or model).num_states]
    if "psi" in fields:
        psi, value = (checked_matrix("psi", fields["psi"], "[S, r]"), np.array(fields["value"], dtype=float))
        if [len(psi), *value.shape] != [shape[0], shape[0]]:
            raise ValueError(f"psi and value must be of {shape[0]} states, got {len(psi)} and {list(value.shape)}")
        distances: Any = MICoFactors(psi, value, numbers["error"], int(numbers["iterations"]))
    else:
        distances = checked_matrix("matrix", fields["matrix"], "[S, T]")
        if list(distances.shape) != shape:
            raise ValueError(f"matrix must have shape {shape}, got {list(distances.shape)}")
    policies = {name: fields.get(name) for name in _POLICIES}
    return {**words, **numbers, **models, **policies, "distances": distances}


def _model_fields(model: Model) -> dict[str, Any]:
    if isinstance(model, Problem):
        return {"kind": "problem", **problem_fields(model)}
    if isinstance(model, MDP):
        return {"kind": "mdp", **problem_fields(Problem(model))}
    fields: dict[str, Any] = {"kind": "chain", "reward": model.reward, "discount": model.discount}
    fields |= _kernel_fields("transition", model.transition)
    if model.law is not None:
        fields |= {"levels": model.law.levels, **_kernel_fields("weights", model.law.weights)}
    return fields


def _kernel_fields(name: str, matrix: Any) -> dict[str, Any]:
    if not sp.issparse(matrix):
        return {name: matrix}
    entries = sp.coo_array(matrix)
    return {f"{name}.row": entries.row, f"{name}.column": entries.col, f"{name}.data": entries.data}


def _model(fields: Mapping[str, np.ndarray], name: str) -> Model | None:
    own = {key.removeprefix(f"{name}."): value for key, value in fields.items() if key.startswith(f"{name}.")}
    if not own:
        return None
    kind = _word(f"{name}.kind", own.pop("kind", np.asarray("")))
    if kind == "chain":
        return _chain(own)
    if kind not in ("problem", "mdp"):
        raise ValueError(f"{name}.kind must be 'problem', 'mdp' or 'chain', got {kind!r}")
    problem = read_problem(own)
    return problem if kind == "problem" else problem.mdp


def _chain(own: Mapping[str, np.ndarray]) -> Chain:
    if "reward" not in own or "discount" not in own:
        raise ValueError("model must have a reward and a discount")
    size = own["reward"].size
    transition = _kernel(own, "transition", (size, size))
    law = None
    if "levels" in own:
        law = RewardLaw(own["levels"], sp.csr_array(_kernel(own, "weights", (size, own["levels"].size))))
    return Chain(transition, own["reward"], float(_number("model.discount", own["discount"])), law=law)


def _kernel(own: Mapping[str, np.ndarray], name: str, shape: tuple[int, int]) -> Any:
    if name in own:
        return own[name]
    parts = [own.get(f"{name}.{part}") for part in ("data", "row", "column")]
    if any(part is None for part in parts):
        raise ValueError(f"model must have {name}")
    data, row, column = parts
    return sp.csr_array((data, (row, column)), shape=shape)


def _word(name: str, value: np.ndarray) -> str:
    if value.shape != () or value.dtype.kind != "U" or len(value.item()) > _LONGEST_WORD:
        raise ValueError(f"{name} must be a word")
    return value.item()


def _number(name: str, value: np.ndarray) -> Any:
    if value.shape != () or value.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number")
    return value.item()
