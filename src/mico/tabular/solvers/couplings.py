"""A coupling for each of many pairs of distributions at once, and the bounds that it gives for any costs."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

_INTERPRETED = 2_000  # nodes up to which Python is as quick as reading the machine code
_ALONE = 20_000  # nodes that one thread looks at before a second one has begun
_PARTS = 8  # for each thread, so that none waits long for another


class Couplings:
    r"""Couplings of $P_i$ and $P_j$ for K pairs of rows (i, j), each with its basis (see `_simplex`).

    What two distributions share stays in place. That is optimal for a pseudometric; the fixed point is one, so the
    operator restricted to such couplings has the same fixed point, and contracts by $\gamma$ times the mass moved.
    """

    # `moved` is that mass [K]. `defect` bounds how much mass of any pair is not where the rows have it: what was left
    # out or added where rows differ or sum to 1 up to rounding only, and rounding of what the couplings move.

    def __init__(
        self,
        rows: sp.csr_array,
        first: Int[np.ndarray, " K"],
        second: Int[np.ndarray, " K"],
        order: Int[np.ndarray, " S"],
    ):
        """Starts with the couplings that match the states in the given order, lowest with lowest."""
        from mico.tabular._machine_code import interpreted
        from mico.tabular.solvers import _simplex  # imports Numba

        self.size, number = rows.shape[1], first.size
        ordered = sp.csr_array(rows[:, order])
        ordered.sort_indices()
        entries = np.diff(ordered.indptr)
        few = entries[first].sum() + entries[second].sum() <= _INTERPRETED
        self._simplex = interpreted(_simplex) if few else _simplex
        matrix = *(array.astype(np.int32) for array in (ordered.indptr, ordered.indices)), ordered.data
        pairs = first.astype(np.int32), second.astype(np.int32)
        sources, nodes = np.empty((2, number), dtype=np.int32)
        _in_parts(number, number, lambda part, stop: _simplex.count(matrix, pairs, sources, nodes, part, stop))
        start = np.concatenate([[0], np.cumsum(nodes, dtype=np.int64)])
        kind = np.int32 if max(start[-1], self.size * (self.size - 1) // 2) < 2**31 else np.int64
        integers = [np.empty(start[-1], dtype=dtype) for dtype in (np.int32, np.int32, kind)]
        mass, weight = np.empty(start[-1]), np.empty(start[-1])
        state, parent, column = integers
        self._trees = start.astype(kind), sources, state, mass, parent, weight, column
        self._widest = int(nodes.max(initial=0)), int(np.max(sources * (nodes - sources).astype(np.int64), initial=0))
        self.moved, places = np.empty(number), order.astype(np.int32)
        planted = _in_parts(
            number,
            start[-1],
            lambda part, stop: _simplex.plant(matrix, pairs, self._trees, places, self.moved, part, stop),
        )
        self._lost, self.defect = max(planted, default=0.0), np.inf

    def matrix(self) -> sp.csr_array:
        """The couplings as rows over the pairs of states x < y, in the order of `np.triu_indices`."""
        start, _, _, _, _, weight, column = self._trees
        return sp.csr_array((weight, column, start), shape=(self.moved.size, self.size * (self.size - 1) // 2))

    def bound(self, d: Float[np.ndarray, "S S"]) -> Float[np.ndarray, " K"]:
        """Lower bounds on all Kantorovich distances for the costs d, which no rounding takes away."""
        low = np.zeros(self.moved.size)

        def work(part: int, stop: int) -> float:
            return self._simplex.bound(d, self._trees, low, self._scratch(), part, stop)

        self.defect = self._lost + max(_in_parts(low.size, self._trees[2].size, work), default=0.0)
        return low

    def improve(self, d: Float[np.ndarray, "S S"], which: Int[np.ndarray, " W"]) -> Float[np.ndarray, " W"]:
        """Replace the chosen couplings by optimal ones for the costs d, and bound their distances from below."""
        low = np.zeros(which.size)

        def work(part: int, stop: int) -> float:
            return self._simplex.improve(d, self._trees, which, low, self._scratch(), part, stop)

        nodes = int(np.diff(self._trees[0])[which].sum())
        found = max(_in_parts(low.size, 4 * nodes, work), default=0.0)
        self.defect = max(self.defect, self._lost + found)
        return low

    def _scratch(self) -> tuple[np.ndarray, ...]:
        nodes, arcs = self._widest
        return *np.empty((2, nodes)), *np.empty((5, nodes), dtype=np.int64), np.empty(arcs)


def _in_parts(number: int, load: int, work: Callable[[int, int], float | None]) -> list:
    """Do the work on 0..number in consecutive parts, on all cores where the load is worth it; what the parts return."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if number == 0:
        return []
    if threads == 1 or load < _ALONE:
        return [work(0, number)]
    stops = np.linspace(0, number, 1 + min(number, _PARTS * threads)).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, stops[:-1], stops[1:]))
