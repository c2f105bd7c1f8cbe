"""A metric that was computed, with all that it is of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mico.tabular import METRICS, Problem, Solution, optimal_value


@dataclass(frozen=True, eq=False)
class Measurement:
    """`options` made the problem; `policy` is None where the metric is of the MDP alone."""

    metric: str
    problem_name: str
    problem: Problem
    options: dict[str, Any]
    policy: np.ndarray | None
    reward: str
    solution: Solution
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.problem_name}-{self.metric}"

    def value(self) -> np.ndarray:
        """The values that the metric is to bound: the policy's, or the optimal ones where it knows no policy."""
        mdp = self.problem.mdp
        return optimal_value(mdp) if METRICS[self.metric].on == "mdp" else mdp.chain(self.policy).value()
