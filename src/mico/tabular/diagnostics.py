"""Which axioms a matrix of distances obeys, where it breaks the others, and how it keeps to the bound on values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mico.tabular._validation import (
    Distances,
    DistancesLike,
    ValueLike,
    checked_distances,
    checked_matrix,
    checked_not_negative,
    checked_value,
)

_VALUE_DIGITS = 1e-10  # of the largest value: what the rounding of values may not pass off as a broken bound

Worst = tuple[float, tuple[int, ...]]


class Axiom(NamedTuple):
    """An inequality `left <= right` (or `left < right`) for all states, and where left − right is largest."""

    formula: str
    relation: Literal["<=", "<"]
    worst: Callable[[Distances], Worst]


@dataclass(frozen=True)
class Violation:
    """Where an axiom is missed by most.

    Attributes:
        excess: The largest left − right of the inequality: at most 0 where the axiom holds exactly.
        states: The states x, y (and z) where it is.
        holds: Whether the axiom holds within the tolerance.
    """

    excess: float
    states: tuple[int, ...]
    holds: bool


@dataclass(frozen=True)
class AxiomReport:
    """Every axiom's worst case, and the kinds of distance that follow; `print` shows it as lines.

    Attributes:
        axioms: A `Violation` by the name of each axiom.
        tolerance: By how much an axiom may be missed.
        kinds: The kinds of distance whose axioms all hold: metric, pseudometric, partial-metric, diffuse-metric.

    Examples:
        >>> report = check_axioms([[0.0, 1.0], [1.0, 0.0]])
        >>> report.is_metric, report.axioms["triangle"].excess
        (True, 0.0)
    """

    axioms: dict[str, Violation]
    tolerance: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of distance whose axioms all hold."""
        return tuple(kind for kind, names in KINDS.items() if all(self.axioms[name].holds for name in names))

    @property
    def is_metric(self) -> bool:
        """Whether it is a metric."""
        return "metric" in self.kinds

    @property
    def is_pseudometric(self) -> bool:
        """Whether it is a pseudometric: a metric, but for different states at distance 0."""
        return "pseudometric" in self.kinds

    @property
    def is_partial_metric(self) -> bool:
        """Whether it is a partial metric, as the paper has it."""
        return "partial-metric" in self.kinds

    @property
    def is_diffuse_metric(self) -> bool:
        """Whether it is a diffuse metric: its self-distances need not be 0."""
        return "diffuse-metric" in self.kinds

    def __str__(self) -> str:
        lines = [f"kinds: {', '.join(self.kinds) or 'none'} (tolerance {self.tolerance:g})"]
        for name, violation in self.axioms.items():
            verdict = "holds" if violation.holds else "fails"
            where = ", ".join(f"{letter}={state}" for letter, state in zip("xyz", violation.states)) or "no pair"
            lines.append(f"{verdict}  {name}: {AXIOMS[name].formula}; worst {violation.excess:+.3g} at {where}")
        return "\n".join(lines)


def check_axioms(d: DistancesLike, tolerance: float = 1e-9) -> AxiomReport:
    """Check the axioms of metrics, partial metrics and diffuse metrics on a matrix of distances.

    Args:
        d: Distances [S, S], or a solved metric.
        tolerance: An axiom `<=` may be missed by so much; one with `<` must hold by more than it.

    Returns:
        Each axiom's worst case, and the kinds of distance that follow.

    Raises:
        ValueError: If d is not square and finite, or the tolerance is negative.

    Examples:
        >>> check_axioms([[0.5, 1.0], [1.0, 0.0]]).kinds
        ('partial-metric', 'diffuse-metric')
    """
    matrix = checked_distances(d)
    tolerance = checked_not_negative("tolerance", tolerance)
    found = {}
    for name, axiom in AXIOMS.items():
        excess, states = axiom.worst(matrix)
        holds = excess < -tolerance if axiom.relation == "<" else excess <= tolerance
        found[name] = Violation(excess, states, bool(holds))
    return AxiomReport(found, tolerance)


class ValueBound(NamedTuple):
    r"""How a distance keeps to the bound $|V(x) - V(y)| \le d(x, y)$ over all pairs, as in the paper's experiment.

    Attributes:
        broken: Share of the pairs that break the bound.
        mean_gap: Mean of $d(x, y) - |V(x) - V(y)|$, with its sign.
    """

    broken: float
    mean_gap: float


