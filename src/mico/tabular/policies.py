"""Policies of a finite MDP as arrays [S, A], the optimal one, and the chains that policies make."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from mico.tabular._validation import ValueLike, check_index, check_whole, checked_policy, checked_value
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP, Reward
from mico.tabular.problems.problem import Model, Problem, as_mdp, described

Policy = Float[np.ndarray, "S A"]
PolicyLike = Any  # an array [S, A], or one of POLICY_NAMES
POLICY_NAMES = ("uniform", "optimal", "problem")


def policy_array(policy: PolicyLike, model: MDP | Problem) -> Policy:
    """Read a policy as an array of probabilities.

    Args:
        policy: An array [S, A] whose rows are distributions; or "uniform", "optimal" (deterministic, by policy
            iteration), or "problem" (the one that the problem comes with).
        model: The problem or MDP that it is a policy of.

    Returns:
        The probabilities [S, A], read-only where they were checked.

    Raises:
        ValueError: If the policy is none of these, or does not fit the model.

    Examples:
        >>> policy_array("uniform", MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.9))
        array([[0.5, 0.5]])
    """
    mdp = as_mdp(model, "model")
    if isinstance(policy, str) and policy not in POLICY_NAMES:
        names = ", ".join(f"'{name}'" for name in POLICY_NAMES)
        raise ValueError(f"policy must be {names} or an array [S, A], got {policy!r}")
    if isinstance(policy, str) and policy == "optimal":
        return optimal_policy(mdp)
    if isinstance(policy, str) and policy == "problem":
        own = model.policy if isinstance(model, Problem) else None
        if own is None:
            raise ValueError("policy must be 'uniform', 'optimal' or an array, got 'problem': this one has no policy")
        return own
    return checked_policy(policy, mdp.shape)


def as_chain(model: Model, policy: PolicyLike = None, *, reward: Reward = "mean", name: str = "model") -> Chain:
    """The Markov chain that a policy makes of a model; the boundary of every function of a chain.

    Args:
        model: A Problem or an MDP; or a Chain, which is returned as it is.
        policy: See `policy_array`; None means the uniform policy. None for a chain, which has its policy in it.
        reward: "sampled" keeps the distribution of each state's reward, "mean" its mean alone.
        name: The parameter that an error names.

    Returns:
        The chain.

    Raises:
        ValueError: If the model is neither of these, or a policy is given with a chain.
    """
    if isinstance(model, Chain):
        if policy is not None:
            raise ValueError("policy must be None for a Chain, which has its policy in it")
        return model
    if not isinstance(model, MDP | Problem):
        raise ValueError(f"{name} must be a Problem, an MDP or a Chain, got {described(model)}")
    if isinstance(policy, str) and policy != "uniform":
        policy = policy_array(policy, model)
    given = "uniform" if policy is None else policy
    return as_mdp(model).chain(given, reward=reward)  # checks an array, and normalises its rows once only


def uniform_policy(mdp: MDP | Problem) -> Policy:
    """Make the policy that takes every action with the same probability.

    Args:
        mdp: A problem or an MDP.

    Returns:
        The probabilities [S, A].

    Raises:
        ValueError: If it is neither.

    Examples:
        >>> uniform_policy(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.9))
        array([[0.5, 0.5]])
    """
    mdp = as_mdp(mdp)
    return np.full(mdp.shape, 1.0 / mdp.num_actions)


def random_policy(mdp: MDP | Problem, *, seed: int, law: Literal["uniform", "dirichlet"] = "uniform") -> Policy:
    """Draw a random stochastic policy.

    Args:
        mdp: A problem or an MDP.
        seed: Seed of the draws.
        law: How rows are drawn: "uniform" normalises uniform numbers, "dirichlet" is flat on the simplex.

    Returns:
        The probabilities [S, A].

    Raises:
        ValueError: If the seed is negative, or the law is neither.

    Examples:
        >>> random_policy(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.9), seed=0).sum(axis=1)
        array([1.])
    """
    if law not in ("uniform", "dirichlet"):
        raise ValueError(f"law must be 'uniform' or 'dirichlet', not {law!r}")
    mdp = as_mdp(mdp)
    check_whole("seed", seed, 0)
    rng = np.random.default_rng(seed)
    rows = rng.random(mdp.shape) if law == "uniform" else rng.standard_exponential(mdp.shape)
    return rows / rows.sum(axis=1, keepdims=True)


def deterministic_policy(mdp: MDP | Problem, actions: Sequence[int] | Int[np.ndarray, " _"]) -> Policy:
    """Make the policy that takes `actions[x]` in state x.

    Args:
        mdp: A problem or an MDP.
        actions: One integer per state.

    Returns:
        The probabilities [S, A], zeros and ones.

    Raises:
        ValueError: If `actions` has not one action of the MDP for each state.

    Examples:
        >>> deterministic_policy(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.9), [1])
        array([[0., 1.]])
    """
    mdp = as_mdp(mdp)
    taken = np.asarray(actions)
    if taken.shape != (mdp.num_states,):
        raise ValueError(f"actions has shape {list(taken.shape)}, not [{mdp.num_states}]")
    check_index("actions", taken, mdp.num_actions)
    return np.eye(mdp.num_actions)[taken]


def action_values(mdp: MDP | Problem, value: ValueLike) -> Float[np.ndarray, "S A"]:
    r"""Compute the values of actions, $Q(x, a) = r^a_x + \gamma \sum_{x'} P^a_x(x') V(x')$.

    Args:
        mdp: A problem or an MDP.
        value: $V$, a number per state.

    Returns:
        $Q$ [S, A].

    Raises:
        ValueError: If `value` has not one finite number for each state.

    Examples:
        >>> action_values(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5), [2.0])
        array([[1., 2.]])
    """
    mdp = as_mdp(mdp)
    value = checked_value("value", value, mdp.num_states)
    return mdp.reward + mdp.discount * np.stack([kernel @ value for kernel in mdp.kernels], axis=1)


def optimal(mdp: MDP | Problem) -> tuple[Float[np.ndarray, " S"], Policy]:
    r"""Compute $V^* = \max_\pi V^\pi$ and a deterministic $\pi^*$, by policy iteration.

    An action is left only for one that is better by more than rounding.

    Args:
        mdp: A problem or an MDP.

    Returns:
        The optimal value [S], and an optimal policy [S, A].

    Raises:
        ValueError: If it is neither.

    Examples:
        >>> value, policy = optimal(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5))
        >>> value, policy
        (array([2.]), array([[0., 1.]]))
    """
    mdp = as_mdp(mdp)
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


def optimal_value(mdp: MDP | Problem) -> Float[np.ndarray, " S"]:
    """Compute the optimal value $V^*$ of each state, by policy iteration.

    Args:
        mdp: A problem or an MDP.

    Returns:
        $V^*$ [S].

    Raises:
        ValueError: If it is neither.

    Examples:
        >>> optimal_value(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5))
        array([2.])
    """
    return optimal(mdp)[0]


def optimal_policy(mdp: MDP | Problem) -> Policy:
    """Find a deterministic optimal policy, by policy iteration.

    Args:
        mdp: A problem or an MDP.

    Returns:
        Its probabilities [S, A], zeros and ones.

    Raises:
        ValueError: If it is neither.

    Examples:
        >>> optimal_policy(MDP([[[1.0], [1.0]]], [[0.0, 1.0]], 0.5))
        array([[0., 1.]])
    """
    return optimal(mdp)[1]
