"""The list of all that can happen in an MDP, and the law of the reward that follows from it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from mico.tabular._rounding import UNIT
from mico.tabular._validation import (
    Matrix,
    check_finite,
    check_index,
    check_kind,
    check_whole,
    checked_rows,
    described_array,
    is_sparse_list,
    numbers,
    sparse_list,
)

_SPARE = 2**20  # so many sums of probabilities take 8 MB


class RewardLaw(NamedTuple):
    """The distribution of the reward in each state: `weights[x, j]` is the probability of `levels[j]`, ascending."""

    levels: Float[np.ndarray, " k"]
    weights: sp.csr_array


class Outcomes(NamedTuple):
    """A list of all that can happen in an MDP, as parallel vectors.

    Attributes:
        state: The state in which an action is taken.
        action: The action.
        next_state: Where it leads.
        probability: With what probability, of those of one state and action.
        reward: The reward when it does; one next state may be listed with several.

    Examples:
        >>> import mico.tabular as mt
        >>> mt.make("random-reward").mdp.outcomes().reward
        array([0., 1.])
    """

    state: Int[np.ndarray, " K"]
    action: Int[np.ndarray, " K"]
    next_state: Int[np.ndarray, " K"]
    probability: Float[np.ndarray, " K"]
    reward: Float[np.ndarray, " K"]

    def sorted(self) -> "Outcomes":
        """By state, then action, then next state."""
        order = np.lexsort((self.next_state, self.action, self.state))
        return Outcomes(*(column[order] for column in self))

    def mean_reward(self, shape: tuple[int, int]) -> Float[np.ndarray, "S A"]:
        """The mean reward of each state and action."""
        mean = np.zeros(shape)
        np.add.at(mean, (self.state, self.action), self.probability * self.reward)
        mean.setflags(write=False)
        return mean

    def most(self, num_actions: int) -> int:
        """The largest number of outcomes of a state and an action."""
        return int(np.bincount(self.state * num_actions + self.action).max())

    def law_rounding(self) -> float:
        r"""What rounding can do to half of $\mathbb E|R_x - R_y|$ by the shares of the `law` of any policy.

        With at most m outcomes a state: (m + 2)u each for their probabilities and the policy's, mu for products and
        sums, of the span of rewards. A single outcome has all the mass.
        """
        terms, span = int(np.bincount(self.state).max()), float(np.ptp(self.reward))
        return (3 * terms + 4) * UNIT * span if terms > 1 else 0.0

    def law(self, policy: Float[np.ndarray, "S A"]) -> RewardLaw:
        r"""The law of $R$ in each state when actions follow the policy."""
        mass = self.probability * policy[self.state, self.action]
        possible = mass > 0  # a reward that never comes is no level of the law
        levels, level = np.unique(self.reward[possible], return_inverse=True)
        mass, state = mass[possible], self.state[possible]
        return RewardLaw(levels, sp.csr_array((mass, (state, level)), shape=(policy.shape[0], levels.size)))


def checked_law(law: RewardLaw, reward: Float[np.ndarray, " S"]) -> RewardLaw:
    """Levels that ascend, a distribution over them for each state, and the rewards as its means."""
    check_kind("law", law, RewardLaw, "a RewardLaw")
    levels = numbers("law.levels", law.levels)
    check_finite("law.levels", levels)
    if levels.ndim != 1 or not np.all(np.diff(levels) > 0):
        raise ValueError("law.levels must be a vector of ascending numbers")
    given = law.weights if sp.issparse(law.weights) else numbers("law.weights", law.weights)
    if given.shape != (reward.size, levels.size):
        raise ValueError(f"law.weights has shape {list(given.shape)}, not {[reward.size, levels.size]}")
    weights = checked_rows("law.weights", sp.csr_array(given), lambda row: f"state {row}", "level")
    off = np.abs(weights @ levels - reward) > 1e-6 * np.abs(levels).max()
    if off.any():
        raise ValueError(f"reward of state {int(off.argmax())} is not the mean of its law")
    return RewardLaw(levels, weights)


def read_outcomes(outcomes: Any) -> Outcomes:
    """Five columns as arrays, of whatever the caller gave."""
    if not isinstance(outcomes, Sequence) or isinstance(outcomes, str) or len(outcomes) != len(Outcomes._fields):
        raise ValueError(
            f"outcomes must be five vectors {', '.join(Outcomes._fields)}, got {described_array(outcomes)}"
        )
    for name, column in zip(Outcomes._fields, outcomes, strict=True):
        if np.ma.isMaskedArray(column):
            raise ValueError(f"{name} must be a vector of numbers, got a masked array")
    try:
        return Outcomes(*(np.asarray(column) for column in outcomes))
    except ValueError:  # rows of different lengths
        raise ValueError(f"outcomes must be vectors of one length, got {described_array(outcomes)}") from None


def checked_outcomes(outcomes: Outcomes, num_states: int, num_actions: int) -> Outcomes:
    """Indices in range, numbers finite, and the probabilities of each state and action scaled to sum to 1."""
    columns = read_outcomes(outcomes)
    if len({column.shape for column in columns}) != 1 or columns.state.ndim != 1:
        shapes = ", ".join(f"{name} {list(column.shape)}" for name, column in columns._asdict().items())
        raise ValueError(f"outcomes must be vectors of one length, but are {shapes}")
    for name, number in (("num_states", num_states), ("num_actions", num_actions)):
        check_whole(name, number, 1)
    if num_states * num_actions > columns.state.size + _SPARE:  # of fewer, it is said which one has none
        asked = f"{num_states} · {num_actions} with {columns.state.size} outcomes"
        raise ValueError(f"num_states · num_actions must be at most the number of outcomes, got {asked}")
    for name, bound in (("state", num_states), ("action", num_actions), ("next_state", num_states)):
        check_index(name, getattr(columns, name), bound)
    columns = columns._replace(
        probability=numbers("probability", columns.probability), reward=numbers("reward", columns.reward)
    )
    check_finite("probability", columns.probability)
    check_finite("reward", columns.reward)
    negative = np.flatnonzero(columns.probability < 0)
    if negative.size:
        raise ValueError(f"probability[{negative[0]}] = {columns.probability[negative[0]]} is negative")
    total = np.zeros((num_states, num_actions))
    np.add.at(total, (columns.state, columns.action), columns.probability)
    share = total[columns.state, columns.action]
    mass = np.divide(columns.probability, share, out=np.zeros_like(share), where=share > 0)
    return columns._replace(probability=mass).sorted()


def priced(kernels: list[Matrix], reward: Any) -> Outcomes:
    """The outcomes of one kernel an action when each transition has its own reward, [S, A, S] or sparse."""
    size = kernels[0].shape[0]
    if is_sparse_list(reward):
        prices = list(sparse_list("reward", reward))
        found = [prices[0].shape[0], len(prices), prices[0].shape[0]]
    else:
        array = numbers("reward", reward)
        check_finite("reward", array)
        prices, found = list(array.transpose(1, 0, 2)), list(array.shape)
    if found != [size, len(kernels), size]:
        raise ValueError(f"reward has shape {found}, but transition asks for {[size, len(kernels), size]}")
    for action, price in enumerate(prices):
        if sp.issparse(price):
            check_finite(f"reward of action {action}: data", price.data)
    return _listed(kernels, lambda action, state, next_state: np.ravel(prices[action][state, next_state]))


def unpriced(kernels: list[Matrix], reward: Float[np.ndarray, "S A"]) -> Outcomes:
    """The outcomes when the reward depends on state and action alone."""
    return _listed(kernels, lambda action, state, _: reward[state, action])


def _listed(kernels: list[Matrix], pay: Any) -> Outcomes:
    parts = []
    for action, kernel in enumerate(kernels):
        entries = sp.coo_array(kernel)
        state, next_state = (np.asarray(axis, dtype=np.int64) for axis in entries.coords)
        parts.append((state, np.full_like(state, action), next_state, entries.data, pay(action, state, next_state)))
    return Outcomes(*(np.concatenate(column) for column in zip(*parts, strict=True))).sorted()
