"""The bound on values: shares and gaps by hand and by loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico.tabular import make, solve
from mico.tabular.value_bound import value_bound


@pytest.mark.parametrize(
    ("metric", "broken", "mean_gap"),
    [("mico", 0.0, 360 / 341 / 4), ("reduced-mico", 0.5, (40 / 31 - 20 / 11) / 2)],
)
def test_the_papers_two_states(metric, broken, mean_gap):
    """U exceeds the gap 20/11 by nothing and U(x, x) = 360/341; ΠU = 40/31 is below it for two of the four pairs."""
    mdp = make("two-state").mdp
    solution = solve(metric, mdp)
    found = value_bound(solution.matrix, mdp.chain().value(), error=solution.error)
    assert found == pytest.approx((broken, mean_gap), abs=1e-9)


@given(seed=st.integers(0, 10**6))
def test_equals_loops_over_pairs(seed):
    rng = np.random.default_rng(seed)
    d, value = rng.random((5, 5)), rng.random(5)
    gaps = [d[x, y] - abs(value[x] - value[y]) for x in range(5) for y in range(5)]
    found = value_bound(d, value, error=0.1)
    assert found.broken == sum(gap < -0.1 - 1e-9 for gap in gaps) / 25
    assert found.mean_gap == pytest.approx(sum(gaps) / 25)


def test_the_error_of_the_distance_is_no_broken_bound():
    value, d = [0.0, 1.0], [[0.0, 0.9], [0.9, 0.0]]
    assert value_bound(d, value).broken == 0.5
    assert value_bound(d, value, error=0.11).broken == 0.0
