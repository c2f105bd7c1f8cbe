"""Metrics that vanish on bisimilar states, solved on the classes of such states."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mico.tabular.abstraction.bisimilarity import relation_of
from mico.tabular.abstraction.partition import lump
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.solvers.result import SolverResult

_SAME = 1e-12  # probabilities, and rewards against their span, that are this near in all states of a class


def solve_on_classes(
    solve: Callable[[Any, float], SolverResult], subject: MDP | Chain, tolerance: float
) -> SolverResult:
    """Solve the quotient by bisimilarity and give states the distances of their classes, where that loses nothing.

    How far states are from the means of their class is part of the error. Where no two states are bisimilar, or that
    part would take a quarter of the tolerance, the model itself is solved.
    """
    span = float(np.ptp(subject.relative))
    classes = relation_of(subject, _SAME, unit=span or 1.0)
    if classes.num_classes == subject.num_states:
        return solve(subject, tolerance)
    small = lump(subject, classes)
    share = small.rounding.error(span / (1 - subject.discount), subject.discount)
    if share > tolerance / 4:
        return solve(subject, tolerance)
    found = solve(small, tolerance - share)
    return found._replace(matrix=found.matrix[np.ix_(classes.block, classes.block)])
