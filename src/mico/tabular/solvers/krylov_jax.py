"""The Krylov basis as JAX arrays in float64: a fixed block of memory, filled in place, so nothing is compiled twice."""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from mico._checks import install_hint
from mico.tabular.solvers.krylov import CANCELLED, scaled

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"backend='jax' needs JAX: {install_hint('deep')}", name="jax") from error

_COLUMNS = 64


class JaxBasis:
    def __init__(self, transition: Any, root: Float[np.ndarray, " S"], capacity: int):
        matrix = scaled(transition, root)
        self.num_states, self.capacity, self.size = root.size, capacity, 0
        self.terms = int(np.diff(matrix.indptr).max())
        with jax.enable_x64(True):
            rows = np.repeat(np.arange(root.size), np.diff(matrix.indptr))
            self._matrix = tuple(jnp.asarray(array) for array in (matrix.indices, rows, matrix.data))
            self._root = jnp.asarray(root)
            self._vectors = jnp.zeros((capacity, root.size))

    def restart(self, feature: Float[np.ndarray, " S"]) -> float:
        with jax.enable_x64(True):
            vector = self._root * jnp.asarray(feature)
            norm = float(jnp.linalg.norm(vector))
            self._vectors, self.size = jnp.zeros_like(self._vectors), 0
            self.append(vector, norm)
        return norm

    def image(self, index: int) -> Any:
        with jax.enable_x64(True):
            return _image(*self._matrix, self._vectors, index, states=self.num_states)

    def split(self, vector: Any) -> tuple[np.ndarray, Any, float]:
        with jax.enable_x64(True):
            inside, left, norm = _split(self._vectors, vector)
            return np.asarray(inside)[: self.size], left, float(norm)

    def append(self, vector: Any, norm: float) -> None:
        with jax.enable_x64(True):
            self._vectors = _store(self._vectors, self.size, vector / norm)
        self.size += 1

    def combine(self, coefficients: Float[np.ndarray, "k r"]) -> Float[np.ndarray, "S r"]:
        with jax.enable_x64(True):
            combined = _combined(self._vectors, self._root, self._placed(coefficients))
            return np.array(combined[:, combined.shape[1] - coefficients.shape[1] :])

    def largest_sums(self, coefficients: Float[np.ndarray, "k r"], first: int = 0) -> Float[np.ndarray, " r"]:
        with jax.enable_x64(True):
            sums = np.asarray(_largest_sums(self._vectors, self._root, self._placed(coefficients, first)))
        return sums[sums.size - coefficients.shape[1] :]

    def largest_magnitude(self, coefficients: Float[np.ndarray, "k r"]) -> float:
        with jax.enable_x64(True):
            return float(_largest_magnitude(self._vectors, self._root, self._placed(coefficients)))

    def _placed(self, coefficients: Float[np.ndarray, "k r"], first: int = 0) -> Any:
        """The coefficients among zeros for all other vectors, with columns of zeros in front: few shapes to compile."""
        count, width = coefficients.shape
        room = width if width == 1 else -(-width // _COLUMNS) * _COLUMNS
        placed = np.zeros((self.capacity, room))
        placed[first : first + count, room - width :] = coefficients
        return jnp.asarray(placed)


@partial(jax.jit, static_argnames="states")
def _image(columns: Any, rows: Any, entries: Any, vectors: Any, index: Any, states: int) -> Any:
    picked = entries * vectors[index][columns]
    return jax.ops.segment_sum(picked, rows, num_segments=states, indices_are_sorted=True)


@jax.jit
def _split(vectors: Any, vector: Any) -> tuple[Any, Any, Any]:
    inside = vectors @ vector
    left = vector - inside @ vectors

    def again(inside: Any, left: Any) -> tuple[Any, Any]:
        more = vectors @ left
        return inside + more, left - more @ vectors

    cancelled = jnp.linalg.norm(left) < CANCELLED * jnp.linalg.norm(vector)
    inside, left = jax.lax.cond(cancelled, again, lambda *same: same, inside, left)
    return inside, left, jnp.linalg.norm(left)


@partial(jax.jit, donate_argnums=0)
def _store(vectors: Any, index: Any, vector: Any) -> Any:
    return vectors.at[index].set(vector)


@jax.jit
def _combined(vectors: Any, root: Any, coefficients: Any) -> Any:
    return (vectors.T @ coefficients) / root[:, None]


@jax.jit
def _largest_sums(vectors: Any, root: Any, coefficients: Any) -> Any:
    return jnp.cumsum(_combined(vectors, root, coefficients) ** 2, axis=1).max(axis=0)


@jax.jit
def _largest_magnitude(vectors: Any, root: Any, coefficients: Any) -> Any:
    return jnp.sqrt((_combined(jnp.abs(vectors), root, coefficients) ** 2).sum(axis=1).max())
