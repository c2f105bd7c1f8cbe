"""Exact behavioural metrics of finite MDPs."""

from mico.tabular.couplings import lukaszyk_karmowski, wasserstein
from mico.tabular.mdp import MDP, Chain
from mico.tabular.metrics import METRICS, FactoredMICo, Solution, ToleranceWarning, distance, factored_mico, watch
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
from mico.tabular.problems import MDPS, Problem, from_gymnasium, from_map, garnet, load, problem, save

__all__ = [
    "MDP",
    "MDPS",
    "METRICS",
    "Chain",
    "FactoredMICo",
    "Outcomes",
    "Problem",
    "Solution",
    "ToleranceWarning",
    "action_values",
    "deterministic_policy",
    "distance",
    "factored_mico",
    "from_gymnasium",
    "from_map",
    "garnet",
    "load",
    "lukaszyk_karmowski",
    "optimal",
    "optimal_policy",
    "optimal_value",
    "problem",
    "random_policy",
    "save",
    "uniform_policy",
    "wasserstein",
    "watch",
]
