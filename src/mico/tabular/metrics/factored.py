r"""MICo without n×n matrices: $U(x,y) = \bar V_x + \bar V_y - 2\Psi_x\Psi_y^\top$, $\Pi U(x,y) = |\Psi_x - \Psi_y|^2$.

With distinct rewards $z_1 < \dots < z_k$, steps $s_j = z_{j+1} - z_j$ and $p_j(x) = \mathbb P(R_x > z_j)$, the gap of
rewards is $\mathbb E|R_x - R_y| = \sum_j s_j\,(p_j(x) + p_j(y) - 2 p_j(x) p_j(y))$. So
$U = \bar V 1^\top + 1 \bar V^\top - 2M$, where $\bar V$ is the value of $\sum_j s_j\,p_j$ and
$M = \sum_t \gamma^t P^t ZZ^\top (P^t)^\top$ with features $Z_{xj} = \sqrt{s_j}\,p_j(x)$. M is positive semi-definite,
$M = \Psi\Psi^\top$; it solves $M = ZZ^\top + \gamma P M P^\top$, in the Krylov spaces of P and the features.
"""

import warnings
from typing import Any, Literal, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from mico.tabular._rounding import longest_row
from mico.tabular._validation import check_tolerance, check_whole, checked_states
from mico.tabular.chain import Chain
from mico.tabular.policies import PolicyLike, as_chain
from mico.tabular.problems.problem import Model
from mico.tabular.solvers.doubling import doubling
from mico.tabular.solvers.galerkin import project, weights
from mico.tabular.solvers.krylov import BASES, Backend
from mico.tabular.solvers.result import ToleranceWarning
from mico.tabular.solvers.reward_steps import RewardSteps, reward_steps

Kind = Literal["mico", "reduced-mico"]
_MOST_FEATURES = 32  # more distinct rewards than this are solved for all at once, densely
_DENSE = 5000  # states up to which that is reasonable
_MEMORY = 2**31  # bytes that the basis may take unless the caller says otherwise


class Neighbours(NamedTuple):
    """States and their distances, nearest first."""

    index: Int[np.ndarray, " k"]
    distance: Float[np.ndarray, " k"]


