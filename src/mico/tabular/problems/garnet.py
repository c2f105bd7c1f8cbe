"""Garnets: random MDPs (Archibald et al., 1995), by the paper's recipe."""

from typing import Literal

import numpy as np

from mico.tabular.mdp import MDP
from mico.tabular.problems.problem import Problem

Branching = Literal["printed", "n-1"]


def garnet(
    num_states: int, num_actions: int, *, seed: int, discount: float = 0.9, branching: Branching = "printed"
) -> MDP:
    r"""$\text{Garnet}(n_X, n_A)$: $b_{x,a}$ next states with uniform weights, normalised; rewards uniform in [0, 1].

    `branching="printed"` draws $b_{x,a}$ uniformly from $1 \dots n_X$, `"n-1"` from $1 \dots n_X - 1$ as the released
    generators do.
    """
    for name, number in (("num_states", num_states), ("num_actions", num_actions)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, but is {number}")
    if branching not in ("printed", "n-1"):
        raise ValueError(f"branching must be 'printed' or 'n-1', not {branching!r}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, but is {seed}")
    rng = np.random.default_rng(seed)
    most = num_states if branching == "printed" else max(1, num_states - 1)
    count = rng.integers(1, most + 1, size=(num_states, num_actions, 1))
    shape = (num_states, num_actions, num_states)
    shuffled = rng.random(shape).argsort(axis=2)  # its first `count` entries are a uniform draw without replacement
    weight = np.where(np.arange(num_states) < count, 1 - rng.random(shape), 0.0)  # in (0, 1], so no row sums to 0
    kernel = np.empty(shape)
    np.put_along_axis(kernel, shuffled, weight / weight.sum(axis=2, keepdims=True), axis=2)
    return MDP(kernel, rng.random((num_states, num_actions)), discount)


def garnet_problem(
    *,
    seed: int,
    num_states: int = 20,
    num_actions: int = 4,
    discount: float = 0.9,
    branching: Branching = "printed",
) -> Problem:
    """A random MDP by the paper's Garnet recipe."""
    return Problem(garnet(num_states, num_actions, seed=seed, discount=discount, branching=branching))
