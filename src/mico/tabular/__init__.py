"""Exact behavioural metrics of finite MDPs."""

from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.metrics import (
    METRICS,
    MICoFactors,
    Neighbours,
    Solution,
    SolverResult,
    ToleranceWarning,
    factored_mico,
    solve,
    solve_policies,
    watch,
)
from mico.tabular.outcomes import Outcomes
from mico.tabular.policies import (
    action_values,
    deterministic_policy,
    optimal,
    optimal_policy,
    optimal_value,
    random_policy,
    uniform_policy,
)
from mico.tabular.problems import (
    PROBLEMS,
    Layout,
    Problem,
    from_gymnasium,
    from_map,
    garnet,
    load,
    make,
    option_help,
    save,
    sparse_garnet,
)
from mico.tabular.solvers.transport import lukaszyk_karmowski, wasserstein

__all__ = [
    "MDP",
    "METRICS",
    "PROBLEMS",
    "Chain",
    "Layout",
    "MICoFactors",
    "Neighbours",
    "Outcomes",
    "Problem",
    "Solution",
    "SolverResult",
    "ToleranceWarning",
    "action_values",
    "deterministic_policy",
    "factored_mico",
    "from_gymnasium",
    "from_map",
    "garnet",
    "load",
    "lukaszyk_karmowski",
    "make",
    "optimal",
    "optimal_policy",
    "optimal_value",
    "option_help",
    "random_policy",
    "save",
    "solve",
    "solve_policies",
    "sparse_garnet",
    "uniform_policy",
    "wasserstein",
    "watch",
]
