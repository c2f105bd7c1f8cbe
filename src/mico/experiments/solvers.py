"""Ways to each distance: our solvers, sweeps of the operator as papers count them, and linear systems."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import scipy.linalg

from mico.tabular import METRICS, Chain, Solution, SolverResult, solve
from mico.tabular.metrics.solution import Method

Sizes = Literal["products", "sweeps", "lifted", "transport", "transport_sweeps", "grids"]
Found = Solution | SolverResult  # which both have `matrix`, `error` and `iterations`
_ENOUGH = 2.0  # seconds, after which another run would not tell more


@final
@dataclass(frozen=True)
class Solver:
    """A way to a metric, and the list of sizes, by its name, that it is quick enough for."""

    metric: str
    sizes: Sizes
    solve: Callable[[Any, float], Found]


def timed(work: Callable[[], Found], repeats: int) -> tuple[Found, float]:
    """Run the work several times, fewer where it is long; return its result and the CPU seconds of the quickest."""
    times: list[float] = []
    while True:
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
        if len(times) == repeats or sum(times) > _ENOUGH:
            return found, min(times)


def sweeps(operator: Callable[[np.ndarray], np.ndarray], size: int, discount: float, tolerance: float) -> SolverResult:
    r"""$d_{k+1} = T d_k$ from 0, until $\frac{\gamma}{1-\gamma}\|d_{k+1} - d_k\|_\infty$ is within the tolerance."""
    d, count = np.zeros((size, size)), 0
    while True:
        after, count = operator(d), count + 1
        error = discount / (1 - discount) * float(np.abs(after - d).max())
        d = after
        if error <= tolerance:
            return SolverResult(d, error, count)


def by_library(name: str, method: Method = "dense") -> Callable[[Any, float], Solution]:
    """The solvers of `mico.tabular`."""
    return lambda subject, tolerance: solve(name, subject, tolerance=tolerance, method=method)


def by_sweeps(name: str) -> Callable[[Any, float], SolverResult]:
    """Applications of the metric's operator: of matrix products for MICo, of transport problems for the others."""
    return lambda subject, tolerance: sweeps(
        METRICS[name].operator(subject), subject.num_states, subject.discount, tolerance
    )


def by_entries(chain: Chain, tolerance: float) -> SolverResult:
    r"""Sweeps as the paper counts them: each of the $S^2$ entries a sum of $S^2$ terms."""
    rows, gap, discount = chain.dense_transition(), chain.reward_gap(), chain.discount
    return sweeps(
        lambda d: gap + discount * np.einsum("xi,yj,ij->xy", rows, rows, d, optimize=False),
        chain.num_states,
        discount,
        tolerance,
    )


def by_lifted_system(chain: Chain, tolerance: float) -> SolverResult:
    r"""$(I - \gamma\, P \otimes P)\, u = |r_x - r_y|$, the lemma's MDP on pairs, by LAPACK."""
    rows, gap = chain.dense_transition(), chain.reward_gap()
    pairs = np.eye(gap.size) - chain.discount * np.kron(rows, rows)
    return _certified(chain, np.linalg.solve(pairs, gap.ravel()).reshape(gap.shape))


def by_lyapunov(chain: Chain, tolerance: float) -> SolverResult:
    r"""$U - A U A^\top = |r_x - r_y|$ with $A = \sqrt\gamma P$, by SciPy's solver for discrete Lyapunov equations."""
    scaled = np.sqrt(chain.discount) * chain.dense_transition()
    return _certified(chain, scipy.linalg.solve_discrete_lyapunov(scaled, chain.reward_gap(), method="bilinear"))


def _certified(chain: Chain, value: np.ndarray) -> SolverResult:
    r"""With the error that the residual allows, $\|T U - U\|_\infty / (1 - \gamma)$."""
    residual = METRICS["mico"].operator(chain)(value) - value
    return SolverResult(value, float(np.abs(residual).max()) / (1 - chain.discount), 1)


SOLVERS: dict[str, Solver] = {
    "mico": Solver("mico", "products", by_library("mico")),
    "mico-sweeps": Solver("mico", "sweeps", by_sweeps("mico")),
    "mico-entries": Solver("mico", "lifted", by_entries),
    "mico-lifted": Solver("mico", "lifted", by_lifted_system),
    "mico-lyapunov": Solver("mico", "sweeps", by_lyapunov),
    "mico-factored": Solver("mico", "grids", by_library("mico", "factored")),
    "reduced-mico": Solver("reduced-mico", "products", by_library("reduced-mico")),
    "reward-law": Solver("reward-law", "sweeps", by_library("reward-law")),
    "pi-bisimulation": Solver("pi-bisimulation", "transport", by_library("pi-bisimulation")),
    "pi-bisimulation-sweeps": Solver("pi-bisimulation", "transport_sweeps", by_sweeps("pi-bisimulation")),
    "bisimulation": Solver("bisimulation", "transport", by_library("bisimulation")),
    "bisimulation-sweeps": Solver("bisimulation", "transport_sweeps", by_sweeps("bisimulation")),
    "lax-bisimulation": Solver("lax-bisimulation", "transport", by_library("lax-bisimulation")),
    "lax-bisimulation-sweeps": Solver("lax-bisimulation", "transport_sweeps", by_sweeps("lax-bisimulation")),
}
