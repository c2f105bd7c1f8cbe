"""Finite Markov decision processes, validated once, with arrays that are read-only afterwards."""

from copy import copy
from typing import Any, Literal, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from mico.tabular import outcomes as _outcomes
from mico.tabular._rounding import EXACT, UNIT, Rounding, centred, longest_row, mean_rounding, normalising
from mico.tabular._validation import (
    Matrix,
    check_span,
    checked_discount,
    checked_kernel,
    checked_policy,
    checked_reward,
    is_sparse_list,
    numbers,
)
from mico.tabular.chain import Chain, lifted_rounding
from mico.tabular.outcomes import Outcomes

Reward = Literal["mean", "sampled"]


@final
class MDP:
    """A finite Markov decision process.

    A terminal state is an absorbing state without reward: every action leads back to it and has reward 0.

    Args:
        transition: Probabilities: an array [S, A, S], or a sequence of A sparse matrices [S, S], one for each action.
        reward: By state and action [S, A]; or by transition, [S, A, S] or a sequence of A sparse matrices.
        discount: Discount factor in [0, 1).
        relative: The rewards less `middle`, [S, A], where their differences have more digits than those of `reward`.
        middle: The constant that `relative` is without.
        rounding: How far transitions and rewards can be from the numbers they stand for; every certified error includes
            it.

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

    def __init__(
        self,
        transition: Any,
        reward: Any,
        discount: float,
        *,
        relative: Any = None,
        middle: float = 0.0,
        rounding: Rounding = EXACT,
    ):
        self.discount = checked_discount(discount)
        self.transition: np.ndarray | tuple[sp.csr_array, ...] = checked_kernel(transition)
        # `relative` and `middle` together are the reward, with all digits of differences.
        self.reward: Float[np.ndarray, "S A"]
        self.relative: Float[np.ndarray, "S A"]
        given = reward if is_sparse_list(reward) or isinstance(reward, Outcomes) else numbers("reward", reward)
        self._outcomes: Outcomes | None = None
        if isinstance(given, Outcomes):  # checked by `from_outcomes`, the door for lists
            self._outcomes = given
        elif is_sparse_list(given) or given.ndim == 3:
            self._outcomes = _outcomes.priced(self.kernels, given)
        if self._outcomes is None:
            self.reward, by_means = checked_reward(given, self.shape), 0.0
            self.relative, self.middle = centred(self.reward)
            if relative is not None:
                self.relative, self.middle = checked_reward(relative, self.shape), float(middle)
        else:
            self.reward = self._outcomes.mean_reward(self.shape)
            apart, self.middle = centred(self._outcomes.reward)
            same = apart is self._outcomes.reward
            self.relative = self.reward if same else self._outcomes._replace(reward=apart).mean_reward(self.shape)
            by_means = mean_rounding(self._outcomes.most(self.num_actions), float(np.abs(apart).max()))
        check_span(self.reward if self._outcomes is None else self._outcomes.reward, self.discount)
        sums = max(map(longest_row, transition if isinstance(self.transition, tuple) else self.kernels))
        self.rounding = rounding.plus(by_means, normalising(sums))

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

        Examples:
            >>> tossed = Outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0])
            >>> MDP.from_outcomes(tossed, num_states=1, num_actions=1, discount=0.9).reward
            array([[0.5]])
        """
        raw = _outcomes.read_outcomes(outcomes)
        scaled = _outcomes.checked_outcomes(raw, num_states, num_actions)
        kernels = []
        for action in range(num_actions):
            mine = raw.action == action  # the probabilities as given, so that a row that does not sum to 1 is seen
            entries = raw.probability[mine], (raw.state[mine], raw.next_state[mine])
            kernels.append(sp.csr_array(entries, shape=(num_states, num_states)))
        return cls(kernels, scaled, discount)

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

    @property
    def has_outcome_rewards(self) -> bool:
        """Whether rewards were given by transition or outcome, not by state and action alone."""
        return self._outcomes is not None

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
        return [
            Chain(
                kernel,
                self.reward[:, a],
                self.discount,
                relative=self.relative[:, a],
                middle=self.middle,
                rounding=self.rounding,
            )
            for a, kernel in enumerate(self.kernels)
        ]

    def chain(self, policy: Any = "uniform", *, reward: Reward = "mean") -> Chain:
        r"""The chain of a policy, $P^\pi_x = \sum_a \pi(a|x) P^a_x$ and $r^\pi$.

        Args:
            policy: Probabilities [S, A], or "uniform".
            reward: "sampled" keeps the distribution of each state's reward as well, "mean" its mean alone.

        Returns:
            The chain.

        Raises:
            ValueError: If the policy has another shape, or no distributions in its rows.

        Examples:
            >>> stay, go = [1.0, 0.0], [0.0, 1.0]
            >>> mdp = MDP(transition=[[stay, go], [go, go]], reward=[[0.0, 1.0], [0.0, 0.0]], discount=0.9)
            >>> mdp.chain([[0.25, 0.75], [1.0, 0.0]]).reward
            array([0.75, 0.  ])
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
        mixed = int((probs > 0).sum(axis=1).max())  # a policy that mixes nothing sums nothing
        largest = float(np.abs(self.relative).max())
        by_means = mean_rounding(mixed, largest) if possible is None else possible.law_rounding()
        by_sums = normalising(mixed) + (mixed * UNIT if mixed > 1 else 0.0)  # the policy's rows; products and sums
        return Chain(
            transition,
            (probs * self.reward).sum(axis=1),
            self.discount,
            law=law,
            relative=(probs * self.relative).sum(axis=1),
            middle=self.middle,
            rounding=self.rounding.plus(by_means, by_sums),
        )

    def lifted(self, policy: Any = "uniform") -> "MDP":
        r"""The auxiliary MDP of the paper's lemma: states $X^2$, actions $A^2$, reward $|r^\pi_x - r^\pi_y|$.

        Its value under the policy `np.kron(pi, pi)` is the MICo distance.
        """
        kernels = [sp.csr_array(kernel) for kernel in self.kernels]
        pairs = [sp.kron(one, two, format="csr") for one in kernels for two in kernels]
        chain = self.chain(policy)
        gap = chain.reward_gap().ravel()
        rounding = lifted_rounding(Rounding(chain.rounding.reward, self.rounding.transition), gap)
        return MDP(pairs, np.repeat(gap[:, None], len(pairs), axis=1), self.discount, rounding=rounding)
