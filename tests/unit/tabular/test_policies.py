import itertools

import numpy as np
import pytest
from hypothesis import given

from mico.tabular import (
    MDP,
    action_values,
    deterministic_policy,
    garnet,
    optimal,
    optimal_policy,
    optimal_value,
    random_policy,
    uniform_policy,
)
from strategies import mdps, sparse


def best_of_all(mdp):
    """The largest value of each state over every deterministic policy."""
    best = np.full(mdp.num_states, -np.inf)
    for actions in itertools.product(range(mdp.num_actions), repeat=mdp.num_states):
        rows = np.array([mdp.transition[x, a] for x, a in enumerate(actions)])
        reward = np.array([mdp.reward[x, a] for x, a in enumerate(actions)])
        best = np.maximum(best, np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * rows, reward))
    return best


@given(sample=mdps(states=(1, 2, 3), actions=(1, 2, 3)))
def test_optimal_values_are_the_best_of_all_policies(sample):
    size = np.abs(sample.mdp.reward).max() / (1 - sample.mdp.discount)
    for mdp in (sample.mdp, sparse(sample.mdp)):
        value, policy = optimal(mdp)
        np.testing.assert_allclose(value, best_of_all(sample.mdp), rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(mdp.chain(policy).value(), value, rtol=0, atol=1e-9 * size)
        assert set(np.unique(policy)) <= {0.0, 1.0}


@pytest.mark.parametrize("scale", [1e-13, 1e-6, 1.0, 1e9])
def test_optimal_values_of_rewards_of_any_size(scale):
    """Two states, each action leads to one: the second pays five times as much."""
    mdp = MDP([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], scale * np.array([[1.0, 0.0], [0.0, 5.0]]), 0.99)
    np.testing.assert_allclose(optimal_value(mdp) / scale, [495, 500])
    np.testing.assert_array_equal(optimal_policy(mdp), [[0, 1], [0, 1]])


def test_optimal_values_of_a_larger_mdp_by_value_iteration():
    mdp = garnet(60, 4, seed=1, discount=0.95).mdp
    value = np.zeros(60)
    for _ in range(800):
        value = (mdp.reward + 0.95 * mdp.transition @ value).max(axis=1)
    np.testing.assert_allclose(optimal_value(mdp), value, rtol=0, atol=1e-10)


@given(sample=mdps())
def test_action_values_by_hand(sample):
    mdp = sample.mdp
    value = sample.rng.normal(size=mdp.num_states)
    for x, a in itertools.product(range(mdp.num_states), range(mdp.num_actions)):
        later = sum(mdp.transition[x, a, y] * value[y] for y in range(mdp.num_states))
        found = action_values(mdp, value)[x, a]
        assert found == pytest.approx(mdp.reward[x, a] + mdp.discount * later, rel=1e-12, abs=1e-12)


def test_ties_end():
    """Every action is as good as any other, but for rounding."""
    mdp = MDP(np.full((7, 3, 7), 1 / 7), np.full((7, 3), 0.1), 0.99)
    np.testing.assert_allclose(optimal_value(mdp), 10)


def test_uniform_policy():
    np.testing.assert_array_equal(uniform_policy(garnet(3, 4, seed=0).mdp), np.full((3, 4), 0.25))


def test_deterministic_policy():
    mdp = garnet(3, 2, seed=0).mdp
    np.testing.assert_array_equal(deterministic_policy(mdp, np.array([1, 0, 1])), [[0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(deterministic_policy(mdp, [1, 0, 1]), [[0, 1], [1, 0], [0, 1]])
    with pytest.raises(ValueError, match="actions must hold integers, not float64"):
        deterministic_policy(mdp, [1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"actions\[2\] = 2 is outside 0..1"):
        deterministic_policy(mdp, np.array([1, 0, 2]))
    with pytest.raises(ValueError, match=r"actions\[0\] = -1 is outside 0..1"):
        deterministic_policy(mdp, np.array([-1, 0, 1]))
    with pytest.raises(ValueError, match=r"actions has shape \[2\], not \[3\]"):
        deterministic_policy(mdp, np.array([0, 1]))


@pytest.mark.parametrize(
    ("law", "variance"),
    [("dirichlet", 1 / 12), ("uniform", None)],
)
def test_random_policies_follow_their_law(law, variance):
    mdp = MDP(np.ones((1, 2, 1)), np.zeros((1, 2)), 0.9)
    first = np.array([random_policy(mdp, seed=seed, law=law)[0, 0] for seed in range(4000)])
    # uniform numbers u/(u+v) lie below 1/4 with probability 1/6, not 1/4
    below = 1 / 4 if law == "dirichlet" else 1 / 6
    assert (first < 0.25).mean() == pytest.approx(below, abs=0.03)
    assert first.mean() == pytest.approx(0.5, abs=0.02)
    if variance:
        assert first.var() == pytest.approx(variance, abs=0.006)


def test_random_policies_are_distributions_that_hang_on_the_seed():
    mdp = garnet(6, 3, seed=0).mdp
    for law in ("uniform", "dirichlet"):
        one, other = (random_policy(mdp, seed=seed, law=law) for seed in (0, 1))
        np.testing.assert_allclose(one.sum(axis=1), 1)
        assert one.shape == (6, 3)
        assert one.min() > 0
        assert np.abs(one - other).max() > 0.01
        np.testing.assert_array_equal(one, random_policy(mdp, seed=0, law=law))


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="law must be 'uniform' or 'dirichlet', not 'gamma'"):
        random_policy(garnet(2, 2, seed=0).mdp, seed=0, law="gamma")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [["a", "b"], np.array(["x", "2"]), np.ones(3), np.ones((2, 1)), 1.0, None])
def test_values_that_are_no_number_per_state_are_refused(value):
    mdp = MDP(np.full((2, 2, 2), 0.5), np.ones((2, 2)), 0.9)
    with pytest.raises(ValueError, match=r"^value must"):
        action_values(mdp, value)
