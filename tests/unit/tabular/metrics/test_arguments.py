"""What solvers refuse, and laws of rewards with levels that never come."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mico.tabular import MDP, Chain, factored_mico, garnet, make, optimal, optimal_policy, random_policy, solve
from mico.tabular.metrics.mico import doubling
from mico.tabular.outcomes import RewardLaw

WALK, GAP = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("name", ["cliff-walking", "frozen-lake"])
def test_rewards_that_a_policy_never_gets_are_no_levels_of_its_law(name):
    mdp = make(name).mdp
    chain = mdp.chain(optimal_policy(mdp), reward="sampled")
    full = solve("mico", chain, reward="sampled")
    found = factored_mico(chain)
    everyone = np.arange(mdp.num_states)
    np.testing.assert_allclose(found.row(everyone), full.matrix, rtol=0, atol=found.error + full.error)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("transition", "gap", "discount", "tolerance", "message"),
    [
        (WALK * np.nan, GAP, 0.9, 1e-8, "transition must hold distributions"),
        (WALK * 1.1, GAP, 0.9, 1e-8, "transition must hold distributions"),
        (WALK - 1.0, GAP, 0.9, 1e-8, "transition must hold distributions"),
        (WALK, GAP * np.nan, 0.9, 1e-8, "gap must hold finite numbers"),
        (WALK, -GAP, 0.9, 1e-8, "gap must hold finite numbers"),
        (WALK, GAP, 1.0, 1e-8, "discount must lie in .* 1.0"),
        (WALK, GAP, 1.5, 1e-8, "discount must lie in .* 1.5"),
        (WALK, GAP, 0.9, float("nan"), "tolerance must be positive .* nan"),
        (WALK, GAP, 0.9, 0.0, "tolerance must be positive .* 0.0"),
    ],
)
def test_arrays_that_doubling_refuses(transition, gap, discount, tolerance, message):
    with pytest.raises(ValueError, match=message):
        doubling(transition, gap, discount, tolerance=tolerance)


@pytest.mark.parametrize(
    ("levels", "weights", "message"),
    [
        ([0.0, 1.0], np.ones((2, 2)), "law.weights of state 0 sums to 2"),
        ([0.0, 1.0], np.full((3, 2), 0.5), r"law.weights has shape \[3, 2\], not \[2, 2\]"),
        ([0.0, 1.0, np.inf], np.eye(3)[[0, 1]], r"law.levels\[2\] = inf is not finite"),
        ([1.0, 0.0], np.full((2, 2), 0.5), "law.levels must be a vector of ascending numbers"),
        ([0.0, 1.0], np.eye(2), "reward of state 0 is not the mean of its law"),
    ],
)
def test_laws_that_are_none(levels, weights, message):
    with pytest.raises(ValueError, match=message):
        Chain(WALK, [0.5, 0.5], 0.9, law=RewardLaw(np.array(levels), sp.csr_array(weights)))


def test_a_chain_is_asked_for_what_it_was_made_for():
    chain = make("random-reward").mdp.chain(reward="sampled")
    assert solve("mico", chain, reward="sampled").matrix[0, 0] == pytest.approx(5)
    assert factored_mico(chain).row(0)[0] == pytest.approx(5)
    with pytest.raises(ValueError, match="reward must be 'sampled' for this chain, which was made with it, got 'mean'"):
        solve("mico", chain)


@pytest.mark.usefixtures("unchecked")
def test_what_is_neither_an_mdp_nor_a_chain_is_named():
    rooms = make("mirrored-rooms")
    for wrong, described in ((3, "got int"), (None, "got NoneType"), ("four-rooms", r"make\('four-rooms'\)")):
        with pytest.raises(ValueError, match=rf"model must be a Problem, an MDP or a Chain, .*{described}"):
            solve("mico", wrong)
        with pytest.raises(ValueError, match=rf"model must be a Problem or an MDP, .*{described}"):
            solve("bisimulation", wrong)
        with pytest.raises(ValueError, match=rf"model must be a Problem, an MDP or a Chain, .*{described}"):
            factored_mico(wrong)
    with pytest.raises(ValueError, match="tolerance must be positive and finite, but is 'x'"):
        solve("mico", rooms.mdp, tolerance="x")
    for name in (None, 3, ["mico"]):
        with pytest.raises(ValueError, match="metric must be one of mico"):
            solve(name, rooms.mdp)
    with pytest.raises(ValueError, match="policy must be an array of real numbers"):
        solve("mico", make("bound-example").mdp, [[1, 0], [1]])


@pytest.mark.usefixtures("patience")
def test_as_many_rewards_as_states():
    chain = garnet(200, 2, seed=0, discount=0.99).mdp.chain()
    found, full = factored_mico(chain), solve("mico", chain)
    assert found.error <= 1e-6
    for metric in ("mico", "reduced-mico"):
        exact = full.matrix if metric == "mico" else solve(metric, chain).matrix
        off = np.abs(found.factors.rows(np.arange(200), metric) - exact).max()
        assert off <= found.error + 2 * full.error


def test_many_rewards_of_many_states_ask_for_levels():
    size = 6000
    ring = sp.csr_array((np.ones(size), (np.arange(size), (np.arange(size) + 1) % size)), shape=(size, size))
    chain = Chain(ring, np.random.default_rng(0).random(size), 0.9)
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match="levels must be given to factored_mico for 6000 distinct rewards of 6000 states"
        ):
            factored_mico(chain)
        assert tracemalloc.get_traced_memory()[1] < size**2, "no array of states × rewards, not even of bytes"
    finally:
        tracemalloc.stop()


def test_optimal_values_at_a_discount_near_one():
    """An action that is better by 1e-8 a step counts, where a hundred million steps count."""
    kernel = np.zeros((2, 2, 2))
    kernel[0, 0, 0] = kernel[0, 1, 1] = 1
    kernel[1, :, 0] = 1
    mdp = MDP(kernel, [[1, 1 - 1e-6], [1 + 1e-6 + 9e-9] * 2], 0.9999)
    there = mdp.chain(np.array([[0.0, 1.0], [1.0, 0.0]])).value()
    np.testing.assert_allclose(optimal(mdp)[0], there, rtol=0, atol=1e-8)


def test_seeds_are_not_negative():
    with pytest.raises(ValueError, match="seed must be at least 0, but is -1"):
        random_policy(garnet(3, 2, seed=0).mdp, seed=-1)
