"""The contracts of problems and metrics: ours keep them, and each defect is told."""

import numpy as np
import pytest

from mico.tabular import MDP, METRICS, PROBLEMS, Metric, Problem, SolverResult, make, register_metric, register_problem
from mico.tabular.problems import FEWEST_STATES
from mico.testing import check_metric, check_problem


@pytest.fixture
def open_registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in (METRICS, PROBLEMS):
        for part in ("_entries", "_origin"):
            monkeypatch.setattr(registry, part, dict(getattr(registry, part)))
    for name in list(FEWEST_STATES):
        monkeypatch.setitem(FEWEST_STATES, name, FEWEST_STATES[name])


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_keeps_the_contract(name):
    check_metric(name)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "map"])
def test_every_problem_keeps_the_contract(name):
    check_problem(name, {"seed": 0} if "garnet" in name else None)


def gap(chain):
    return chain.reward_gap()


def result(matrix, error=0.0):
    return SolverResult(matrix, error, 0)


WRONG_METRICS = {
    "not symmetric": (lambda chain, tolerance: result(np.triu(1 + gap(chain))), "not symmetric"),
    "negative": (lambda chain, tolerance: result(gap(chain) - 1), "negative or not finite"),
    "not finite": (lambda chain, tolerance: result(gap(chain) * np.nan), "negative or not finite"),
    "not exact": (
        lambda chain, tolerance: result(gap(chain), 2 * tolerance),
        "error is 2e-07, more than the tolerance",
    ),
    "an error that does not hold": (
        lambda chain, tolerance: result(gap(chain) + tolerance),
        "its error is 0, but it is off by 0.09999",
    ),
    "of one state": (lambda chain, tolerance: result(gap(chain)[:1]), r"its matrix must be \[S, S\]"),
    "of the number of a state": (
        lambda chain, tolerance: result(
            np.abs(np.subtract.outer(range(chain.num_states), range(chain.num_states))) * 1.0
        ),
        "another order of the states changes distances",
    ),
}


@pytest.mark.usefixtures("open_registries")
@pytest.mark.filterwarnings("ignore::mico.tabular.ToleranceWarning")
@pytest.mark.parametrize("defect", WRONG_METRICS)
def test_a_metric_with_a_defect_is_told(defect):
    solve, message = WRONG_METRICS[defect]
    register_metric("mine", Metric("mine", "policy", solve))
    with pytest.raises(AssertionError, match=f"mine: .*{message}"):
        check_metric("mine")


@pytest.mark.usefixtures("open_registries")
def test_a_solution_that_its_operator_moves_is_told():
    kind = Metric("mine", "policy", lambda chain, tolerance: result(gap(chain)), lambda chain: lambda d: d + 1)
    register_metric("mine", kind)
    with pytest.raises(AssertionError, match="its operator moves the solution by 1"):
        check_metric("mine")


def two(discount: float = 0.9) -> Problem:
    """Two states.

    Args:
        discount: Discount factor.
    """
    return Problem(MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], discount))


def undocumented(size: int = 2, discount: float = 0.9) -> Problem:
    """Two states."""
    return two(discount)


def no_discount() -> Problem:
    """Two states."""
    return two()


def deaf(discount: float = 0.9) -> Problem:
    """Two states.

    Args:
        discount: Discount factor.
    """
    return two()


def random(discount: float = 0.9) -> Problem:
    """Random states.

    Args:
        discount: Discount factor.
    """
    return make("garnet", seed=int(np.random.default_rng().integers(2**40)), discount=discount)


def untyped(discount=0.9):
    """Two states.

    Args:
        discount: Discount factor.
    """
    return two(discount)


def bare(discount: float = 0.9):
    """An MDP.

    Args:
        discount: Discount factor.
    """
    return two(discount).mdp


@pytest.mark.usefixtures("open_registries", "unchecked")
@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (undocumented, "must have a line about size in Args"),
        (no_discount, "must have the option discount"),
        (deaf, "must take the discount that is asked"),
        (random, "made twice of the same options, it differs"),
        (untyped, "discount must be a number, string, path or Literal"),
        (bare, "must return a Problem, got MDP"),
    ],
)
def test_a_problem_with_a_defect_is_told(factory, message):
    register_problem("mine", factory)
    with pytest.raises(AssertionError, match=f"mine: .*{message}"):
        check_problem("mine")


@pytest.mark.usefixtures("open_registries")
def test_a_problem_of_another_package_is_made_and_has_fewest_states():
    register_problem("mine", two, fewest_states=lambda: 3)
    assert repr(make("mine", discount=0.5)) == "Problem(num_states=2, num_actions=1, discount=0.5)"
    with pytest.raises(AssertionError, match="it has 2 states, fewest_states says 3"):
        check_problem("mine")
    register_problem("mine", two, replace=True)
    check_problem("mine")


@pytest.mark.usefixtures("open_registries", "unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: register_problem("four-rooms", two), "name must be one that no other problem has, got 'four-rooms'"),
        (lambda: register_problem("mine", 3), "factory must be a function that returns a Problem, got 3"),
        (lambda: register_problem("mine", lambda *sizes: None), r"options that are given by name, got \*sizes"),
        (lambda: register_metric("mico", METRICS["lax-bisimulation"]), "no other metric has, got 'mico'"),
        (lambda: register_metric("mine", gap), "metric must be a Metric, got <function"),
        (lambda: Metric("mine", "chain", gap), "on must be 'policy' or 'mdp', got 'chain'"),
        (lambda: Metric("mine", "mdp", None), "solve must be a function, got None"),
        (lambda: Metric("mine", "mdp", gap, rewards=("law",)), "rewards must be of 'mean' and 'sampled'"),
    ],
)
def test_what_cannot_be_registered_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
    assert "mine" not in METRICS
    assert "mine" not in PROBLEMS
