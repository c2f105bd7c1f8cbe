r"""MICo without n×n matrices: $U(x,y) = \bar V_x + \bar V_y - 2\Psi_x\Psi_y^\top$, $\Pi U(x,y) = |\Psi_x - \Psi_y|^2$.

With distinct rewards $z_1 < \dots < z_k$, steps $s_j = z_{j+1} - z_j$ and $p_j(x) = \mathbb P(R_x > z_j)$, the gap of
rewards is $\mathbb E|R_x - R_y| = \sum_j s_j\,(p_j(x) + p_j(y) - 2 p_j(x) p_j(y))$. So
$U = \bar V 1^\top + 1 \bar V^\top - 2M$, where $\bar V$ is the value of $\sum_j s_j\,p_j$ and
$M = \sum_t \gamma^t P^t ZZ^\top (P^t)^\top$ with features $Z_{xj} = \sqrt{s_j}\,p_j(x)$. M is positive semi-definite,
$M = \Psi\Psi^\top$; it solves $M = ZZ^\top + \gamma P M P^\top$, in the Krylov spaces of P and the features.
"""

from typing import Literal, final, get_args

import numpy as np
from jaxtyping import Float

from mico.tabular._rounding import EPS, UNIT, longest_row
from mico.tabular._validation import States, checked_states
from mico.tabular.chain import Chain
from mico.tabular.solvers.doubling import doubling
from mico.tabular.solvers.galerkin import project, weights
from mico.tabular.solvers.krylov import BASES, Backend
from mico.tabular.solvers.reward_steps import RewardSteps, reward_steps

Kind = Literal["mico", "reduced-mico"]
_MOST_FEATURES = 32  # more distinct rewards than this are solved for all at once, densely
_DENSE = 5000  # states up to which that is reasonable
_MEMORY = 2**31  # bytes that the basis may take unless the caller says otherwise


@final
class MICoFactors:
    r"""Factors of the MICo distance, from which it is computed pair by pair or row by row.

    $U(x, y) = \bar V_x + \bar V_y - 2\Psi_x\cdot\Psi_y$ and $\Pi U(x, y) = \|\Psi_x - \Psi_y\|^2$. A `Solution` of
    `method` "factored" holds them as its `factors`, and computes distances from them.

    Attributes:
        psi: $\Psi$, a row of coordinates for each state.
        value: $\bar V$, the share of each state in U that does not depend on the other state.
        error: Certified bound on the error of every entry of U and of ΠU.
        products: How many times the transition matrix was applied.

    Examples:
        >>> import mico.tabular as mt
        >>> factors = mt.factored_mico(mt.make("two-state", discount=0.9)).factors
        >>> factors.rows(0, "mico").round(3), factors.rows(0, "reduced-mico").round(3)
        (array([1.056, 1.818]), array([0.  , 1.29]))
    """

    def __init__(self, psi: Float[np.ndarray, "S r"], value: Float[np.ndarray, " S"], error: float, products: int):
        self.psi, self.value = psi, value
        self.error, self.products = float(error), int(products)
        self._squares = np.einsum("sr,sr->s", psi, psi)

    @property
    def rank(self) -> int:
        """Number of coordinates of a state."""
        return self.psi.shape[1]

    @property
    def num_states(self) -> int:
        """Number of states."""
        return self.psi.shape[0]

    @property
    def self_distance(self) -> Float[np.ndarray, " S"]:
        r"""The distance of each state from itself, $U(x, x) = 2(\bar V_x - \|\Psi_x\|^2)$."""
        return np.maximum(2 * (self.value - self._squares), 0.0)

    def __repr__(self) -> str:
        return f"MICoFactors({self.num_states} states, rank {self.rank}, error {self.error:.2g})"

    def pairs(self, x: States, y: States, metric: Kind = "mico") -> Float[np.ndarray, "..."]:
        """Compute the distances of x[i] and y[i].

        Args:
            x: A state, or an array of states.
            y: A state, or an array of states; the two are broadcast together.
            metric: "mico" for U, "reduced-mico" for ΠU.

        Returns:
            An array of their common shape.

        Raises:
            ValueError: If x or y holds no states, or the metric is neither.
        """
        x, y = checked_states("x", x, self.num_states), checked_states("y", y, self.num_states)
        products = np.einsum("...r,...r->...", self.psi[x], self.psi[y])
        return self._distance(products, x, y, metric)

    def rows(self, x: States, metric: Kind = "mico") -> Float[np.ndarray, "... S"]:
        """Compute the distances of each given state to every state.

        Args:
            x: A state, or an array of states.
            metric: "mico" for U, "reduced-mico" for ΠU.

        Returns:
            An array [..., S].

        Raises:
            ValueError: If x holds no states, or the metric is neither.
        """
        x = checked_states("x", x, self.num_states)
        everyone = np.arange(self.num_states)
        return self._distance(self.psi[x] @ self.psi.T, x[..., None], everyone, metric)

    def _distance(self, products: np.ndarray, x: np.ndarray, y: np.ndarray, metric: Kind) -> np.ndarray:
        if metric not in get_args(Kind):
            raise ValueError(f"metric must be 'mico' or 'reduced-mico', got {metric!r}")
        own = self.value if metric == "mico" else self._squares
        return np.maximum(own[x] + own[y] - 2 * products, 0.0)


