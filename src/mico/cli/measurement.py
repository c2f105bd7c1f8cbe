"""A solved metric of a named problem, with the options that made the problem."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mico.tabular import METRICS, Problem, Solution, optimal_value


@dataclass(frozen=True, eq=False)
class Measurement:
    """A solution, the name of its problem, the options that made it, and the seconds that the solver took."""

    problem_name: str
    problem: Problem
    options: dict[str, Any]
    solution: Solution
    seconds: float

    def value(self) -> np.ndarray:
        """The values that the metric bounds: the policy's, or the optimal ones for a metric of the MDP alone."""
        mdp = self.problem.mdp
        if METRICS[self.solution.metric].on == "mdp":
            return optimal_value(mdp)
        return mdp.chain(self.solution.policy).value()
