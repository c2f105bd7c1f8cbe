"""The table that `mico metric` prints."""

import numpy as np
from rich.table import Table

from mico.cli.measurement import Measurement
from mico.tabular import METRICS, Solution

_AXIOM_STATES = 1000  # the triangle inequality takes time with the cube of the states


def summary_table(measurement: Measurement) -> Table:
    """Size, error, work, and how the metric keeps to the bound on values and to the axioms."""
    metric, mdp, solution = METRICS[measurement.solution.metric], measurement.problem.mdp, measurement.solution
    own = np.diag(solution.matrix)
    bound = solution.value_bound()
    low, high, gap = (_number(value, solution.error) for value in (own.min(), own.max(), bound.mean_gap))
    table = Table.grid(padding=(0, 2))
    table.add_row(solution.metric, metric.summary)
    table.add_row("problem", measurement.problem_name)
    table.add_row("states", f"{mdp.num_states}")
    table.add_row("actions", f"{mdp.num_actions}")
    table.add_row("discount", f"{mdp.discount:g}")
    table.add_row("certified error", f"{solution.error:.2g}")
    table.add_row("iterations", f"{solution.iterations}")
    table.add_row("seconds", f"{measurement.seconds:.2g}")
    table.add_row("self-distances", f"{low} to {high}")
    symbol = "|ΔV*|" if solution.compares == "actions" else "|ΔV|"
    holds = f"broken by {bound.broken:.1%} of pairs" if bound.broken else "holds for all pairs"
    table.add_row(f"{symbol} ≤ d", f"{holds}; the mean of d − {symbol} is {gap}")
    for row in _axioms(solution):
        table.add_row(*row)
    return table


def _number(value: float, error: float) -> str:
    """Format a number; one that its error does not tell from 0 is 0."""
    return f"{0.0 if abs(value) <= error else value:.4g}"


def _axioms(solution: Solution) -> list[tuple[str, str]]:
    if len(solution.matrix) > _AXIOM_STATES:
        return [("axioms", f"not checked: more than {_AXIOM_STATES} states")]
    report = solution.check_axioms()
    verdicts = {True: [], False: []}
    for name, violation in report.axioms.items():
        verdicts[violation.holds].append(name)
    rows = (("kinds", report.kinds), ("axioms that hold", verdicts[True]), ("axioms that fail", verdicts[False]))
    return [(what, ", ".join(names) or "none") for what, names in rows]