@final
class FactoredMICo:
    """The MICo distance of a chain of any size, asked for pair by pair or row by row."""

    def __init__(self, factors: Float[np.ndarray, "S r"], value: Float[np.ndarray, " S"], error: float, products: int):
        self.factors, self.value = factors, value
        self.error = float(error)  # certified, for every entry of U and of ΠU
        self.products = products  # how many times the transition matrix was applied
        self._squares = np.einsum("sr,sr->s", factors, factors)

    @property
    def rank(self) -> int:
        return self.factors.shape[1]

    @property
    def num_states(self) -> int:
        return self.factors.shape[0]

    @property
    def self_distance(self) -> Float[np.ndarray, " S"]:
        r"""$U(x, x) = 2(\bar V_x - \|\Psi_x\|^2)$."""
        return np.maximum(2 * (self.value - self._squares), 0.0)

    def pairs(self, x: Any, y: Any, metric: Kind = "mico") -> np.ndarray:
        """The distances of x[i] and y[i], for states or arrays of states (broadcast together)."""
        x, y = checked_states("x", x, self.num_states), checked_states("y", y, self.num_states)
        products = np.einsum("...r,...r->...", self.factors[x], self.factors[y])
        return self._distance(products, x, y, metric)

    def rows(self, x: Any, metric: Kind = "mico") -> np.ndarray:
        """The distances of each given state to every state, [..., S]."""
        x = checked_states("x", x, self.num_states)
        everyone = np.arange(self.num_states)
        return self._distance(self.factors[x] @ self.factors.T, x[..., None], everyone, metric)

    def neighbours(self, x: int, k: int, metric: Kind = "mico") -> Neighbours:
        """The k states other than x that are nearest to it."""
        check_whole("x", x, 0, self.num_states - 1)
        check_whole("k", k, 1, self.num_states - 1)
        row = self.rows(x, metric)
        row[x] = np.inf
        near = np.argpartition(row, k - 1)[:k]
        near = near[np.argsort(row[near], kind="stable")]
        return Neighbours(near, row[near])

    def embedding(self, k: int) -> Float[np.ndarray, "S k"]:
        r"""The k coordinates whose squared distances best match $\Pi U$ (principal axes; beyond the rank, zeros)."""
        check_whole("k", k, 1)
        centred = self.factors - self.factors.mean(axis=0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        leading = centred @ axes[:, ::-1][:, :k]
        return np.pad(leading, ((0, 0), (0, k - leading.shape[1])))

    def _distance(self, products: np.ndarray, x: np.ndarray, y: np.ndarray, metric: Kind) -> np.ndarray:
        if metric not in ("mico", "reduced-mico"):
            raise ValueError(f"metric must be 'mico' or 'reduced-mico', not {metric!r}")
        own = self.value if metric == "mico" else self._squares
        return np.maximum(own[x] + own[y] - 2 * products, 0.0)


def factored_mico(
    model: Model,
    policy: PolicyLike = None,
    *,
    tolerance: float = 1e-6,
    levels: int | None = None,
    max_basis: int | None = None,
    backend: Backend = "numpy",
) -> FactoredMICo:
    """The MICo distance in factors, with the options that `solve(..., method="factored")` leaves at their defaults.

    Args:
        model: A Problem, an MDP or a Chain, sparse or dense. The distribution of rewards counts where a chain has it
            (`mdp.chain(policy, reward="sampled")`).
        policy: As in `solve`.
        tolerance: Certified error of every entry to reach.
        levels: Largest number of distinct rewards; more are rounded to so many, and `error` includes what that changes.
        max_basis: Largest number of basis vectors, by default as many as fit 2 GiB; where they do not suffice, the
            error that was reached comes back with a `ToleranceWarning`.
        backend: "numpy", or "jax" to work on JAX's default device.

    Returns:
        The distance, to be asked for pairs, rows and neighbours.

    Raises:
        ValueError: If an argument is not as described, or the rewards are too many for a large model without `levels`.

    Examples:
        >>> import mico.tabular as mt
        >>> grid = mt.make("open-grid", height=40, width=40, discount=0.99)
        >>> distance = mt.factored_mico(grid, tolerance=1e-6)
        >>> distance.rows(1599).shape, distance.error <= 1e-6
        ((1600,), True)
    """
    check_tolerance(tolerance)
    for name, number in (("levels", levels), ("max_basis", max_basis)):
        if number is not None:
            check_whole(name, number, 1)
    if backend not in BASES:
        raise ValueError(f"backend must be one of {', '.join(BASES)}, not {backend!r}")
    found = factorise(as_chain(model, policy), tolerance, levels, max_basis, backend)
    if found.error > tolerance:
        message = f"the certified error is {found.error:.3g}, more than {tolerance:.3g}"
        warnings.warn(message, ToleranceWarning, stacklevel=2)
    return found


def factorise(
    chain: Chain,
    tolerance: float,
    levels: int | None = None,
    max_basis: int | None = None,
    backend: Backend = "numpy",
) -> FactoredMICo:
    """Factors for `factored_mico` and `solve`, with whatever error could be reached."""
    discount = chain.discount
    most = _MOST_FEATURES if chain.num_states > _DENSE else np.inf
    steps, unit = reward_steps(chain, tolerance * (1 - discount) / 80, levels, most).scaled()
    rounding = 2 * steps.rounded_by / (1 - discount)  # of rewards, in U; twice that in ΠU
    solve = _dense if steps.jumps.size > _MOST_FEATURES else _projected
    factors, value, error, products = solve(chain, steps, tolerance / unit / 5, max_basis, backend)
    value, value_error = _certified(chain, steps.features @ np.sqrt(steps.jumps), value)
    error = unit * max(2 * value_error + 2 * error + rounding, 4 * error + 2 * rounding)
    factors, value = np.sqrt(unit) * factors, unit * value
    error += 2 * chain.rounding.error(2 * float(np.abs(value).max()), discount)
    return FactoredMICo(factors, value, error, products)


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
    """The same by doubling: with so many features M has no small rank to gain from."""
    reward = steps.features @ np.sqrt(steps.jumps)
    gram = steps.features @ steps.features.T
    solution = doubling(chain.dense_transition(), gram, chain.discount, tolerance=goal / 2)
    sizes, axes = np.linalg.eigh(solution.matrix)
    factors, loss = _compressed(axes * np.sqrt(np.maximum(sizes, 0.0)), goal / 20)
    clipped = float(np.abs(np.minimum(sizes, 0.0)).max()) + chain.num_states * float(np.finfo(float).eps * sizes[-1])
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
    rounding = 2 * losses.size * float(np.finfo(float).eps) * float(losses[-1])
    return np.ascontiguousarray(turned[:, cut:][:, ::-1]), rounding + float(losses[cut - 1] if cut else 0.0)


def _certified(
    chain: Chain, reward: Float[np.ndarray, " S"], value: Float[np.ndarray, " S"]
) -> tuple[Float[np.ndarray, " S"], float]:
    """A guess of the value moved by the middle of its residual, and the error that the residual's width leaves."""
    residual = reward + chain.discount * (chain.transition @ value) - value
    low, high = float(residual.min()), float(residual.max())
    value = value + (low + high) / 2 / (1 - chain.discount)
    terms = 8 + longest_row(chain.transition)
    rounding = terms * float(np.finfo(float).eps) * float(np.abs(value).max())
    return value, ((high - low) / 2 + rounding) / (1 - chain.discount)
