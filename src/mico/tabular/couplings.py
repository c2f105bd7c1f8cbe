"""Distances between distributions from a distance between states: one coupling, or the best of all couplings."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from mico.tabular.validation import Matrix, check_finite, checked_rows, numbers

_MAX_PIVOTS = 10_000_000


class Plan(NamedTuple):
    r"""An optimal coupling, its cost, and the dual potentials, $f_i + g_j \le c_{ij}$, that prove it optimal."""

    coupling: Float[np.ndarray, "m n"]
    cost: float
    f: Float[np.ndarray, " m"]
    g: Float[np.ndarray, " n"]


def independent(d: Float[np.ndarray, "S S"], transition: Matrix) -> Float[np.ndarray, "S S"]:
    r"""$\mathbb E_{x' \sim P_x,\, y' \sim P_y}[d(x', y')]$ for all pairs: $P\,d\,P^\top$."""
    return transition @ (transition @ d.T).T


def kantorovich(d: Float[np.ndarray, "S S"], transition: Matrix) -> Float[np.ndarray, "S S"]:
    r"""$W_d(P_x, P_y) = \min_{\text{couplings}} \mathbb E[d(x', y')]$ for all pairs, by exact transport on supports."""
    rows = supports(transition)
    lifted = np.empty((len(rows), len(rows)))
    for x, (states, mass) in enumerate(rows):
        for y, (other_states, other_mass) in enumerate(rows):
            lifted[x, y] = transport(mass, other_mass, d[np.ix_(states, other_states)]).cost
    return lifted


def lukaszyk_karmowski(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> float:
    r"""The Łukaszyk–Karmowski distance $\mathbb E_{x \sim \mu,\, y \sim \nu}[d(x, y)]$ of independent draws."""
    mu, nu, d = _on_states(mu, nu, d)
    return float(mu @ d @ nu)


def wasserstein(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> float:
    r"""The Kantorovich distance $\min \mathbb E[d(x, y)]$ over all couplings of $\mu$ and $\nu$."""
    mu, nu, d = _on_states(mu, nu, d)
    i, j = np.flatnonzero(mu), np.flatnonzero(nu)
    return transport(mu[i], nu[j], d[np.ix_(i, j)]).cost


def transport(mass: Float[np.ndarray, " m"], other: Float[np.ndarray, " n"], cost: Float[np.ndarray, "m n"]) -> Plan:
    """Exact optimal transport between two positive vectors of one total, by POT's network simplex."""
    from ot.lp.emd_wrap import emd_c  # the solver itself: POT's checks around it cost 15 times a small problem

    if mass.size == 1 or other.size == 1:
        coupling = np.outer(mass, other / other.sum())
        f, g = (np.zeros(1), cost[0].copy()) if mass.size == 1 else (cost[:, 0].copy(), np.zeros(1))
        return Plan(coupling, float((coupling * cost).sum()), f, g)
    low = cost.min()  # the solver is safest with costs that are not negative
    balanced = other * (mass.sum() / other.sum())
    coupling, value, f, g, code = emd_c(mass, balanced, np.ascontiguousarray(cost - low), _MAX_PIVOTS, 1)
    if code != 1:
        raise ArithmeticError(f"transport of {mass.size} × {other.size} points stopped with code {code}")
    return Plan(coupling, value + low * mass.sum(), f, g + low)


def supports(transition: Matrix) -> list[tuple[np.ndarray, np.ndarray]]:
    """The states that each row can reach, and their probabilities."""
    rows = sp.csr_array(transition)
    return [
        (rows.indices[start:stop], rows.data[start:stop])
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]


def _on_states(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d = numbers("d", d)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise ValueError(f"d must be square, [S, S], but has shape {list(d.shape)}")
    check_finite("d", d)
    checked = []
    for name, values in (("mu", mu), ("nu", nu)):
        vector = numbers(name, values)
        if vector.shape != (d.shape[0],):
            raise ValueError(f"{name} has shape {list(vector.shape)}, but d asks for [{d.shape[0]}]")
        checked.append(checked_rows(name, vector[None, :], lambda _: "the distribution")[0])
    return checked[0], checked[1], d
