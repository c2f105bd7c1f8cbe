"""Finite MDPs and Markov chains: one layout, validated once, with arrays that are read-only afterwards."""

from copy import copy
from typing import Any, Literal, NamedTuple, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.sparse.linalg import gmres, splu

from mico.tabular import outcomes as _outcomes
from mico.tabular.outcomes import Outcomes, RewardLaw, checked_law
from mico.tabular.validation import (
    Matrix,
    check_span,
    checked_discount,
    checked_kernel,
    checked_policy,
    checked_reward,
    checked_rows,
    is_sparse_list,
    numbers,
)

Reward = Literal["mean", "sampled"]
_EPS = float(np.finfo(float).eps)
_CHUNK = 2**23  # numbers of an array that is needed in parts only
_DIRECT_SOLVE = 20_000  # states up to which a sparse LU is the quick way to a value


class Rounding(NamedTuple):
    """How far the numbers of a model can be from those they stand for: a reward, and the entries of a row together."""

    reward: float = 0.0
    transition: float = 0.0

    def error(self, largest: float, discount: float) -> float:
        r"""What that does to a metric $d = |r_x - r_y| + \gamma\,\mathcal C(d)(P_x, P_y)$ that is nowhere larger."""
        return 2 * (self.reward + discount * self.transition * largest) / (1 - discount)


@final
class Chain:
    r"""A Markov chain with rewards: what a policy makes of an MDP, $(P^\pi, r^\pi, \gamma)$.

    Args:
        transition: Probabilities [S, S], an array or a sparse matrix; every row sums to 1.
        reward: The mean reward of each state [S].
        discount: Discount factor in [0, 1).
        law: The distribution of the reward in each state, whose means `reward` must be; for metrics that compare draws
            of rewards (`reward="sampled"`).

    Raises:
        ValueError: If an array has the wrong shape or no distributions in its rows; the message names the state.

    Examples:
        >>> chain = Chain([[0.5, 0.5], [0.0, 1.0]], reward=[1.0, 0.0], discount=0.9)
        >>> chain.value().round(3)
        array([1.818, 0.   ])
    """

    # `relative` is the reward up to a constant, whose differences have all their digits; `rounding` bounds what
    # rounding did to the numbers of the chain, for certificates.

    def __init__(self, transition: Any, reward: Any, discount: float, *, law: RewardLaw | None = None):
        self.discount = checked_discount(discount)
        matrix = transition if sp.issparse(transition) else numbers("transition", transition)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"transition must have shape [S, S], but has {list(matrix.shape)}")
        if matrix.shape[0] == 0:
            raise ValueError("transition is empty: a chain needs at least one state")
        self.transition: Matrix = checked_rows("transition", matrix, lambda row: f"state {row}")
        self.reward: Float[np.ndarray, " S"] = checked_reward(reward, (self.num_states,))
        check_span(self.reward, self.discount)
        self.relative, self.rounding, self.law = self.reward, Rounding(), None
        if law is not None:
            self.law = checked_law(law, self.reward)
            self.rounding = Rounding(_summed(self.law.levels.size, self.law.levels - self.law.levels[0]))

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
        pairs = sp.kron(self.transition, self.transition, format="csr")
        return Chain(pairs, self.reward_gap().ravel(), self.discount)


