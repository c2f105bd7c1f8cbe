"""Draws in proportion to priorities, against the proportions themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mico.deep.replay import sum_tree

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(3)
draw, change = jax.jit(sum_tree.sample), jax.jit(sum_tree.write)


def filled(values):
    """Priorities that hold these values."""
    every = np.arange(len(values))
    return change(sum_tree.empty(len(values)), every, np.asarray(values, np.float32), np.ones(len(values), bool))


def counted(leaves, size):
    return np.bincount(np.asarray(leaves).ravel(), minlength=size)


def everywhere(count):
    """Bounds of independent draws from the whole mass."""
    return np.zeros(count, np.float32), np.ones(count, np.float32)


def parts(count):
    """Bounds of equal parts."""
    edges = (np.arange(count + 1) / count).astype(np.float32)
    return edges[:-1], edges[1:]


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 100_000])
def test_there_is_room_for_all_leaves_in_about_equal_blocks_and_widths(count):
    blocks, width = sum_tree.empty(count).leaves.shape
    assert count <= blocks * width <= count + width
    assert abs(width - count**0.5) <= 1


def test_nothing_is_held_at_first_and_the_largest_is_one():
    empty = sum_tree.empty(10)
    assert not empty.leaves.any()
    assert not empty.sums.any()
    assert empty.largest == 1


def test_sums_follow_leaves_through_many_changes():
    rng = np.random.default_rng(0)
    found, expected = sum_tree.empty(23), np.zeros(23)
    for _ in range(50):
        leaf, value, where = rng.integers(23, size=6), rng.uniform(0, 9, 6).astype(np.float32), rng.random(6) < 0.7
        for i, v, w in zip(leaf, value, where, strict=True):  # so that of equal leaves the last counts
            expected[i] = v if w else expected[i]
        found = change(found, leaf, value, where)
    np.testing.assert_array_equal(sum_tree.read(found, jnp.arange(23)), expected)
    padded = np.append(expected, np.zeros(found.leaves.size - 23)).reshape(found.leaves.shape)
    np.testing.assert_allclose(found.sums, padded.sum(axis=1), rtol=1e-6)


def test_independent_draws_are_as_frequent_as_their_shares():
    values = np.random.default_rng(1).gamma(0.5, size=40)
    values[::7] = 0
    leaves = draw(filled(values), *everywhere(20_000), KEY)
    counts = counted(leaves, 40)
    assert not counts[values == 0].any()
    expected = 20_000 * values / values.sum()
    assert 1e-3 < stats.chisquare(counts[values > 0], expected[values > 0]).pvalue < 1 - 1e-3


def test_one_draw_comes_from_each_part_of_the_mass():
    values = np.random.default_rng(2).gamma(0.5, size=40) + 0.01
    leaves = np.asarray(draw(filled(values), *parts(50), KEY))
    after = np.cumsum(values) / values.sum()
    before = after - values / values.sum()
    assert (before[leaves] < np.arange(1, 51) / 50 + 1e-6).all()
    assert (after[leaves] > np.arange(50) / 50 - 1e-6).all()


def test_parts_leave_the_shares_as_they_are_and_lower_the_variance():
    values = np.random.default_rng(3).gamma(0.5, size=12) + 0.05
    share = values / values.sum()
    one = filled(values)
    draws = jax.vmap(lambda key: draw(one, *parts(8), key))(jax.random.split(KEY, 4000))
    counts = np.stack([counted(row, 12) for row in np.asarray(draws)])
    error = np.sqrt(share * (1 - share) / draws.size)
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) / 8 - share), 5 * error)
    assert counts.var(axis=0).sum() < 0.7 * (8 * share * (1 - share)).sum()


def test_small_leaves_behind_a_large_mass_are_all_reached():
    # The last block is a millionth of the mass: a single float32 number would tell only a few places in it apart.
    size, width = 10_000, 100
    values = np.full(size, 100.0)
    values[-width:] = 0.01
    low = 1 - 0.5e-6
    leaves = draw(filled(values), np.full(5000, low, np.float32), np.ones(5000, np.float32), KEY)
    counts = counted(leaves, size)[-width:]
    assert counts.sum() > 4500
    assert stats.chisquare(counts[60:]).pvalue > 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_rounding_never_draws_a_leaf_of_zero(seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(1000) < 0.1, 10 ** rng.uniform(-5, 5, 1000), 0)
    values[-1] = 0
    edges = np.linspace(0, 1, 2000, dtype=np.float32)
    for low, high in ((edges, edges), parts(2000), (edges, edges + 1)):
        leaves = np.asarray(draw(filled(values), low, high, jax.random.key(seed)))
        assert (values[leaves] > 0).all()


@pytest.mark.parametrize(
    ("weight", "after", "mass", "expected"),
    [
        ([1, 0, 1], [1.0, 1.001, 2.0], 1.0, 2),  # the running sum of parallel additions may rise at a zero
        ([0, 1, 0], [0.0, 1.0, 1.001], 1.0, 1),  # and the mass may be rounded past the end
        ([0, 2, 1], [0.0, 2.0, 3.0], 0.0, 1),
    ],
)
def test_places_have_weight_however_sums_are_rounded(weight, after, mass, expected):
    assert sum_tree._reached(jnp.array(after), jnp.array(weight, float), jnp.float32(mass)) == expected