def factorise(
    chain: Chain,
    tolerance: float,
    levels: int | None = None,
    max_basis: int | None = None,
    backend: Backend = "numpy",
) -> MICoFactors:
    """Factors for `factored_mico` and `solve`, with whatever error could be reached."""
    discount = chain.discount
    most = _MOST_FEATURES if chain.num_states > _DENSE else np.inf
    steps, unit = reward_steps(chain, tolerance * (1 - discount) / 80, levels, most).scaled()
    rounding = 2 * steps.rounded_by / (1 - discount)  # of rewards, in U; twice that in ΠU
    solve = _dense if steps.jumps.size > _MOST_FEATURES else _projected
    factors, value, error, products = solve(chain, steps, tolerance / unit / 5, max_basis, backend)
    value, value_error = _certified(chain, steps.features @ np.sqrt(steps.jumps), value)
    error = unit * max(2 * value_error + 2 * error + rounding, 4 * error + 2 * rounding)
    factors, value = np.sqrt(unit) * factors, unit * value  # powers of 2
    largest = 2 * float(np.abs(value).max()) + error
    error += 2 * chain.rounding.error(largest, discount) + _query_rounding(factors, value)
    return MICoFactors(factors, value, error, products)


def _query_rounding(factors: Float[np.ndarray, "S r"], value: Float[np.ndarray, " S"]) -> float:
    r"""What rounding does to $\bar V_x + \bar V_y - 2\Psi_x\Psi_y^\top$, and to that with squares for $\bar V$.

    A product of r terms is off by ru of the largest square m. For U: 2rum, and u of both sides of the difference; for
    $\Pi U$: 4rum, and that.
    """
    square = float(np.einsum("sr,sr->s", factors, factors).max(initial=0.0))
    return (4 * factors.shape[1] * square + 6 * max(square, float(np.abs(value).max()))) * UNIT


def has_few_rewards(chain: Chain) -> bool:
    """Whether the rewards of a chain are few enough for factors of low rank."""
    rewards = np.unique(chain.relative) if chain.law is None else chain.law.levels
    return rewards.size <= _MOST_FEATURES + 1


