"""Policies of a finite MDP as arrays [S, A], and the optimal one."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from mico.tabular.mdp import MDP
from mico.tabular.validation import check_index, check_kind, check_whole

Policy = Float[np.ndarray, "S A"]


def uniform_policy(mdp: MDP) -> Policy:
    check_kind("mdp", mdp, MDP, "an MDP")
    return np.full(mdp.shape, 1.0 / mdp.num_actions)


def random_policy(mdp: MDP, *, seed: int, law: Literal["uniform", "dirichlet"] = "uniform") -> Policy:
    """A stochastic policy: each row uniform numbers, normalised; or flat on the simplex (Dirichlet)."""
    if law not in ("uniform", "dirichlet"):
        raise ValueError(f"law must be 'uniform' or 'dirichlet', not {law!r}")
    check_kind("mdp", mdp, MDP, "an MDP")
    check_whole("seed", seed, 0)
    rng = np.random.default_rng(seed)
    rows = rng.random(mdp.shape) if law == "uniform" else rng.standard_exponential(mdp.shape)
    return rows / rows.sum(axis=1, keepdims=True)


def deterministic_policy(mdp: MDP, actions: Any) -> Policy:
    """The policy that takes `actions[x]`, an integer, in state x."""
    check_kind("mdp", mdp, MDP, "an MDP")
    taken = np.asarray(actions)
    if taken.shape != (mdp.num_states,):
        raise ValueError(f"actions has shape {list(taken.shape)}, not [{mdp.num_states}]")
    check_index("actions", taken, mdp.num_actions)
    return np.eye(mdp.num_actions)[taken]


def action_values(mdp: MDP, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
    r"""$Q(x, a) = r^a_x + \gamma \sum_{x'} P^a_x(x') V(x')$."""
    return mdp.reward + mdp.discount * np.stack([kernel @ value for kernel in mdp.kernels], axis=1)


def optimal(mdp: MDP) -> tuple[Float[np.ndarray, " S"], Policy]:
    r"""$V^*$ and a deterministic $\pi^*$, by policy iteration; an action is left only for one that is truly better."""
    check_kind("mdp", mdp, MDP, "an MDP")
    actions = mdp.reward.argmax(axis=1)
    best = -np.inf
    while True:
        policy = deterministic_policy(mdp, actions)
        value = mdp.chain(policy).value()
        scores = action_values(mdp, value)
        slack = 32 * np.finfo(float).eps * float(np.abs(value).max())
        better = scores.max(axis=1) > scores[np.arange(mdp.num_states), actions] + slack
        if not better.any() or value.sum() <= best:  # what no longer adds value is rounding
            return value, policy
        best, actions = value.sum(), np.where(better, scores.argmax(axis=1), actions)


def optimal_value(mdp: MDP) -> Float[np.ndarray, " S"]:
    return optimal(mdp)[0]


def optimal_policy(mdp: MDP) -> Policy:
    return optimal(mdp)[1]
