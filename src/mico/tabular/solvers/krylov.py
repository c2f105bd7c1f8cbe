"""Orthonormal bases of Krylov spaces, grown vector by vector: in NumPy, or in JAX for a GPU."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

Backend = Literal["numpy", "jax"]
_CHUNK = 1 << 15  # states handled at a time where a row each for all of them would take too much memory
CANCELLED = 0.1  # where less than this is left of a vector, it is made orthogonal once more


class Basis(Protocol):
    """Orthonormal functions on a chain's states, stored times `root`; `matrix` is the chain's in that scale."""

    num_states: int
    capacity: int
    size: int
    terms: int  # the most entries in a row of the matrix

    def restart(self, feature: Float[np.ndarray, " S"]) -> float:
        """Makes the feature, scaled, the only vector, and returns its norm."""
        ...

    def image(self, index: int) -> Any:
        """The matrix times vector number `index`."""
        ...

    def split(self, vector: Any) -> tuple[Float[np.ndarray, " m"], Any, float]:
        """A vector's coefficients in the basis, what is left of it, and the norm of that."""
        ...

    def append(self, vector: Any, norm: float) -> None: ...

    def combine(self, coefficients: Float[np.ndarray, "k r"]) -> Float[np.ndarray, "S r"]:
        """Combinations of the first k vectors, in the chain's own scale."""
        ...

    def largest_sums(self, coefficients: Float[np.ndarray, "k r"], first: int = 0) -> Float[np.ndarray, " r"]:
        """Of combinations of k vectors from number `first` on: the largest, over states, running sums of squares."""
        ...

    def largest_magnitude(self, coefficients: Float[np.ndarray, "k r"]) -> float:
        """The longest row of combinations, with coefficients that are not negative, of the vectors' absolute values."""
        ...


class NumpyBasis:
    def __init__(self, transition: Any, root: Float[np.ndarray, " S"], capacity: int):
        self._matrix = scaled(transition, root)
        self._root, self.num_states, self.capacity, self.size = root, root.size, capacity, 0
        self.terms = int(np.diff(self._matrix.indptr).max())
        self._vectors = np.empty((capacity, root.size))  # memory is taken only as vectors come

    def restart(self, feature: np.ndarray) -> float:
        vector = self._root * feature
        norm = float(np.linalg.norm(vector))
        self.size = 0
        self.append(vector, norm)
        return norm

    def image(self, index: int) -> np.ndarray:
        return self._matrix @ self._vectors[index]

    def split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        basis, before = self._vectors[: self.size], np.linalg.norm(vector)
        inside = basis @ vector
        left = vector - inside @ basis
        if np.linalg.norm(left) < CANCELLED * before:
            again = basis @ left
            inside, left = inside + again, left - again @ basis
        return inside, left, float(np.linalg.norm(left))

    def append(self, vector: np.ndarray, norm: float) -> None:
        self._vectors[self.size] = vector / norm
        self.size += 1

    def combine(self, coefficients: np.ndarray) -> np.ndarray:
        combined = self._vectors[: coefficients.shape[0]].T @ coefficients
        combined /= self._root[:, None]
        return combined

    def largest_sums(self, coefficients: np.ndarray, first: int = 0) -> np.ndarray:
        largest = np.zeros(coefficients.shape[1])
        for part, vectors in self._chunks(first, coefficients.shape[0]):
            rows = vectors.T @ coefficients / self._root[part, None]
            largest = np.maximum(largest, np.cumsum(rows**2, axis=1).max(axis=0))
        return largest

    def largest_magnitude(self, coefficients: np.ndarray) -> float:
        largest = 0.0
        for part, vectors in self._chunks(0, coefficients.shape[0]):
            rows = np.abs(vectors).T @ coefficients / self._root[part, None]
            largest = max(largest, float(np.einsum("sr,sr->s", rows, rows).max()))
        return float(np.sqrt(largest))

    def _chunks(self, first: int, count: int) -> Iterator[tuple[slice, np.ndarray]]:
        for begin in range(0, self.num_states, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            yield part, self._vectors[first : first + count, part]


def scaled(transition: Any, root: Float[np.ndarray, " S"]) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(root) @ transition @ sp.diags_array(1 / root))


def _jax_basis(transition: Any, root: Float[np.ndarray, " S"], capacity: int) -> Basis:
    from mico.tabular.solvers.krylov_jax import JaxBasis

    return JaxBasis(transition, root, capacity)


BASES: dict[str, Callable[[Any, np.ndarray, int], Basis]] = {"numpy": NumpyBasis, "jax": _jax_basis}
