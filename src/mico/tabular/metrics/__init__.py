"""Behavioural metrics of finite MDPs, exact to a certified error. To register one is to give it a name and tests."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final, get_args

import numpy as np

from mico._registry import Registry
from mico.tabular._validation import check_tolerance, check_whole, numbers
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP, Reward
from mico.tabular.metrics import bisimulation, lax_bisimulation, mico, reward_law
from mico.tabular.metrics._classes import solve_on_classes
from mico.tabular.metrics._operator import Operator
from mico.tabular.metrics._union import union
from mico.tabular.metrics.factored import Kind, MICoFactors, factorise, has_few_rewards
from mico.tabular.metrics.solution import Method, Neighbours, Solution
from mico.tabular.policies import Policy, PolicyLike, as_chain, policy_array
from mico.tabular.problems.problem import Model, Problem, as_mdp
from mico.tabular.solvers.krylov import BASES, Backend
from mico.tabular.solvers.progress import watch
from mico.tabular.solvers.result import SolverResult, ToleranceWarning

__all__ = [
    "METRICS",
    "MICoFactors",
    "Metric",
    "Neighbours",
    "Solution",
    "SolverResult",
    "ToleranceWarning",
    "factored_mico",
    "register_metric",
    "solve",
    "solve_policies",
    "watch",
]

_FACTORED = ("mico", "reduced-mico")
_SMALL = 1000  # states up to which a dense solution takes a few seconds at most
_LARGEST_DENSE = 20_000  # states whose dense solution holds several matrices of 3.2 GB; "dense" must be asked for


@final
@dataclass(frozen=True)
class Metric:
    """A metric between states: what it is of, and how it is solved.

    Args:
        summary: A line about it, for lists.
        on: "policy" for a metric of a policy's chain, "mdp" for one of the MDP alone, which compares actions.
        solve: A function of a Chain (or MDP) and a tolerance that returns a `SolverResult`, whose error must hold for
            every entry, rounding included.
        update: Of a metric that is the fixed point of an operator: a function of a Chain (or MDP) that returns the
            operator, a function of a matrix of distances.
        rewards: The ways in which rewards may be compared: "mean", "sampled".
        solve_many: A function of many chains at once, where that is faster.

    Raises:
        ValueError: If `on` or `rewards` is none of these, or `solve` is no function.

    Examples:
        >>> import mico.tabular as mt
        >>> mt.METRICS["mico"].on, mt.METRICS["bisimulation"].on
        ('policy', 'mdp')
    """

    summary: str
    on: str
    solve: Callable[[Any, float], SolverResult]  # (Chain or MDP, tolerance)
    update: Callable[[Any], Operator] | None = None  # the operator it is the fixed point of
    rewards: tuple[str, ...] = ("mean",)
    solve_many: Callable[[Sequence[Chain], float], SolverResult] | None = None  # where a batch is solved at once
    by_classes: bool = False  # whether it is 0 between bisimilar states, so that it is solved on their classes

    def __post_init__(self) -> None:
        if self.on not in ("policy", "mdp"):
            raise ValueError(f"on must be 'policy' or 'mdp', got {self.on!r}")
        if not callable(self.solve):
            raise ValueError(f"solve must be a function, got {self.solve!r}")
        if not self.rewards or not {*self.rewards} <= {"mean", "sampled"}:
            raise ValueError(f"rewards must be of 'mean' and 'sampled', got {self.rewards!r}")

    def subject(self, model: Model, policy: PolicyLike = None, reward: Reward = "mean") -> MDP | Chain:
        """The MDP that the metric compares, or the chain that the policy (uniform if None) makes of it."""
        if reward not in self.rewards:
            raise ValueError(f"reward must be {' or '.join(map(repr, self.rewards))} for this metric, not {reward!r}")
        if self.on == "policy":
            chain = as_chain(model, policy, reward=reward)
            made = "mean" if chain.law is None else "sampled"
            if reward != made:
                raise ValueError(f"reward must be {made!r} for this chain, which was made with it, got {reward!r}")
            return chain
        mdp = as_mdp(model, "model")
        if policy is not None:
            raise ValueError("policy must be None for this metric, which is of the MDP alone and compares its actions")
        return mdp

    def operator(self, model: Model, policy: PolicyLike = None) -> Operator:
        """The operator that the metric is the fixed point of, as a function of a matrix of distances."""
        if self.update is None:
            raise ValueError("this metric is derived, not the fixed point of an operator")
        return self.update(self.subject(model, policy))


_BUILT_IN: dict[str, Metric] = {
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
        by_classes=True,
    ),
    "bisimulation": Metric(
        "bisimulation: the worst action, under the best coupling",
        "mdp",
        bisimulation.solve,
        bisimulation.update,
    ),
    "lax-bisimulation": Metric(
        "lax bisimulation: each action against the best match among the other state's",
        "mdp",
        lax_bisimulation.solve,
        lax_bisimulation.update,
        by_classes=True,
    ),
    "reward-law": Metric(
        "reward-law distance W_sum: how far apart the laws of later rewards are",
        "policy",
        reward_law.solve,
    ),
}


def _checked_metric(name: str, metric: Any) -> Metric:
    """A `Metric`; whether its error holds `mico.testing` checks."""
    if not isinstance(metric, Metric):
        raise ValueError(f"metric must be a Metric, got {metric!r} as {name}")
    return metric


METRICS: Registry[Metric] = Registry("metric", "mico.metrics", _BUILT_IN, check=_checked_metric)
"""The metrics that have a name."""


def register_metric(name: str, metric: Metric, *, replace: bool = False) -> None:
    """Make a metric known by a name: `mico.solve(NAME, …)`, `mico metric --metric NAME`, `mico explore`.

    A package can do the same by an entry point of the group `mico.metrics`.

    Args:
        name: The name, such as "value-gap".
        metric: What it is of, and its solver with a certified error.
        replace: Whether to take the place of a metric that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or it is no `Metric`.

    Examples:
        >>> import mico
        >>> from mico.tabular import Metric, SolverResult
        >>> def solve_gap(chain, tolerance):
        ...     return SolverResult(chain.reward_gap(), 0.0, 0)
        >>> mico.register_metric("reward-gap", Metric("difference of rewards", "policy", solve_gap), replace=True)
        >>> mico.solve("reward-gap", mico.make("two-state")).matrix
        array([[0., 1.],
               [1., 0.]])
    """
    METRICS.register(name, metric, replace=replace)


def metric_named(name: str, given_as: str = "metric") -> Metric:
    """Look up a metric by name; an error names the parameter `given_as`."""
    return METRICS.look_up(name, given_as)


def solve(
    metric: str,
    model: Model,
    policy: PolicyLike = None,
    *,
    other: Model | None = None,
    other_policy: PolicyLike = None,
    tolerance: float = 1e-8,
    reward: Reward = "mean",
    method: Method = "auto",
) -> Solution:
    r"""Compute a behavioural metric between all states of a model, or of two models, to a certified error.

    With $r^\pi$ and $P^\pi$ of the policy, discount $\gamma$, and $\mathcal W_d$ the Kantorovich distance for $d$:

    - mico: $U(x,y) = |r^\pi_x - r^\pi_y| + \gamma\, \mathbb E_{x' \sim P^\pi_x,\, y' \sim P^\pi_y}[U(x', y')]$
    - reduced-mico: $\Pi U(x,y) = U(x,y) - \tfrac12 U(x,x) - \tfrac12 U(y,y)$
    - pi-bisimulation: $d(x,y) = |r^\pi_x - r^\pi_y| + \gamma\, \mathcal W_d(P^\pi_x, P^\pi_y)$
    - bisimulation: $d(x,y) = \max_a |r^a_x - r^a_y| + \gamma\, \mathcal W_d(P^a_x, P^a_y)$
    - lax-bisimulation: the Hausdorff distance of the actions of x and y, for
      $\delta(a, b) = |r^a_x - r^b_y| + \gamma\, \mathcal W_d(P^a_x, P^b_y)$
    - reward-law: $W_\text{sum}(x,y) = \sum_t \gamma^t\, W_1(F^x_t, F^y_t)$, where $F^x_t$ is the law of the reward of
      the state at time t that x leads to

    Args:
        metric: Name of the metric, a key of `METRICS`: "mico", "reduced-mico", "pi-bisimulation", "bisimulation",
            "lax-bisimulation" or "reward-law".
        model: A Problem, an MDP or a Chain. Metrics that compare actions (bisimulation, lax-bisimulation) need one of
            the first two.
        policy: The policy that the metric is of: an array [S, A], "uniform", "optimal", or "problem" for the one that
            the problem comes with. None means uniform; a Chain and metrics that compare actions need None.
        other: A second model with the same discount, for the distances from the states of the first to its states. For
            bisimulation, which compares actions by number, it has as many actions.
        other_policy: The policy of the second model, as `policy`.
        tolerance: Largest error of any distance to reach. Where float64 cannot reach it, the error that was reached
            comes back with a `ToleranceWarning`.
        reward: "mean" compares mean rewards; "sampled" compares independent draws of random rewards (for mico and
            reduced-mico).
        method: "dense" computes a matrix. "factored" computes factors from which distances follow when asked for, also
            for a million states; it is for mico and reduced-mico. "auto" takes factors for models of more than 1,000
            states with at most 33 different rewards, and else a matrix; distances between two models are a matrix.

    Returns:
        The solution: distances (`matrix`, `row`, `pairs`, `neighbours`), their certified `error`, `embedding`,
        `check_axioms`, `value_bound`, `plot`, `plot_from`, `to_frame` and `save`.

    Raises:
        ValueError: If an argument is not as described, or the model is too large for any method.

    Examples:
        >>> import mico.tabular as mt
        >>> rooms = mt.make("four-rooms", discount=0.99)
        >>> solution = mt.solve("mico", rooms, "optimal", tolerance=1e-6)
        >>> solution.matrix.shape, solution.error <= 1e-6
        ((104, 104), True)
        >>> mt.solve("mico", mt.make("open-grid", height=50, width=50), tolerance=1e-6).method
        'factored'
        >>> mt.solve("mico", rooms, other=mt.make("two-state", discount=0.99)).matrix.shape
        (104, 2)
    """
    kind = metric_named(metric)
    check_tolerance(tolerance)
    subject, probs = _subject_of(kind, model, policy, reward)
    other_probs = None
    if other is not None:
        second, other_probs = _subject_of(kind, other, other_policy, reward, "other")
        subject = union(subject, second, pad_actions=metric == "lax-bisimulation")
    elif other_policy is not None:
        raise ValueError(f"other_policy must be None where there is no other model, got {other_policy!r}")
    if _chosen_method(metric, subject, method, between=other is not None) == "factored":
        distances = found = factorise(as_chain(subject), tolerance)
        iterations = found.products
    else:
        found = _solve_dense(kind, subject, tolerance)
        size = model.num_states
        distances = found.matrix if other is None else found.matrix[:size, size:].copy()
        iterations = found.iterations
    _warn_above(tolerance, found.error, metric)
    return Solution(
        metric,
        model,
        distances,
        policy=probs,
        other=other,
        other_policy=other_probs,
        reward=reward,
        tolerance=tolerance,
        error=found.error,
        iterations=iterations,
    )


def _subject_of(
    kind: Metric, model: Model, policy: PolicyLike, reward: Reward, name: str = "model"
) -> tuple[MDP | Chain, Policy | None]:
    """What the metric compares of a model, and its policy as an array; an error names the argument."""
    try:
        probs = _policy_of(kind, model, policy)
        is_uniform = policy is None or (isinstance(policy, str) and policy == "uniform")
        return kind.subject(model, policy if is_uniform else probs, reward), probs
    except ValueError as error:
        if name == "model":
            raise
        raise ValueError(f"{name}: {error}") from None


def _solve_dense(kind: Metric, subject: MDP | Chain, tolerance: float) -> SolverResult:
    if kind.by_classes:
        return solve_on_classes(kind.solve, subject, tolerance)
    return kind.solve(subject, tolerance)


def factored_mico(
    model: Model,
    policy: PolicyLike = None,
    *,
    metric: Kind = "mico",
    tolerance: float = 1e-6,
    levels: int | None = None,
    max_basis: int | None = None,
    backend: Backend = "numpy",
) -> Solution:
    """Compute the MICo distance as factors, with options that `solve(..., method="factored")` leaves at their defaults.

    Args:
        model: A Problem, an MDP or a Chain, sparse or dense. The distribution of rewards counts where a chain has it
            (`mdp.chain(policy, reward="sampled")`).
        policy: As in `solve`.
        metric: "mico", or "reduced-mico"; the factors are of both.
        tolerance: Certified error of every entry to reach.
        levels: Largest number of distinct rewards; more are rounded to so many, and `error` includes what that changes.
        max_basis: Largest number of basis vectors, by default as many as fit 2 GiB; where they do not suffice, the
            error that was reached comes back with a `ToleranceWarning`.
        backend: "numpy", or "jax" to work on JAX's default device.

    Returns:
        The solution, whose `factors` know both distances.

    Raises:
        ValueError: If an argument is not as described, or the rewards are too many for a large model without `levels`.

    Examples:
        >>> import mico.tabular as mt
        >>> grid = mt.make("open-grid", height=40, width=40, discount=0.99)
        >>> solution = mt.factored_mico(grid, tolerance=1e-6)
        >>> solution.row(1599).shape, solution.error <= 1e-6
        ((1600,), True)
    """
    check_tolerance(tolerance)
    for name, number in (("levels", levels), ("max_basis", max_basis)):
        if number is not None:
            check_whole(name, number, 1)
    if backend not in BASES:
        raise ValueError(f"backend must be one of {', '.join(BASES)}, got {backend!r}")
    if metric not in get_args(Kind):
        raise ValueError(f"metric must be 'mico' or 'reduced-mico', got {metric!r}")
    chain = as_chain(model, policy)
    found = factorise(chain, tolerance, levels, max_basis, backend)
    _warn_above(tolerance, found.error, metric)
    return Solution(
        metric,
        model,
        found,
        policy=_policy_of(METRICS[metric], model, policy),
        reward="mean" if chain.law is None else "sampled",
        tolerance=tolerance,
        error=found.error,
        iterations=found.products,
    )


def solve_policies(
    metric: str, model: MDP | Problem, policies: Any, *, tolerance: float = 1e-8, reward: Reward = "mean"
) -> SolverResult:
    """Compute a metric of many policies of one MDP; mico and reduced-mico solve them all at once.

    Args:
        metric: Name of a metric of a policy.
        model: A Problem or an MDP.
        policies: Probabilities [B, S, A].
        tolerance: As in `solve`, for the distances of every policy.
        reward: As in `solve`.

    Returns:
        `matrix` [B, S, S], the largest `error` and the largest number of `iterations`.

    Raises:
        ValueError: If an argument is not as described.

    Examples:
        >>> import mico.tabular as mt
        >>> problem = mt.make("bound-example")
        >>> policies = np.stack([mt.uniform_policy(problem), problem.policy])
        >>> mt.solve_policies("mico", problem, policies).matrix.shape
        (2, 2, 2)
    """
    kind = metric_named(metric)
    check_tolerance(tolerance)
    if kind.on != "policy":
        raise ValueError(f"metric must be one of a policy, got {metric!r}, which is of the MDP alone")
    given = numbers("policies", policies)
    if given.ndim != 3 or not len(given):
        raise ValueError(f"policies must have shape [B, S, A] with at least one policy, got {list(given.shape)}")
    found = _solve_many(kind, [kind.subject(as_mdp(model, "model"), one, reward) for one in given], tolerance)
    _warn_above(tolerance, found.error, metric)
    return found


def _policy_of(kind: Metric, model: Model, policy: PolicyLike) -> Policy | None:
    """The policy as an array, where the metric is of one and the model leaves the choice; arrays stay as given."""
    if kind.on == "mdp" or not isinstance(model, MDP | Problem):
        return policy
    if policy is None or isinstance(policy, str):
        return policy_array(policy or "uniform", model)
    given = numbers("policy", policy)
    if given.ndim == 3:
        raise ValueError(f"policy must have shape [S, A], got {list(given.shape)}: solve_policies takes many")
    return given


def _chosen_method(metric: str, subject: MDP | Chain, method: Method, *, between: bool = False) -> Method:
    """The method that `solve` uses: "dense" or "factored"; between two models always the first."""
    if method not in ("auto", "dense", "factored"):
        raise ValueError(f"method must be 'auto', 'dense' or 'factored', got {method!r}")
    if metric not in _FACTORED:
        if method == "factored":
            raise ValueError(f"method must be 'auto' or 'dense' for {metric}, got 'factored', which is for mico alone")
        return "dense"
    if between and method == "factored":
        raise ValueError("method must be 'auto' or 'dense' between two models, got 'factored'")
    if method != "auto":
        return method
    size = subject.num_states
    if size > _SMALL and not between and has_few_rewards(as_chain(subject)):
        return "factored"
    if size > _LARGEST_DENSE:
        raise ValueError(
            f"method must be given for {size} states with more than 33 different rewards, got 'auto': 'dense' takes "
            f"several matrices of {8e-9 * size**2:.2g} GB, and factored_mico(levels=...) rounds the rewards"
        )
    return "dense"


def _warn_above(tolerance: float, error: float, metric: str) -> None:
    if error > tolerance:
        message = f"{metric}: the certified error is {error:.3g}, more than the tolerance {tolerance:.3g}"
        warnings.warn(message, ToleranceWarning, stacklevel=3)


def _solve_many(metric: Metric, chains: Sequence[Any], tolerance: float) -> SolverResult:
    if metric.solve_many is not None:
        return metric.solve_many(chains, tolerance)
    each = [_solve_dense(metric, chain, tolerance) for chain in chains]
    error, iterations = max(found.error for found in each), max(found.iterations for found in each)
    return SolverResult(np.stack([found.matrix for found in each]), error, iterations)