def _projected(
    chain: Chain, steps: RewardSteps, goal: float, max_basis: int | None, backend: Backend
) -> tuple[Float[np.ndarray, "S r"], Float[np.ndarray, " S"], float, int]:
    """Factors and value as sums over the features, each from a Krylov space of its own (a joint one is no smaller)."""
    factors, value = np.zeros((chain.num_states, 0)), np.zeros(chain.num_states)
    error, products, room = 0.0, 0, 64
    if steps.jumps.size == 0:
        return factors, value, error, products
    root = np.sqrt(weights(chain.transition, chain.discount))
    room_for = max(1, _MEMORY // (8 * chain.num_states)) if max_basis is None else max_basis
    capacity = min(chain.num_states, room_for + 1)  # one more, which tells what the others leave out
    basis = BASES[backend](chain.transition, root, capacity)
    for number, (jump, feature) in enumerate(zip(steps.jumps, steps.features.T, strict=True), start=1):
        height = float(np.sqrt(jump))
        part = project(basis, chain.discount, goal / steps.jumps.size, feature, height)
        factors, value = np.concatenate([factors, part.factors], axis=1), value + height * part.value
        error, products = error + part.error, products + part.products
        if factors.shape[1] > room or number == steps.jumps.size:
            factors, loss = _compressed(factors, goal / 20 / steps.jumps.size)
            error, room = error + loss, 64 + 2 * factors.shape[1]
    return factors, value, error, products


def _dense(
    chain: Chain, steps: RewardSteps, goal: float, *_: object
) -> tuple[Float[np.ndarray, "S r"], Float[np.ndarray, " S"], float, int]:
    """Compute the factors by doubling: with so many features M has no small rank to gain from."""
    reward = steps.features @ np.sqrt(steps.jumps)
    gram = steps.features @ steps.features.T
    solution = doubling(chain.dense_transition(), gram, chain.discount, tolerance=goal / 2)
    sizes, axes = np.linalg.eigh(solution.matrix)
    factors, loss = _compressed(axes * np.sqrt(np.maximum(sizes, 0.0)), goal / 20)
    clipped = float(np.abs(np.minimum(sizes, 0.0)).max()) + chain.num_states * EPS * float(sizes[-1])
    value = np.linalg.solve(np.eye(chain.num_states) - chain.discount * chain.dense_transition(), reward)
    return factors, value, solution.error + loss + clipped, solution.iterations


def _compressed(factors: Float[np.ndarray, "S r"], spare: float) -> tuple[Float[np.ndarray, "S r"], float]:
    """The factors on their principal axes, less those that `spare` allows to drop; and what that costs."""
    _, axes = np.linalg.eigh(factors.T @ factors)
    turned = factors @ axes
    losses = np.zeros(turned.shape[1])
    for part in np.array_split(turned, 1 + turned.size // 2**22):
        losses = np.maximum(losses, np.cumsum(part**2, axis=1).max(axis=0))
    cut = min(int(np.searchsorted(losses, spare, side="right")), losses.size - 1)
    # Axes are orthogonal up to 4ru (LAPACK); a row of r sums of r products is off by r^1.5 u of its length, twice.
    rounding = (4 + 2 * np.sqrt(losses.size)) * losses.size * UNIT * float(losses[-1])
    return np.ascontiguousarray(turned[:, cut:][:, ::-1]), rounding + float(losses[cut - 1] if cut else 0.0)


def _certified(
    chain: Chain, reward: Float[np.ndarray, " S"], value: Float[np.ndarray, " S"]
) -> tuple[Float[np.ndarray, " S"], float]:
    """A guess of the value moved by the middle of its residual, and the error that the residual's width leaves."""
    residual = reward + chain.discount * (chain.transition @ value) - value
    low, high = float(residual.min()), float(residual.max())
    shifted = value + (low + high) / 2 / (1 - chain.discount)
    # A row of n products: nu; the discount, two sums, the shift and its addition, twice: 8u; as much again to spare.
    terms = 8 + longest_row(chain.transition)
    rounding = terms * EPS * max(float(np.abs(value).max()), float(np.abs(shifted).max()))
    return shifted, ((high - low) / 2 + rounding) / (1 - chain.discount)
