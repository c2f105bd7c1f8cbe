"""Distances between distributions from a distance between states: one coupling, or the best of all couplings."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from mico.tabular._validation import Matrix, checked_distances, checked_rows, numbers

_MAX_PIVOTS = 10_000_000


class Plan(NamedTuple):
    r"""An optimal coupling, and the dual potentials, $f_i + g_j \le c_{ij}$, that prove it optimal."""

    coupling: Float[np.ndarray, "m n"]
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
            lifted[x, y] = transport_cost(mass, other_mass, d[np.ix_(states, other_states)])
    return lifted


def lukaszyk_karmowski(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> float:
    r"""Compute the Łukaszyk–Karmowski distance $\mathbb E_{x \sim \mu,\, y \sim \nu}[d(x, y)]$ of independent draws.

    Args:
        mu: A distribution over the states.
        nu: Another one.
        d: Distances between the states.

    Returns:
        The distance.

    Raises:
        ValueError: If mu or nu is no distribution, or d is not square.

    Examples:
        >>> d = np.array([[0.0, 2.0], [2.0, 0.0]])
        >>> lukaszyk_karmowski(np.array([0.5, 0.5]), np.array([0.5, 0.5]), d)
        1.0
    """
    mu, nu, d = _on_states(mu, nu, d)
    return float(mu @ d @ nu)


def wasserstein(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> float:
    r"""Compute the Kantorovich distance $\min \mathbb E[d(x, y)]$ over all couplings of $\mu$ and $\nu$.

    Args:
        mu: A distribution over the states.
        nu: Another one.
        d: Distances between the states.

    Returns:
        The distance.

    Raises:
        ValueError: If mu or nu is no distribution, or d is not square.

    Examples:
        >>> d = np.array([[0.0, 2.0], [2.0, 0.0]])
        >>> wasserstein(np.array([0.5, 0.5]), np.array([1.0, 0.0]), d)
        1.0
    """
    mu, nu, d = _on_states(mu, nu, d)
    i, j = np.flatnonzero(mu), np.flatnonzero(nu)
    return transport_cost(mu[i], nu[j], d[np.ix_(i, j)])


def transport_cost(
    mass: Float[np.ndarray, " m"], other: Float[np.ndarray, " n"], cost: Float[np.ndarray, "m n"]
) -> float:
    """The least cost of moving one positive vector into another of the same total, whatever the size of the costs."""
    low, size = cost.min(), np.ptp(cost) or 1.0
    plan = optimal_plan(mass, other * (mass.sum() / other.sum()), (cost - low) / size)
    return float((plan.coupling * cost).sum())


def optimal_plan(mass: Float[np.ndarray, " m"], other: Float[np.ndarray, " n"], cost: Float[np.ndarray, "m n"]) -> Plan:
    """Exact transport between positive vectors of one total, for costs in [0, 1], by POT's network simplex.

    The solver is called without POT's checks, which cost 15 times as much as a small problem.
    """
    from ot.lp.emd_wrap import emd_c

    if mass.size == 1:
        return Plan(other[None], np.zeros(1), cost[0])
    if other.size == 1:
        return Plan(mass[:, None], cost[:, 0], np.zeros(1))
    coupling, _, f, g, code = emd_c(mass, other, np.ascontiguousarray(cost), _MAX_PIVOTS, 1)
    if code != 1:
        raise ArithmeticError(f"transport of {mass.size} × {other.size} points stopped with code {code}")
    return Plan(coupling, f, g)


def supports(transition: Matrix) -> list[tuple[np.ndarray, np.ndarray]]:
    """The states that each row can reach, and their probabilities."""
    rows = sp.csr_array(transition)
    return [
        (rows.indices[start:stop], rows.data[start:stop])
        for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]


def _on_states(mu: np.ndarray, nu: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d = checked_distances(d)
    checked = []
    for name, values in (("mu", mu), ("nu", nu)):
        vector = numbers(name, values)
        if vector.shape != (d.shape[0],):
            raise ValueError(f"{name} has shape {list(vector.shape)}, but d asks for [{d.shape[0]}]")
        checked.append(checked_rows(name, vector[None, :], lambda _: "the distribution")[0])
    return checked[0], checked[1], d
