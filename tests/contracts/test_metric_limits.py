"""What no metric can do, every entry of METRICS says: tolerances out of reach, and questions that make no sense."""

import warnings

import numpy as np
import pytest

import references
from mico.tabular import MDP, METRICS, ToleranceWarning, garnet, make, solve

OF_A_POLICY = [name for name, metric in METRICS.items() if metric.on == "policy"]
OF_THE_MDP = [name for name, metric in METRICS.items() if metric.on == "mdp"]
SAMPLED = [name for name, metric in METRICS.items() if "sampled" in metric.rewards]

every_metric = pytest.mark.parametrize("name", METRICS)


@every_metric
@pytest.mark.parametrize("tolerance", [1e-14, 1e-15, 1e-16, 1e-30])
@pytest.mark.parametrize("discount", [0.5, 0.9])
@pytest.mark.usefixtures("patience")
def test_a_tolerance_out_of_reach_gives_a_warning_and_an_honest_error(name, tolerance, discount):
    rng = np.random.default_rng(7)
    mdp = MDP(rng.multinomial(4, np.full(5, 0.2), size=(5, 2)) / 4, rng.normal(size=(5, 2)), discount)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = solve(name, mdp, tolerance=tolerance)
        value, error = found.matrix, found.error
    assert (ToleranceWarning in [warning.category for warning in caught]) == (error > tolerance)
    assert error > tolerance or tolerance >= 1e-14
    assert error < 1e-9
    exact = references.metric(name, mdp, None, parts=8, precision=1e-12)
    assert np.abs(value - exact).max() <= error + 1e-11


@every_metric
@pytest.mark.parametrize("scale", [1e6, 1e12, 1e100])
@pytest.mark.usefixtures("patience")
def test_large_rewards_with_the_usual_tolerance_come_back_with_a_warning(name, scale):
    mdp = garnet(5, 2, seed=3).mdp
    exact = solve(name, mdp, tolerance=1e-11)
    with pytest.warns(ToleranceWarning, match=name):
        found = solve(name, MDP(mdp.transition, scale * mdp.reward, mdp.discount))
    value, error = found.matrix, found.error
    assert 1e-8 < error < 1e-9 * scale
    assert np.abs(value / scale - exact.matrix).max() <= error / scale + 2e-11


@every_metric
@pytest.mark.usefixtures("patience")
def test_rewards_too_large_to_subtract_are_refused(name):
    with pytest.raises(ValueError, match="reward spans"):
        solve(name, MDP(np.full((2, 1, 2), 0.5), [[1.5e308], [-1.5e308]], 0.9))


@pytest.mark.parametrize("name", ["bisimulation", "lax-bisimulation"])
def test_rows_that_differ_by_rounding_alone_do_not_hide_other_actions(name):
    """Action 0 leads x and y to the same place, but for digits beyond the fifteenth; the others do not."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        transition, reward = rng.dirichlet(np.full(5, 0.3), size=(5, 2)), rng.random((5, 2))
        transition[0, 0] = [0.4, 0.15, 0.15, 0.15, 0.15]
        transition[1, 0], reward[1, 0] = transition[0, 0], reward[0, 0]
        exact = solve(name, MDP(transition, reward, 0.9)).matrix
        transition[1, 0] += np.array([-4, 1, 1, 1, 1]) * 8e-16
        found = solve(name, MDP(transition, reward, 0.9))
        value, error = found.matrix, found.error
        assert np.abs(value - exact).max() <= error + 1e-8


@pytest.mark.parametrize("name", OF_THE_MDP)
def test_metrics_of_the_mdp_refuse_a_policy_and_a_chain(name):
    mdp = garnet(3, 2, seed=0).mdp
    for policy in ("uniform", np.full((3, 2), 0.5)):
        with pytest.raises(ValueError, match="policy must be None"):
            solve(name, mdp, policy)
    with pytest.raises(ValueError, match="model must be a Problem or an MDP, got a Chain"):
        solve(name, mdp.chain())


@pytest.mark.parametrize("name", OF_A_POLICY)
def test_policies_that_are_none_are_refused(name):
    mdp = garnet(3, 2, seed=0).mdp
    for policy, message in (
        ("greedy", "'greedy'"),
        ([[0.5, 0.5]], r"policy has shape \[1, 2\], but the MDP asks for \[3, 2\]"),
        ([[1, 0], [0.5, 0.6], [0, 1]], "policy of state 1 sums to 1.1"),
        ([[1, 0], [1, 0], [1.5, -0.5]], "policy of state 2, at action 1, is -0.5: negative"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(name, mdp, policy)
    with pytest.raises(ValueError, match="policy must be None for a Chain"):
        solve(name, mdp.chain(), "uniform")


def test_unknown_names_are_refused_with_those_near_it():
    for name, near in (("micoo", "mico"), ("bisimulaton", "bisimulation")):
        with pytest.raises(ValueError, match=f"metric must be one of .*, got '{name}': did you mean .*{near}"):
            solve(name, garnet(2, 1, seed=0).mdp)
    for name in ("zzz", "reward_law_of"):
        with pytest.raises(ValueError, match=f"metric must be one of mico, .*reward-law, got '{name}'"):
            solve(name, garnet(2, 1, seed=0).mdp)


@every_metric
@pytest.mark.parametrize("tolerance", [0.0, -1e-8, float("nan"), float("inf")])
def test_tolerances_that_mean_nothing_are_refused(name, tolerance):
    with pytest.raises(ValueError, match="tolerance must be positive and finite, but is"):
        solve(name, garnet(2, 1, seed=0).mdp, tolerance=tolerance)


@every_metric
def test_sampled_rewards_are_compared_or_refused(name):
    mdp = make("random-reward").mdp
    if name not in SAMPLED:
        with pytest.raises(ValueError, match="reward must be 'mean' for this metric, not 'sampled'"):
            solve(name, mdp, reward="sampled")
        return
    np.testing.assert_allclose(solve("mico", mdp, reward="sampled").matrix, [[5.0]])
    np.testing.assert_allclose(solve("reduced-mico", mdp, reward="sampled").matrix, [[0.0]], atol=1e-8)


@pytest.mark.parametrize("name", SAMPLED)
def test_a_chain_without_a_law_of_rewards_is_refused_where_they_are_to_be_sampled(name):
    with pytest.raises(ValueError, match="reward"):
        solve(name, make("random-reward").mdp.chain(), reward="sampled")