def value_bound(
    d: DistancesLike,
    value: ValueLike,
    other_value: ValueLike | None = None,
    *,
    error: float = 0.0,
) -> ValueBound:
    r"""Check the bound $|V(x) - V(y)| \le d(x, y)$ of a distance on values.

    Args:
        d: Distances [S, S], or a solved metric; [S, T] between the states of two models.
        value: A value for each state x.
        other_value: A value for each state y of the other model; by default y is of the same model.
        error: Largest error of a distance, which counts as no break of the bound.

    Returns:
        The share of pairs that break the bound, and the mean of $d(x, y) - |V(x) - V(y)|$.

    Raises:
        ValueError: If the shapes do not fit, or a number is not finite.

    Examples:
        >>> value_bound([[0.0, 1.0], [1.0, 0.0]], [0.0, 2.0])
        ValueBound(broken=0.5, mean_gap=-0.5)
    """
    d = checked_distances(d) if other_value is None else checked_matrix("d", getattr(d, "matrix", d), "[S, T]")
    value = checked_value("value", value, d.shape[0])
    other = value if other_value is None else checked_value("other_value", other_value, d.shape[1])
    error = checked_not_negative("error", error)
    gap = d - np.abs(value[:, None] - other[None, :])
    slack = error + _VALUE_DIGITS * float(max(np.abs(value).max(), np.abs(other).max()))
    return ValueBound(float((gap < -slack).mean()), float(gap.mean()))


def _largest(excess: Distances) -> Worst:
    x, y = np.unravel_index(excess.argmax(), excess.shape)
    return float(excess[x, y]), (int(x), int(y))


def _largest_off_diagonal(excess: Distances) -> Worst:
    """With a single state there is no pair, and so nothing to break."""
    if len(excess) == 1:
        return -np.inf, ()
    return _largest(np.where(np.eye(len(excess), dtype=bool), -np.inf, excess))


def _self_distance(d: Distances) -> Worst:
    sizes = np.abs(np.diag(d))
    return float(sizes.max()), (int(sizes.argmax()),)


def _separation(d: Distances) -> Worst:
    """Minus the range of d(x,x), d(y,y), d(x,y): zero where all three agree."""
    own = np.diag(d)
    high = np.maximum(np.maximum(own[:, None], own[None, :]), d)
    low = np.minimum(np.minimum(own[:, None], own[None, :]), d)
    return _largest_off_diagonal(low - high)


def _triangle(d: Distances, refund: Float[np.ndarray, " S"]) -> Worst:
    r"""$\max_{x,y,z} d(x,y) - (d(x,z) + d(z,y) - \mathrm{refund}(z))$, with $O(S^2)$ memory."""
    detour, candidate = np.full_like(d, np.inf), np.empty_like(d)
    for z in range(len(d)):
        np.add(d[:, z, None] - refund[z], d[z], out=candidate)
        np.minimum(detour, candidate, out=detour)
    excess, (x, y) = _largest(d - detour)
    return excess, (x, y, int(np.argmin(d[x] - refund + d[:, y])))


# The paper writes d(y,z) for d(z,y). Every kind asks for symmetry, so they agree; but this way a lack of symmetry does
# not count as a broken triangle too.
AXIOMS: dict[str, Axiom] = {
    "non-negativity": Axiom("0 <= d(x,y)", "<=", lambda d: _largest(0 - d)),
    "symmetry": Axiom("|d(x,y) - d(y,x)| <= 0", "<=", lambda d: _largest(np.abs(d - d.T))),
    "zero-self-distance": Axiom("|d(x,x)| <= 0", "<=", _self_distance),
    "identity-of-indiscernibles": Axiom("0 < |d(x,y)| unless x=y", "<", lambda d: _largest_off_diagonal(0 - np.abs(d))),
    "triangle": Axiom("d(x,y) <= d(x,z) + d(z,y)", "<=", lambda d: _triangle(d, np.zeros(len(d)))),
    "small-self-distance": Axiom("d(x,x) <= d(x,y)", "<=", lambda d: _largest(np.diag(d)[:, None] - d)),
    "modified-triangle": Axiom("d(x,y) <= d(x,z) + d(z,y) - d(z,z)", "<=", lambda d: _triangle(d, np.diag(d))),
    "separation": Axiom("0 < range of d(x,x), d(y,y), d(x,y) unless x=y", "<", _separation),
}

# The partial metric is the paper's, whose values may be negative; Matthews' own asks for non-negativity as well.
KINDS: dict[str, tuple[str, ...]] = {
    "metric": ("non-negativity", "symmetry", "zero-self-distance", "identity-of-indiscernibles", "triangle"),
    "pseudometric": ("non-negativity", "symmetry", "zero-self-distance", "triangle"),
    "partial-metric": ("separation", "small-self-distance", "symmetry", "modified-triangle"),
    "diffuse-metric": ("non-negativity", "symmetry", "triangle"),
}
