r"""Galerkin solutions of $M = zz^\top + \gamma P M P^\top$ and $V = z + \gamma P V$ in the Krylov space of (P, z).

With weights w that satisfy $\gamma P^\top w < w$, $\|\sqrt\gamma P f\|_w < \|f\|_w$ (Jensen): in the inner product of w
the projected equation has a positive semi-definite solution on any chain, hubs and all. Basis vectors are stored times
$\sqrt w$, which makes that inner product the plain one.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from mico.tabular.solvers.krylov import Basis
from mico.tabular.solvers.progress import tell

_DROP = 1e-13  # a new direction shorter than this, relative to what it came from, is rounding
_EPS = float(np.finfo(float).eps)
_NEAREST = 8 * _EPS  # of a discount to 1, or rounding hides whether weights will do


class Projected(NamedTuple):
    r"""$\Psi$ with $\Psi\Psi^\top \approx M$, the most that an entry of that is off; V; and how often P was applied."""

    factors: Float[np.ndarray, "S r"]
    error: float
    value: Float[np.ndarray, " S"]
    products: int


def project(basis: Basis, discount: float, goal: float, feature: Float[np.ndarray, " S"], weight: float) -> Projected:
    """Grows the space of one feature until M and `weight` times V are within `goal`, or it can grow no more."""
    space = _Space(basis, feature)
    while space.grow() and (error := space.residual(discount, weight) / (1 - discount)) > goal:
        tell(error)
    sizes, axes = np.linalg.eigh(space.solved(discount))
    axes = axes * np.sqrt(np.maximum(sizes, 0.0))
    losses = basis.largest_sums(axes)
    cut = min(int(np.searchsorted(losses, goal / 20, side="right")), space.done - 1)
    return Projected(
        basis.combine(axes[:, cut:]),
        space.certificate(discount, axes, float(losses[-1])) + float(losses[cut - 1] if cut else 0.0),
        basis.combine(space.value_coefficients(discount)[:, None])[:, 0],
        space.done,
    )


class _Space:
    r"""Arnoldi's relation $P Q_i = Q_i H + h\, q_{i+1} e_i^\top$ for the first i basis vectors, and $z = \|z\| q_1$."""

    def __init__(self, basis: Basis, feature: Float[np.ndarray, " S"]):
        self.basis, self.done, self.dropped = basis, 0, 0.0
        self.norm = basis.restart(feature)
        self.matrix = np.zeros((basis.capacity, basis.capacity))

    def grow(self) -> bool:
        """Takes the images of some more vectors; False once the space is invariant, or full."""
        for _ in range(max(8, self.done // 8)):
            inside, left, norm = self.basis.split(self.basis.image(self.done))
            outside = norm > _DROP * np.hypot(norm, np.linalg.norm(inside)) and self.done + 1 < self.basis.num_states
            if outside and self.basis.size == self.basis.capacity:
                return False
            self.matrix[: inside.size, self.done] = inside
            self.done += 1
            if not outside:
                self.dropped = norm
                return False
            self.matrix[self.done, self.done - 1] = norm
            self.basis.append(left, norm)
        return True

    @property
    def inner(self) -> Float[np.ndarray, "i i"]:
        return self.matrix[: self.done, : self.done]

    @property
    def next(self) -> float:
        """h, what leads out of the space; zero once it is invariant."""
        return float(self.matrix[self.done, self.done - 1]) if self.done < self.basis.size else 0.0

    def solved(self, discount: float) -> Float[np.ndarray, "i i"]:
        r"""$X = \|z\|^2 e_1 e_1^\top + \gamma H X H^\top$, by doubling."""
        power, solved = np.sqrt(discount) * self.inner, np.zeros((self.done, self.done))
        solved[0, 0] = self.norm**2
        while True:
            more = power @ solved @ power.T
            solved = solved + more
            if not np.abs(more).max() > _EPS**2 * np.abs(solved).max():
                return (solved + solved.T) / 2
            power = power @ power

    def value_coefficients(self, discount: float) -> Float[np.ndarray, " i"]:
        return np.linalg.solve(np.eye(self.done) - discount * self.inner, self.norm * np.eye(self.done)[0])

    def residual(self, discount: float, weight: float) -> float:
        """What is left of either equation outside the space, of that for V times the weight."""
        value = weight * discount * abs(self.next * self.value_coefficients(discount)[-1])
        return max(self._leaving(discount, self.solved(discount)), value * self._reach())

    def _reach(self) -> float:
        """The largest entry of the first vector outside the space."""
        return float(np.sqrt(self.basis.largest_sums(np.ones((1, 1)), self.done)[0])) if self.next else 0.0

    def _leaving(self, discount: float, solved: Float[np.ndarray, "i i"]) -> float:
        across = discount * self.next * (self.inner @ solved[:, -1:])
        corner = discount * self.next**2 * solved[-1, -1]
        reach = self._reach()
        return 2 * float(np.sqrt(self.basis.largest_sums(across)[0])) * reach + corner * reach**2

    def certificate(self, discount: float, axes: Float[np.ndarray, "i i"], square: float) -> float:
        r"""A bound on the entries of $Q L L^\top Q^\top - M$ for axes L: the equation's residual, over $1 - \gamma$.

        One part of it leaves the space; one stays inside, left over by the small equation; one comes from Arnoldi's
        relation, which holds up to rounding: $\epsilon$ for each term that is added. `square` bounds the diagonal of M.
        """
        inside = discount * (self.inner @ axes) @ (self.inner @ axes).T - axes @ axes.T
        inside[0, 0] += self.norm**2
        sizes, directions = np.linalg.eigh((inside + inside.T) / 2)
        unit = (self.basis.size + self.basis.terms + 8) * _EPS
        ahead = self.basis.largest_magnitude(np.abs(self.matrix[: self.basis.size, : self.done]) @ np.abs(axes))
        here = self.basis.largest_magnitude(np.abs(axes))
        slip = unit * (ahead + here) + self.dropped * float(np.linalg.norm(axes[-1]))
        residual = self._leaving(discount, axes @ axes.T)
        residual += float(self.basis.largest_sums(directions * np.sqrt(np.abs(sizes)))[-1]) + unit * (
            ahead**2 + here**2
        )
        residual += discount * slip * (2 * np.sqrt(square) + 3 * slip) + 8 * _EPS * square
        return residual / (1 - discount) + 2 * np.sqrt(square) * unit * here


def weights(transition: Any, discount: float) -> Float[np.ndarray, " S"]:
    r"""Weights of at least 1 with $\gamma P^\top w < w$: discounted visits, counted from everywhere at once.

    On a chain that mixes, those of all later times are like those of the latter half of the times counted.
    """
    if 1 - discount < _NEAREST:
        raise ValueError(f"discount must be at most 1 - {_NEAREST:.2g} for factors, but is {discount!r}")
    backward = sp.csr_array(transition.T)
    later, least = (1 + discount) / 2, 1 - 1e-3 * (1 - discount)
    visits, mark, times, lap = np.ones(backward.shape[0]), np.zeros(backward.shape[0]), 1, 1
    while not (discount * (flow := backward @ visits) < least * visits).all():
        visits, times = 1 + later * flow, times + 1
        if times == 2 * lap:
            whole = visits + later**times / (1 - later) * (visits - mark) / lap
            if (discount * (backward @ whole) < least * whole).all():
                return whole
            mark, lap = visits, times
    return visits
