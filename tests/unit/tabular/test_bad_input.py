"""What is no array of numbers, no partition and no map is refused by the parameter's name, with what was given."""

import numpy as np
import pytest

from mico.tabular import MDP, Chain, Outcomes, Problem, action_values, make, solve
from mico.tabular.abstraction.clustering import value_loss_bound
from mico.tabular.abstraction.partition import quotient

ROWS, PAY = [[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]]
TWO = make("two-state").mdp
DATES = np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]")


def listed(num_states=1, num_actions=1, **columns):
    whole = {"state": [0], "action": [0], "next_state": [0], "probability": [1.0], "reward": [1.0]}
    return MDP.from_outcomes(Outcomes(**(whole | columns)), num_states, num_actions, 0.9)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: listed(probability=["1.0"]), r"probability must be an array of real numbers, got <U3 \[1\]"),
        (lambda: listed(probability=np.array([None])), "probability must be an array of real numbers, got object"),
        (lambda: listed(reward=np.ma.masked_array([1.0], [True])), "reward must be a vector of numbers, got a masked"),
        (lambda: listed(state=[[0], [0, 1]]), "outcomes must be vectors of one length, got Outcomes"),
        (lambda: MDP.from_outcomes(([0],) * 4, 1, 1, 0.9), r"outcomes must be five vectors state, .*, got \(\[0\]"),
        (lambda: MDP.from_outcomes(None, 1, 1, 0.9), "outcomes must be five vectors .*, got None"),
        (lambda: MDP.from_outcomes([], 1, 1, 0.9), r"outcomes must be five vectors .*, got \[\]"),
        (lambda: listed(num_actions=True), "num_actions must be a whole number, not True"),
        (lambda: listed(num_states=10**12), "at most the number of outcomes, got 1000000000000 · 1 with 1 outcomes"),
        (lambda: MDP(ROWS, np.ma.masked_array(PAY, [[True], [False]]), 0.9), "reward must be .*, got a masked array"),
        (lambda: MDP(np.ma.masked_array(ROWS), PAY, 0.9), "transition must be .*, got a masked array"),
        (lambda: MDP(ROWS, [["1"], ["0"]], 0.9), r"reward must be an array of real numbers, got \[\['1'\], \['0'\]\]"),
        (lambda: MDP(ROWS, DATES, 0.9), r"reward must be an array of real numbers, got datetime64\[D\] \[2, 1\]"),
        (lambda: MDP(ROWS, PAY, False), r"discount must be a number in \[0, 1\), not False"),
        (lambda: Chain([["0", "1"], ["1", "0"]], [0, 1], 0.9), "transition must be an array of real numbers, got"),
        (lambda: solve("mico", TWO, tolerance=True), "tolerance must be positive and finite, but is True"),
        (lambda: quotient(TWO.chain(), [0, 1]), "partition must be a Partition, not list"),
        (lambda: value_loss_bound(np.zeros((2, 2)), [0, 1], 0.9), "partition must be a Partition, not list"),
        (lambda: Problem(TWO, layout=np.zeros((1, 2), int)), "layout must be a Layout, not ndarray"),
        (lambda: Problem(TWO, names=(1, 2)), r"names\[0\] must be a string, got 1"),
        (lambda: Problem(TWO, names="ab"), "names must be a sequence of strings, got str"),
        (lambda: Problem(TWO, actions=("a\x07",)), r"actions\[0\] must be text without control characters"),
        (lambda: solve("mico", TWO).plot("ax"), "ax must be an Axes of Matplotlib, got 'ax'"),
        (lambda: solve("mico", TWO).plot_from(0, "ax"), "ax must be an Axes of Matplotlib, got 'ax'"),
        (lambda: action_values(TWO, [1, 2, 3]), r"value must have shape \[2\], got \[3\]"),
        (lambda: action_values(TWO, [1, np.nan]), r"value\[1\] = nan is not finite"),
    ],
)
def test_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_of_any_kind_are_numbers():
    from fractions import Fraction

    for reward in ([[Fraction(1, 2)], [10**20]], np.array([[True], [False]]), np.array([[1], [2]], dtype="u1")):
        np.testing.assert_array_equal(MDP(ROWS, reward, 0.9).reward, np.array(reward, dtype=float))
