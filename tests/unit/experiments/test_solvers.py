"""Ways to each distance: all lead to what slow references find; sweeps are counted by hand."""

from functools import partial

import numpy as np
import pytest

import references
from mico.experiments import solvers
from mico.experiments.solvers import SOLVERS, by_entries, by_sweeps, sweeps, timed
from mico.tabular import METRICS, SolverResult, garnet


@pytest.fixture(scope="module")
def mdp():
    return garnet(3, 2, seed=3, discount=0.6).mdp


@pytest.fixture(scope="module")
def exact(mdp):
    chain, cost, size = mdp.chain(), references.transport_cost, mdp.num_states
    solved = partial(references.fixed_point, num_states=size, discount=mdp.discount, precision=1e-7)
    return {
        "mico": references.mico(chain),
        "reduced-mico": references.reduced(references.mico(chain)),
        "reward-law": references.reward_law(chain, 1e-7),
        "pi-bisimulation": solved(partial(references.update_of_policy, chain, cost)),
        "bisimulation": solved(partial(references.update_of_bisimulation, mdp, cost)),
        "lax-bisimulation": solved(partial(references.update_of_lax_bisimulation, mdp, cost)),
    }


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_finds_the_distance_within_its_error(mdp, exact, name):
    metric = SOLVERS[name].metric
    solution = SOLVERS[name].solve(METRICS[metric].subject(mdp), 1e-6)
    assert 0 <= solution.error <= 1e-6
    assert np.abs(solution.matrix - exact[metric]).max() <= solution.error + 2e-7
    assert solution.iterations >= 1


def test_every_metric_has_a_solver():
    assert {solver.metric for solver in SOLVERS.values()} == set(METRICS)


def test_sweeps_stop_when_the_contraction_proves_the_tolerance():
    found = sweeps(lambda d: 1 + 0.5 * d, 2, 0.5, 0.1)
    assert found.iterations == 5  # 0.5⁵ / 0.5 is the first below 0.1
    assert found.error == pytest.approx(0.0625)
    assert found.matrix == pytest.approx(np.full((2, 2), 2 - 0.0625))


@pytest.mark.parametrize("name", ["mico", "bisimulation"])
def test_a_coarse_tolerance_takes_few_sweeps(mdp, name):
    few, many = (by_sweeps(name)(METRICS[name].subject(mdp), tolerance).iterations for tolerance in (0.1, 1e-6))
    assert 1 < few < many


def test_entries_are_sums_over_pairs(mdp):
    chain = mdp.chain()
    rows, reward = chain.dense_transition(), chain.reward
    d = np.zeros((3, 3))
    for _ in range(by_entries(chain, 1e-3).iterations):
        d = np.array([
            [
                abs(reward[x] - reward[y])
                + 0.6 * sum(rows[x, i] * rows[y, j] * d[i, j] for i in range(3) for j in range(3))
                for y in range(3)
            ]
            for x in range(3)
        ])  # fmt: skip
    assert by_entries(chain, 1e-3).matrix == pytest.approx(d, abs=1e-12)
    assert by_entries(chain, 1e-3).iterations == by_sweeps("mico")(chain, 1e-3).iterations


@pytest.mark.parametrize(("took", "runs", "best"), [((3e-3, 1e-3, 2e-3), 3, 1e-3), ((1.5, 1.2, 0.1), 2, 1.2)])
def test_the_quickest_of_some_runs_counts_and_long_ones_are_not_repeated(monkeypatch, took, runs, best):
    clock = iter(np.cumsum([value for each in took for value in (10.0, each)]).tolist())
    monkeypatch.setattr(solvers.time, "process_time", lambda: next(clock))
    calls = []

    def work():
        calls.append(1)
        return SolverResult(np.zeros((1, 1)), 0.0, len(calls))

    found, seconds = timed(work, 3)
    assert len(calls) == found.iterations == runs
    assert seconds == pytest.approx(best)
