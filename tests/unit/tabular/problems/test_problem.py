import jaxtyping
import numpy as np
import pytest

from mico.tabular.mdp import MDP
from mico.tabular.problems import Layout, Problem, make

TWO = MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0.5)
CORNER = np.array([[0, 1], [-1, 2]])


@pytest.fixture
def unchecked():
    """Without the types that are checked while the tests run, as users have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_paint_leaves_walls_blank_and_states_without_a_cell_out():
    painted = Layout(CORNER).paint(np.array([5.0, 6.0, 7.0, 99.0]))
    np.testing.assert_array_equal(painted, [[5, 6], [np.nan, 7]])


def test_paint_takes_whole_numbers():
    np.testing.assert_array_equal(Layout(CORNER).paint(np.array([5, 6, 7])), [[5, 6], [np.nan, 7]])


def test_paint_refuses_too_few_values():
    with pytest.raises(ValueError, match="values has 2 entries, but cells holds state 2"):
        Layout(CORNER).paint(np.zeros(2))


@pytest.mark.parametrize(
    ("cells", "goals", "message"),
    [
        ([[0, -2]], (), r"cells\[0, 1\] = -2"),
        ([[0, 1, 0]], (), "state 0 more than once"),
        ([[-1, -1]], (), "cells holds no state"),
        ([[0, 1]], (2,), "goals holds 2"),
    ],
)
def test_layout_refuses(cells, goals, message):
    with pytest.raises(ValueError, match=message):
        Layout(np.array(cells), goals)


@pytest.mark.parametrize(
    ("cells", "message"), [([0, 1], r"\[H, W\], but has \[2\]"), ([[0.0, 1.0]], "integers, not float64")]
)
def test_layout_refuses_other_arrays(unchecked, cells, message):
    with pytest.raises(ValueError, match=message):
        Layout(np.array(cells))


def test_layout_does_not_follow_the_array_it_was_made_of():
    cells = CORNER.copy()
    layout = Layout(cells)
    cells[0, 0] = 7
    assert layout.cells[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        layout.cells[0, 0] = 7


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ({"names": ("x",)}, "names has 1 entries, but the MDP has 2 states"),
        ({"layout": Layout(CORNER)}, "layout holds state 2, but the MDP has 2 states"),
        ({"policy": np.ones((1, 1))}, r"policy has shape \[1, 1\]"),
        ({"policy": np.array([[1.0], [0.5]])}, "policy of state 1 sums to 0.5"),
    ],
)
def test_problem_refuses_what_does_not_fit(extras, message):
    with pytest.raises(ValueError, match=message):
        Problem(TWO, **extras)


def test_problem_is_frozen():
    with pytest.raises(AttributeError):
        Problem(TWO).names = ("x", "y")  # type: ignore[misc]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [None, 3, ["two-state"], "two-stat"])
def test_names_that_are_no_problem(name):
    with pytest.raises(ValueError, match=r"source must be the name of a problem.*, got .*two-state"):
        make(name)
