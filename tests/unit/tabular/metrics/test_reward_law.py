"""The reward-law distance where the sum of its terms is long, against closed forms."""

import numpy as np
import pytest

from mico.tabular import Chain, ToleranceWarning, solve

pytestmark = pytest.mark.usefixtures("patience")
NEAR_ONE = 1 - 1e-6


def solved(rows, reward, discount, tolerance):
    """The distances, for which float64 has too few digits, and how far they may be off."""
    with pytest.warns(ToleranceWarning):
        return solve("reward-law", Chain(rows, reward, discount), tolerance=tolerance)


def test_laws_that_swap_for_ever():
    found = solved([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], NEAR_ONE, 1e-8)
    assert abs(found.matrix[0, 1] - 1 / (1 - NEAR_ONE)) <= found.error < 1
    assert found.iterations < 100


@pytest.mark.parametrize("size", [3, 7, 20])
def test_laws_that_go_round(size):
    """A ring of states, and one more that goes where state 0 goes."""
    reward = np.random.default_rng(size).random(size + 1)
    rows = np.zeros((size + 1, size + 1))
    rows[np.arange(size), (np.arange(size) + 1) % size] = rows[size, 1] = 1
    found = solved(rows, reward, NEAR_ONE, 1e-8)
    lap = -np.expm1(size * np.log(NEAR_ONE))
    for x, y in ((0, 1), (1, size - 1)):
        apart = [abs(reward[(x + t) % size] - reward[(y + t) % size]) for t in range(size)]
        expected = sum(NEAR_ONE**t * gap for t, gap in enumerate(apart)) / lap
        assert abs(found.matrix[x, y] - expected) <= found.error < 1
    assert found.matrix[0, size] == pytest.approx(abs(reward[0] - reward[size]))  # they meet in the next state
    assert found.iterations < 100 * size


def test_laws_that_settle():
    """State 0 stays with probability ½ and else goes to the good end, state 2; state 1 is the bad end."""
    found = solved([[0.5, 0, 0.5], [0, 1, 0], [0, 0, 1]], [0.0, 0.0, 1.0], NEAR_ONE, 1e-8)
    stay = 1 / (1 - NEAR_ONE / 2)
    exact = {(0, 2): stay, (0, 1): 1 / (1 - NEAR_ONE) - stay, (1, 2): 1 / (1 - NEAR_ONE)}
    for pair, expected in exact.items():
        assert abs(found.matrix[pair] - expected) <= found.error < 1
    assert found.iterations < 1_000


def test_no_term_is_added_below_the_rounding_of_the_others():
    """Two states that change places once in ten million steps: laws neither come back nor settle while it counts."""
    discount, change = 0.999, 1e-7
    found = solved([[1 - change, change], [change, 1 - change]], [0.0, 1.0], discount, 1e-14)
    expected = 1 / (1 - discount * (1 - 2 * change))
    assert abs(found.matrix[0, 1] - expected) <= found.error < 1e-7
    assert found.iterations < 30_000  # for 1e-14 the sum would take 39,000


def test_a_tolerance_in_reach_is_kept():
    """As above, but slowly: there is always a lap that moved little, and it is not enough."""
    found = solve("reward-law", Chain([[0.999, 0, 0.001], [0, 1, 0], [0, 0, 1]], [0.0, 0.0, 1.0], 0.99))
    stay = 1 / (1 - 0.99 * 0.999)
    for pair, expected in {(0, 2): stay, (0, 1): 100 - stay, (1, 2): 100}.items():
        assert abs(found.matrix[pair] - expected) <= found.error + 1e-12
    assert found.error <= 1e-8
