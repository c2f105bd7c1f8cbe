"""Markov chains with rewards, validated once, with arrays that are read-only afterwards."""

from typing import Any, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import gmres, splu

from mico.tabular._rounding import EPS, EXACT, UNIT, Rounding, centred, law_rounding, longest_row, normalising
from mico.tabular._validation import Matrix, check_span, checked_discount, checked_reward, checked_rows, numbers
from mico.tabular.outcomes import RewardLaw, checked_law

_CHUNK = 2**23  # numbers of an array that is needed in parts only
_DIRECT_SOLVE = 20_000  # states up to which a sparse LU is the quick way to a value


@final
class Chain:
    r"""A Markov chain with rewards: what a policy makes of an MDP, $(P^\pi, r^\pi, \gamma)$.

    Args:
        transition: Probabilities [S, S], an array or a sparse matrix; every row sums to 1.
        reward: The mean reward of each state [S].
        discount: Discount factor in [0, 1).
        law: The distribution of the reward in each state, whose means `reward` must be; for metrics that compare draws
            of rewards (`reward="sampled"`).
        relative: The rewards less `middle`, where their differences have more digits than those of `reward`.
        middle: The constant that `relative` is without.
        rounding: How far `transition` and `relative` can be from the numbers they stand for; every certified error
            includes it.

    Raises:
        ValueError: If an array has the wrong shape or no distributions in its rows; the message names the state.

    Examples:
        >>> chain = Chain([[0.5, 0.5], [0.0, 1.0]], reward=[1.0, 0.0], discount=0.9)
        >>> chain.value().round(3)
        array([1.818, 0.   ])
    """

    def __init__(
        self,
        transition: Any,
        reward: Any,
        discount: float,
        *,
        law: RewardLaw | None = None,
        relative: Any = None,
        middle: float = 0.0,
        rounding: Rounding = EXACT,
    ):
        self.discount = checked_discount(discount)
        matrix = transition if sp.issparse(transition) else numbers("transition", transition)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"transition must have shape [S, S], but has {list(matrix.shape)}")
        if matrix.shape[0] == 0:
            raise ValueError("transition is empty: a chain needs at least one state")
        self.transition: Matrix = checked_rows("transition", matrix, lambda row: f"state {row}")
        self.reward: Float[np.ndarray, " S"] = checked_reward(reward, (self.num_states,))
        check_span(self.reward, self.discount)
        # `relative` and `middle` together are the reward, with all digits of differences.
        if relative is None:
            self.relative, self.middle = centred(self.reward)
        else:
            self.relative, self.middle = checked_reward(relative, (self.num_states,)), float(middle)
        self.law = None if law is None else checked_law(law, self.reward)
        by_law = 0.0 if self.law is None else law_rounding(self.law.levels)
        self.rounding = rounding.plus(by_law, normalising(longest_row(matrix)))

    @property
    def num_states(self) -> int:
        """Number of states."""
        return self.transition.shape[0]

    def __repr__(self) -> str:
        return f"Chain(num_states={self.num_states}, discount={self.discount})"

    def dense_transition(self) -> Float[np.ndarray, "S S"]:
        """The transition probabilities as an array, also where they are sparse."""
        return self.transition if isinstance(self.transition, np.ndarray) else self.transition.toarray()

    def value(self) -> Float[np.ndarray, " S"]:
        r"""The value $V = (I - \gamma P)^{-1} r$ of each state."""
        if isinstance(self.transition, np.ndarray):
            return np.linalg.solve(np.eye(self.num_states) - self.discount * self.transition, self.reward)
        system = (sp.eye_array(self.num_states) - self.discount * self.transition).tocsc()
        if self.num_states <= _DIRECT_SOLVE:
            return splu(system).solve(self.reward)
        return _iterative_solve(system.tocsr(), self.reward)

    def reward_gap(self) -> Float[np.ndarray, "S S"]:
        r"""Differences $|r_x - r_y|$; with a law $\mathbb E|R_x - R_y|$, the two rewards drawn independently."""
        if self.law is None:
            return np.abs(self.relative[:, None] - self.relative[None, :])
        (levels, weights), gaps = self.law, []
        for part in np.array_split(np.arange(self.num_states), 1 + weights.shape[0] * levels.size // _CHUNK):
            shares = weights[part].toarray()
            apart = _excess(shares, levels) + _excess(shares[:, ::-1], -levels[::-1])[:, ::-1]  # E|z − R|
            gaps.append(apart @ weights.T)
        return np.concatenate(gaps)

    def lifted(self) -> "Chain":
        """The chain on pairs whose value is the MICo distance (the paper's lemma); pair (x, y) stands at x·S + y."""
        pairs, gap = sp.kron(self.transition, self.transition, format="csr"), self.reward_gap().ravel()
        return Chain(pairs, gap, self.discount, rounding=lifted_rounding(self.rounding, gap))


def lifted_rounding(of: Rounding, gap: Float[np.ndarray, " P"]) -> Rounding:
    """Rounding of gaps, differences of two rewards, and of products of two rows."""
    return Rounding(2 * of.reward + UNIT * float(gap.max()), 2 * of.transition + 2 * UNIT)


def _excess(shares: Float[np.ndarray, "S k"], levels: Float[np.ndarray, " k"]) -> Float[np.ndarray, "S k"]:
    r"""$\mathbb E(z_j - R)^+$ at each level: the distribution function, summed up to it."""
    return np.pad((shares.cumsum(axis=1)[:, :-1] * np.diff(levels)).cumsum(axis=1), ((0, 0), (1, 0)))


def _iterative_solve(system: sp.csr_array, reward: np.ndarray) -> np.ndarray:
    """Krylov solutions of what is left, again and again; plain sweeps, which always converge, where they stall."""
    terms = longest_row(system) + 8
    value, residual, stalled = np.zeros_like(reward), reward, False
    while (size := np.abs(residual).max()) > terms * EPS * np.abs(value).max():
        step = residual if stalled else gmres(system, residual, rtol=1e-8, restart=50, maxiter=10)[0]
        left = reward - system @ (value + step)
        if not stalled and np.abs(left).max() > size / 2:
            stalled = True
        else:
            value, residual = value + step, left
    return value
