"""Behavioural metrics of finite MDPs, exact to a certified error. To register one is to give it a name and tests."""

import difflib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mico.tabular.mdp import MDP, Chain, Reward
from mico.tabular.metrics import bisimulation, lax, mico, reward_law
from mico.tabular.metrics._operator import Operator, Solution, ToleranceWarning
from mico.tabular.metrics._progress import watch
from mico.tabular.metrics.factored import FactoredMICo, factored_mico
from mico.tabular.validation import check_tolerance, numbers

__all__ = ["METRICS", "FactoredMICo", "Metric", "Solution", "ToleranceWarning", "distance", "factored_mico", "watch"]


@final
@dataclass(frozen=True)
class Metric:
    """A metric of a policy's chain (`on="policy"`) or of the MDP alone (`on="mdp"`)."""

    summary: str
    on: str
    solve: Callable[[Any, float], Solution]  # (Chain or MDP, tolerance)
    update: Callable[[Any], Operator] | None = None  # the operator it is the fixed point of
    rewards: tuple[str, ...] = ("mean",)
    solve_many: Callable[[Sequence[Chain], float], Solution] | None = None  # where a batch is more than its members

    def subject(self, mdp: MDP | Chain, policy: Any = None, reward: Reward = "mean") -> MDP | Chain:
        """What the metric is a metric of: the MDP, or the chain that the policy (uniform if None) makes of it."""
        if reward not in self.rewards:
            raise ValueError(f"reward must be {' or '.join(map(repr, self.rewards))} for this metric, not {reward!r}")
        if not isinstance(mdp, MDP | Chain):
            raise ValueError(f"mdp must be an MDP or a Chain, not {type(mdp).__name__}")
        if self.on == "mdp" or isinstance(mdp, Chain):
            if policy is not None:
                what = "a chain has its policy in it" if isinstance(mdp, Chain) else "this metric is of the MDP alone"
                raise ValueError(f"policy must be None: {what}")
            if self.on == "mdp" and isinstance(mdp, Chain):
                raise ValueError("mdp must be an MDP, not a Chain: this metric compares actions")
            return mdp if isinstance(mdp, MDP) else _with_rewards(mdp, reward)
        return mdp.chain("uniform" if policy is None else policy, reward=reward)

    def operator(self, mdp: MDP | Chain, policy: Any = None) -> Operator:
        if self.update is None:
            raise ValueError("this metric is derived, not the fixed point of an operator")
        return self.update(self.subject(mdp, policy))


METRICS: dict[str, Metric] = {
    "mico": Metric(
        "MICo distance U: rewards now, and later under the independent coupling",
        "policy",
        mico.solve,
        mico.update,
        rewards=("mean", "sampled"),
        solve_many=mico.solve_many,
    ),
    "reduced-mico": Metric(
        "reduced MICo distance ΠU: U less half of both self-distances",
        "policy",
        mico.solve_reduced,
        rewards=("mean", "sampled"),
        solve_many=mico.solve_many_reduced,
    ),
    "pi-bisimulation": Metric(
        "π-bisimulation: as U, but under the best coupling",
        "policy",
        bisimulation.solve_policy,
        bisimulation.policy_update,
    ),
    "bisimulation": Metric(
        "bisimulation: the worst action, under the best coupling", "mdp", bisimulation.solve, bisimulation.update
    ),
    "lax-bisimulation": Metric(
        "lax bisimulation: each action against the best match among the other state's", "mdp", lax.solve, lax.update
    ),
    "reward-law": Metric(
        "reward-law distance W_sum: how far apart the laws of later rewards are", "policy", reward_law.solve
    ),
}


def metric_named(name: str, given_as: str = "name") -> Metric:
    """The registered metric of that name, or an error that says as what the name was given."""
    asked = name if isinstance(name, str) else ""
    if asked not in METRICS:
        near = difflib.get_close_matches(asked, METRICS, n=2, cutoff=0.3) or list(METRICS)
        raise ValueError(f"{given_as} must be one of the metrics, not {name!r}; near it: {', '.join(near)}")
    return METRICS[asked]


def distance(
    name: str, mdp: MDP | Chain, policy: Any = None, *, tolerance: float = 1e-8, reward: Reward = "mean"
) -> Solution:
    """The metric `name` between all pairs of states, each entry within the certified `error` of the exact one.

    `policy` is an array [S, A] or "uniform" (also what None means, for the metrics of a policy); a batch of policies
    [B, S, A] gives a value [B, S, S] and the largest error. `reward="sampled"` compares draws of the rewards instead of
    their means (for `mico` and `reduced-mico`). Where float64 cannot reach the tolerance, the honest error comes back
    with a warning.
    """
    metric = metric_named(name)
    check_tolerance(tolerance)
    given = policy if policy is None or isinstance(policy, str) else numbers("policy", policy)
    if isinstance(given, np.ndarray) and given.ndim == 3 and len(given):
        solution = _solve_many(metric, [metric.subject(mdp, one, reward) for one in given], tolerance)
    else:
        solution = metric.solve(metric.subject(mdp, given, reward), tolerance)
    if solution.error > tolerance:
        message = f"{name}: the certified error is {solution.error:.3g}, more than the tolerance {tolerance:.3g}"
        warnings.warn(message, ToleranceWarning, stacklevel=2)
    return solution


def _with_rewards(chain: Chain, reward: Reward) -> Chain:
    """The chain, which must have been made for the same reading of rewards."""
    made = "mean" if chain.law is None else "sampled"
    if reward != made:
        raise ValueError(f"reward={reward!r}, but this chain was made with reward={made!r}")
    return chain


def _solve_many(metric: Metric, chains: Sequence[Any], tolerance: float) -> Solution:
    if metric.solve_many is not None:
        return metric.solve_many(chains, tolerance)
    each = [metric.solve(chain, tolerance) for chain in chains]
    error, iterations = max(solution.error for solution in each), max(solution.iterations for solution in each)
    return Solution(np.stack([solution.value for solution in each]), error, iterations)
