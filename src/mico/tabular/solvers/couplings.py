"""A coupling for each of many pairs of distributions at once, and the bounds that it gives for any costs."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from mico.tabular.solvers.transport import optimal_plan

_SAME = 1e-15  # probabilities nearer than this are the same number, rounded differently
_TIGHT = 1e-12  # a cost this near to its potentials, against the largest cost, is met by them
_CHUNK = 4_000_000  # entries of the padded arrays that are handled at a time


class _Side(NamedTuple):
    """Where mass leaves or arrives, padded with masses of zero."""

    states: Int[np.ndarray, "K w"]
    mass: Float[np.ndarray, "K w"]
    count: Int[np.ndarray, " K"]


class _Moves(NamedTuple):
    """What the couplings move: of `pair`, `weight` from its source number `start` to its target number `end`.

    A weight of zero marks a move that would cost nothing to make: the bounds need it where a coupling is degenerate.
    """

    pair: Int[np.ndarray, " M"]
    start: Int[np.ndarray, " M"]
    end: Int[np.ndarray, " M"]
    weight: Float[np.ndarray, " M"]


class Couplings:
    r"""Couplings of $P_i$ and $P_j$ for K pairs of rows (i, j).

    What two distributions share stays in place. That is optimal for a pseudometric; the fixed point is one, so the
    operator restricted to such couplings has the same fixed point, and contracts by $\gamma$ times the mass moved.
    """

    def __init__(
        self,
        rows: sp.csr_array,
        first: Int[np.ndarray, " K"],
        second: Int[np.ndarray, " K"],
        order: Int[np.ndarray, " S"],
    ):
        """Starts with the couplings that match the states in the given order, lowest with lowest."""
        self.size = rows.shape[1]
        self.source, self.target = _differences(rows, first, second, order)
        self.moved = self.source.mass.sum(axis=1)
        self.moves = _monotone(self.source, self.target)
        self.spare = np.zeros_like(self.target.mass)  # potentials for targets that no tree of moves reaches

    def matrix(self) -> sp.csr_array:
        """The couplings as rows over the pairs of states x < y, in the order of `np.triu_indices`."""
        here = self.source.states[self.moves.pair, self.moves.start]
        there = self.target.states[self.moves.pair, self.moves.end]
        x, y = np.minimum(here, there), np.maximum(here, there)
        column = x * (2 * self.size - x - 1) // 2 + y - x - 1
        shape = (self.moved.size, self.size * (self.size - 1) // 2)
        return sp.csr_array((self.moves.weight, (self.moves.pair, column)), shape=shape)

    def improve(self, d: Float[np.ndarray, "S S"], which: Int[np.ndarray, " W"]) -> None:
        """Replaces the chosen couplings by optimal ones for the costs d."""
        found, size = [], d.max() or 1.0
        unit = d / size
        for k in which[self.source.count[which] > 0]:
            i, mass = self.source.states[k, : self.source.count[k]], self.source.mass[k, : self.source.count[k]]
            j, other = self.target.states[k, : self.target.count[k]], self.target.mass[k, : self.target.count[k]]
            cost = unit[i[:, None], j]
            plan = optimal_plan(mass, other, cost)
            start, end = plan.coupling.nonzero()
            if start.size < i.size + j.size - 1:
                idle = (cost - plan.f[:, None]) - plan.g <= _TIGHT
                start, end = (idle | (plan.coupling > 0)).nonzero()
            found.append(_Moves(np.full(start.size, k), start, end, plan.coupling[start, end]))
            self.spare[k, : j.size] = size * plan.g
        replaced = np.zeros(self.moved.size, dtype=bool)
        replaced[which] = True
        found.append(_Moves(*(column[~replaced[self.moves.pair]] for column in self.moves)))
        self.moves = _Moves(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def below(self, d: Float[np.ndarray, "S S"], enough: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Lower bounds on all Kantorovich distances for the costs d.

        A degenerate coupling may imply a poor one; where it is not `enough`, the last potentials solved for help.
        """
        everyone = np.flatnonzero(self.source.count)
        bound = np.zeros(self.moved.size)
        bound[everyone] = self._dual(d, self._potentials(d), everyone)
        moves = np.bincount(self.moves.pair[self.moves.weight > 0], minlength=bound.size)
        poor = np.flatnonzero((bound < enough) & (moves < self.source.count + self.target.count - 1))
        bound[poor] = np.maximum(bound[poor], self._dual(d, self.spare, poor))
        return bound

    def _dual(
        self, d: Float[np.ndarray, "S S"], potential: Float[np.ndarray, "K w"], which: Int[np.ndarray, " W"]
    ) -> Float[np.ndarray, " W"]:
        r"""$\sum_j \nu_j g_j + \sum_i \mu_i \min_j (d_{ij} - g_j) \le W_d$, whatever the potential g."""
        bound = np.zeros(which.size)
        chunk = max(1, _CHUNK // (self.source.mass.shape[1] * self.target.mass.shape[1]))
        for begin in range(0, which.size, chunk):
            part, rows = which[begin : begin + chunk], slice(begin, begin + chunk)
            cost = d[self.source.states[part][:, :, None], self.target.states[part][:, None, :]]
            inside = np.arange(cost.shape[2]) < self.target.count[part, None]
            cost -= np.where(inside, potential[part], -np.inf)[:, None, :]
            bound[rows] = (self.target.mass[part] * potential[part]).sum(axis=1)
            bound[rows] += (self.source.mass[part] * cost.min(axis=2)).sum(axis=1)
        return bound

    def _potentials(self, d: Float[np.ndarray, "S S"]) -> Float[np.ndarray, "K w"]:
        r"""The g with $f_i + g_j = d_{ij}$ wherever mass moves: a coupling that is still optimal proves itself by it.

        The moves of a coupling form a tree, or several, joined by idle moves. With all pairs' trees hung on one root, a
        potential is the alternating sum of costs on the way there; the sums are found by pointer doubling.
        """
        (count, left), right = self.source.mass.shape, self.target.mass.shape[1]
        width, moves = left + right, self.moves
        roots = 1 + width * np.arange(count)
        tails = np.concatenate([1 + width * moves.pair + moves.start, roots])
        heads = np.concatenate([1 + width * moves.pair + left + moves.end, np.zeros_like(roots)])
        idle = np.concatenate([moves.weight == 0, np.zeros(count, dtype=bool)])
        graph = sp.csr_array((1.0 + idle, (tails, heads)), shape=(1 + count * width,) * 2)
        forest = minimum_spanning_tree(graph) if idle.any() else graph  # idle moves only where mass moves by no other
        nodes, parent = breadth_first_order(forest, 0, directed=False)
        nodes, parent[0] = nodes[1:], 0
        states = np.zeros(parent.size, dtype=np.int64)
        states[1:] = np.concatenate([self.source.states, self.target.states], axis=1).ravel()
        cost = np.where(parent[nodes] == 0, 0.0, d[states[nodes], states[parent[nodes]]])
        way = np.full(parent.size, np.nan)
        way[0], way[nodes] = 0.0, np.where((nodes - 1) % width < left, cost, -cost)
        while parent[nodes].any():
            way[nodes] += way[parent[nodes]]
            parent[nodes] = parent[parent[nodes]]
        way = way[1:].reshape(count, width)[:, left:]
        return np.where(np.isnan(way), self.spare, -way)


def _differences(
    rows: sp.csr_array, first: Int[np.ndarray, " K"], second: Int[np.ndarray, " K"], order: Int[np.ndarray, " S"]
) -> tuple[_Side, _Side]:
    r"""$(\mu - \nu)^+$ and $(\nu - \mu)^+$ of each pair, states in the given order."""
    sides: tuple[list[_Side], list[_Side]] = [], []
    chunk = max(1, _CHUNK // rows.shape[1])
    for begin in range(0, first.size, chunk):
        part = slice(begin, begin + chunk)
        gap = (rows[first[part]] - rows[second[part]]).toarray()[:, order]
        sides[0].append(_packed(gap, order))
        sides[1].append(_packed(-gap, order))
    source, target = _joined(sides[0]), _joined(sides[1])
    same = (source.count == 0) | (target.count == 0)  # nothing to move, or only what rounding left on one side
    source, target = _emptied(source, same), _emptied(target, same)
    total = target.mass.sum(axis=1, keepdims=True)
    balance = np.divide(source.mass.sum(axis=1, keepdims=True), total, out=np.ones_like(total), where=total > 0)
    return source, target._replace(mass=target.mass * balance)


def _emptied(side: _Side, which: Bool[np.ndarray, " K"]) -> _Side:
    return side._replace(mass=np.where(which[:, None], 0.0, side.mass), count=np.where(which, 0, side.count))


def _packed(gap: Float[np.ndarray, "K S"], order: Int[np.ndarray, " S"]) -> _Side:
    keep = gap > _SAME
    count = keep.sum(axis=1)
    place = np.argsort(~keep, axis=1, kind="stable")[:, : max(1, int(count.max()))]
    inside = np.arange(place.shape[1]) < count[:, None]
    return _Side(order[place], np.where(inside, np.take_along_axis(gap, place, axis=1), 0.0), count)


def _joined(sides: list[_Side]) -> _Side:
    width = max(side.mass.shape[1] for side in sides)
    states, mass = (
        np.concatenate([np.pad(side[field], ((0, 0), (0, width - side.mass.shape[1]))) for side in sides])
        for field in (0, 1)
    )
    return _Side(states, mass, np.concatenate([side.count for side in sides]))


def _monotone(source: _Side, target: _Side) -> _Moves:
    """The couplings that fill targets from sources in their order: cut the unit of mass where either side cuts it."""
    left = source.mass.shape[1]
    cuts = np.concatenate([source.mass.cumsum(axis=1), target.mass.cumsum(axis=1)], axis=1)
    by_place = np.argsort(cuts, axis=1, kind="stable")
    weight = np.diff(np.take_along_axis(cuts, by_place, axis=1), axis=1, prepend=0.0)
    of_source = by_place < left
    before = np.cumsum(of_source, axis=1) - of_source, np.cumsum(~of_source, axis=1) - ~of_source
    pair, piece = np.nonzero(weight > _SAME)
    start = np.minimum(before[0][pair, piece], source.count[pair] - 1)
    end = np.minimum(before[1][pair, piece], target.count[pair] - 1)
    return _Moves(pair, start, end, weight[pair, piece])