@final
class MDP:
    """A finite Markov decision process.

    A terminal state is an absorbing state without reward: every action leads back to it and has reward 0.

    Args:
        transition: Probabilities: an array [S, A, S], or a sequence of A sparse matrices [S, S], one for each action.
        reward: By state and action [S, A]; or by transition, [S, A, S] or a sequence of A sparse matrices.
        discount: Discount factor in [0, 1).

    Raises:
        ValueError: If an array has the wrong shape or no distributions in its rows; the message names state and action.

    Examples:
        >>> stay, go = [1.0, 0.0], [0.0, 1.0]
        >>> mdp = MDP(transition=[[stay, go], [go, go]], reward=[[0.0, 1.0], [0.0, 0.0]], discount=0.9)
        >>> mdp
        MDP(num_states=2, num_actions=2, discount=0.9)
        >>> mdp.chain("uniform").reward
        array([0.5, 0. ])
    """

    def __init__(self, transition: Any, reward: Any, discount: float):
        self.discount = checked_discount(discount)
        self.transition: np.ndarray | tuple[sp.csr_array, ...] = checked_kernel(transition)
        self._outcomes: Outcomes | None = None
        self.reward: Float[np.ndarray, "S A"]
        given = reward if is_sparse_list(reward) else numbers("reward", reward)
        if is_sparse_list(reward) or given.ndim == 3:
            self._price(_outcomes.priced(self.kernels, given))
        else:
            self.reward = checked_reward(given, self.shape)
            check_span(self.reward, self.discount)
            self.relative, self.rounding = _centred(self.reward), Rounding()

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, num_states: int, num_actions: int, discount: float) -> "MDP":
        """Make a sparse MDP from a list of all outcomes; one next state may be listed with several rewards.

        Args:
            outcomes: Parallel vectors: state, action, next state, probability, reward.
            num_states: Number of states.
            num_actions: Number of actions.
            discount: Discount factor in [0, 1).

        Returns:
            The MDP.

        Raises:
            ValueError: If an index is out of range, or the probabilities of a state and action do not sum to 1.
        """
        raw = _outcomes.Outcomes(*(np.asarray(column) for column in outcomes))
        scaled = _outcomes.checked_outcomes(raw, num_states, num_actions)
        kernels = []
        for action in range(num_actions):
            mine = raw.action == action  # the probabilities as given, so that a row that does not sum to 1 is seen
            entries = raw.probability[mine], (raw.state[mine], raw.next_state[mine])
            kernels.append(sp.csr_array(entries, shape=(num_states, num_states)))
        mdp = cls(kernels, np.zeros((num_states, num_actions)), discount)
        mdp._price(scaled)
        return mdp

    def _price(self, outcomes: Outcomes) -> None:
        check_span(outcomes.reward, self.discount)
        self._outcomes, self.reward = outcomes, outcomes.mean_reward(self.shape)
        centred = outcomes._replace(reward=_centred(outcomes.reward))
        self.relative = self.reward if centred.reward is outcomes.reward else centred.mean_reward(self.shape)
        terms = np.bincount(outcomes.state * self.num_actions + outcomes.action).max()
        self.rounding = Rounding(_summed(int(terms), centred.reward))

    @property
    def num_states(self) -> int:
        """Number of states."""
        return self.transition[0].shape[-1]

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return len(self.transition) if isinstance(self.transition, tuple) else self.transition.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states and actions."""
        return self.num_states, self.num_actions

    @property
    def kernels(self) -> list[Matrix]:
        """The S×S transition matrix of each action."""
        if isinstance(self.transition, tuple):
            return list(self.transition)
        return [self.transition[:, action] for action in range(self.num_actions)]

    def __repr__(self) -> str:
        return f"MDP(num_states={self.num_states}, num_actions={self.num_actions}, discount={self.discount})"

    def outcomes(self) -> Outcomes:
        """List all outcomes, sorted by state, action and next state."""
        return self._outcomes if self._outcomes is not None else _outcomes.unpriced(self.kernels, self.reward)

    def with_discount(self, discount: float) -> "MDP":
        """The MDP with another discount factor, sharing its arrays."""
        other = copy(self)
        other.discount = checked_discount(discount)
        check_span(self.reward if self._outcomes is None else self._outcomes.reward, other.discount)
        return other

    def action_chains(self) -> list[Chain]:
        """One chain an action: what the policy that always takes it makes of the MDP."""
        chains = [Chain(kernel, self.reward[:, a], self.discount) for a, kernel in enumerate(self.kernels)]
        for action, chain in enumerate(chains):
            chain.relative, chain.rounding = self.relative[:, action], self.rounding
        return chains

    def chain(self, policy: Any = "uniform", *, reward: Reward = "mean") -> Chain:
        r"""The chain of a policy, $P^\pi_x = \sum_a \pi(a|x) P^a_x$ and $r^\pi$.

        Args:
            policy: Probabilities [S, A], or "uniform".
            reward: "sampled" keeps the distribution of each state's reward as well, "mean" its mean alone.

        Returns:
            The chain.

        Raises:
            ValueError: If the policy has another shape, or no distributions in its rows.
        """
        probs = checked_policy(policy, self.shape)
        if reward not in ("mean", "sampled"):
            raise ValueError(f"reward must be 'mean' or 'sampled', not {reward!r}")
        if isinstance(self.transition, tuple):
            parts = (sp.diags_array(probs[:, a]) @ kernel for a, kernel in enumerate(self.transition))
            transition = sum(parts, start=sp.csr_array((self.num_states, self.num_states)))
        else:
            transition = np.matmul(probs[:, None, :], self.transition)[:, 0]
        possible = self.outcomes() if reward == "sampled" else None
        law = None if possible is None else possible.law(probs)
        chain = Chain(transition, (probs * self.reward).sum(axis=1), self.discount, law=law)
        chain.relative = checked_reward((probs * self.relative).sum(axis=1), (self.num_states,))
        mixed = int((probs > 0).sum(axis=1).max())
        sums = (mixed + 4) * _EPS if mixed > 1 else 0.0  # of rewards: a policy that mixes nothing sums nothing
        if possible is not None and law is not None:
            by_rewards = _summed(int(np.bincount(possible.state).max()) + law.levels.size, law.levels - law.levels[0])
        else:
            by_rewards = self.rounding.reward + sums * float(np.abs(self.relative).max())
        chain.rounding = Rounding(by_rewards, (mixed + longest_row(chain.transition) + 4) * _EPS)
        return chain

    def lifted(self, policy: Any = "uniform") -> "MDP":
        r"""The auxiliary MDP of the paper's lemma: states $X^2$, actions $A^2$, reward $|r^\pi_x - r^\pi_y|$.

        Its value under the policy `np.kron(pi, pi)` is the MICo distance.
        """
        kernels = [sp.csr_array(kernel) for kernel in self.kernels]
        pairs = [sp.kron(one, two, format="csr") for one in kernels for two in kernels]
        gap = self.chain(policy).reward_gap().ravel()
        return MDP(pairs, np.repeat(gap[:, None], len(pairs), axis=1), self.discount)


def _centred(reward: np.ndarray) -> np.ndarray:
    """Rewards less their middle, if they are farther from 0 than from each other: digits are for differences."""
    low, high = float(reward.min()), float(reward.max())
    middle = low / 2 + high / 2
    return checked_reward(reward - middle, reward.shape) if abs(middle) > high - low else reward


def _excess(shares: Float[np.ndarray, "S k"], levels: Float[np.ndarray, " k"]) -> Float[np.ndarray, "S k"]:
    r"""$\mathbb E(z_j - R)^+$ at each level: the distribution function, summed up to it."""
    return np.pad((shares.cumsum(axis=1)[:, :-1] * np.diff(levels)).cumsum(axis=1), ((0, 0), (1, 0)))


def longest_row(matrix: Matrix) -> int:
    """How many numbers the sum that made a row a distribution had at most."""
    rows = np.count_nonzero(matrix, axis=1) if isinstance(matrix, np.ndarray) else np.diff(matrix.indptr)
    return int(rows.max())


def _summed(terms: int, numbers: np.ndarray) -> float:
    """What rounding can do to a mean of so many of the numbers by weights that are rounded too."""
    return (terms + 4) * _EPS * float(np.abs(numbers).max())


def _iterative_solve(system: sp.csr_array, reward: np.ndarray) -> np.ndarray:
    """Krylov solutions of what is left, again and again; plain sweeps, which always converge, where they stall."""
    terms = longest_row(system) + 8
    value, residual, stalled = np.zeros_like(reward), reward, False
    while (size := np.abs(residual).max()) > terms * np.finfo(float).eps * np.abs(value).max():
        step = residual if stalled else gmres(system, residual, rtol=1e-8, restart=50, maxiter=10)[0]
        left = reward - system @ (value + step)
        if not stalled and np.abs(left).max() > size / 2:
            stalled = True
        else:
            value, residual = value + step, left
    return value
