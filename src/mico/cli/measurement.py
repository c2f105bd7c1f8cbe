"""A solved metric of a named problem, with the options that made the problem."""

from dataclasses import dataclass
from typing import Any

from mico.tabular import Problem, Solution


@dataclass(frozen=True, eq=False)
class Measurement:
    """A solution, the name of its problem, the options that made it, and the seconds that the solver took."""

    problem_name: str
    problem: Problem
    options: dict[str, Any]
    solution: Solution
    seconds: float
