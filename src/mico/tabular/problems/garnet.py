"""Garnets: random MDPs (Archibald et al., 1995), by the paper's recipe."""

from typing import Literal

import numpy as np
import scipy.sparse as sp

from mico.tabular._validation import check_whole
from mico.tabular.mdp import MDP
from mico.tabular.problems.problem import Problem

Branching = Literal["printed", "n-1"]


def garnet(
    num_states: int = 20,
    num_actions: int = 4,
    *,
    seed: int,
    discount: float = 0.9,
    branching: Branching = "printed",
) -> Problem:
    r"""A random MDP by the paper's Garnet recipe.

    In $\text{Garnet}(n_X, n_A)$ each action has $b_{x,a}$ next states with uniform weights, normalised; rewards are
    uniform in [0, 1].

    Args:
        num_states: Number of states.
        num_actions: Number of actions in each state.
        seed: Seed of the random draws that make the MDP: one seed always gives one MDP.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        branching: How many next states an action may have: `printed` draws from 1 to num_states, as the paper says,
            `n-1` from 1 to num_states - 1, as the released generators do.

    Returns:
        The problem, with a dense MDP.

    Raises:
        ValueError: If a number is too small.

    Examples:
        >>> garnet(3, 2, seed=0)
        Problem(num_states=3, num_actions=2, discount=0.9)
    """
    for name, number, least in (("num_states", num_states, 1), ("num_actions", num_actions, 1), ("seed", seed, 0)):
        check_whole(name, number, least)
    if branching not in ("printed", "n-1"):
        raise ValueError(f"branching must be 'printed' or 'n-1', not {branching!r}")
    rng = np.random.default_rng(seed)
    most = num_states if branching == "printed" else max(1, num_states - 1)
    count = rng.integers(1, most + 1, size=(num_states, num_actions, 1))
    shape = (num_states, num_actions, num_states)
    shuffled = rng.random(shape).argsort(axis=2)  # its first `count` entries are a uniform draw without replacement
    weight = np.where(np.arange(num_states) < count, 1 - rng.random(shape), 0.0)  # in (0, 1], so no row sums to 0
    kernel = np.empty(shape)
    np.put_along_axis(kernel, shuffled, weight / weight.sum(axis=2, keepdims=True), axis=2)
    return Problem(MDP(kernel, rng.random((num_states, num_actions)), discount))


def sparse_garnet(
    *,
    seed: int,
    num_states: int = 100,
    num_actions: int = 2,
    next_states: int = 3,
    levels: int = 3,
    discount: float = 0.9,
) -> Problem:
    """A random MDP with a few next states for each action, whose rewards are of the state and of a few levels.

    Next states are distinct and drawn evenly, their weights are uniform numbers, normalised; each state has one of
    `levels` rewards, even steps from 0 to 1, whatever the action.

    Args:
        seed: Seed of the random draws that make the MDP: one seed always gives one MDP.
        num_states: Number of states.
        num_actions: Number of actions in each state.
        next_states: Number of next states that each action can lead to.
        levels: Number of different rewards, evenly spaced from 0 to 1.
        discount: Discount factor γ of the MDP, at least 0 and below 1.

    Returns:
        The problem, with a sparse MDP.

    Raises:
        ValueError: If a number is too small, or there are fewer states than next states.

    Examples:
        >>> sparse_garnet(seed=0, num_states=1000)
        Problem(num_states=1000, num_actions=2, discount=0.9)
    """
    counts = (("num_states", num_states, 1), ("num_actions", num_actions, 1), ("next_states", next_states, 1))
    for name, number, least in (*counts, ("levels", levels, 2), ("seed", seed, 0)):
        check_whole(name, number, least)
    if next_states > num_states:
        raise ValueError(f"next_states must be at most num_states, {num_states}, but is {next_states}")
    rng = np.random.default_rng(seed)
    rows = num_states * num_actions
    weight = 1 - rng.random((rows, next_states))  # in (0, 1], so no row sums to 0
    following = np.array([rng.choice(num_states, next_states, replace=False, shuffle=False) for _ in range(rows)])
    reward = rng.integers(levels, size=num_states) / (levels - 1)
    chance = weight / weight.sum(axis=1, keepdims=True)
    starts, shape = np.arange(0, num_states * next_states + 1, next_states), (num_states, num_actions, next_states)
    columns = zip(*(np.moveaxis(each.reshape(shape), 1, 0) for each in (chance, following)), strict=True)
    kernels = [sp.csr_array((p.ravel(), y.ravel(), starts), shape=(num_states, num_states)) for p, y in columns]
    return Problem(MDP(kernels, np.repeat(reward[:, None], num_actions, axis=1), discount))
