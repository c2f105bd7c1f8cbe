"""What `solve` does around the solvers: batches of policies, and progress callbacks."""

import numpy as np
import pytest

from mico.tabular import METRICS, factored_mico, garnet, make, random_policy, solve, solve_policies, watch

OF_A_POLICY = [name for name, metric in METRICS.items() if metric.on == "policy"]


@pytest.mark.parametrize("name", OF_A_POLICY)
def test_a_batch_of_policies_is_its_members(name):
    mdp = garnet(6, 3, seed=0).mdp
    policies = np.stack([random_policy(mdp, seed=seed) for seed in range(4)])
    batch = solve_policies(name, mdp, policies)
    assert batch.matrix.shape == (4, 6, 6)
    for policy, value in zip(policies, batch.matrix, strict=True):
        one = solve(name, mdp, policy)
        np.testing.assert_allclose(value, one.matrix, atol=batch.error + one.error, rtol=0)
    assert np.abs(batch.matrix[0] - batch.matrix[1]).max() > 0.01


@pytest.mark.parametrize("name", ["bisimulation", "lax-bisimulation"])
def test_a_batch_is_refused_where_a_policy_is(name):
    mdp = garnet(3, 2, seed=0).mdp
    with pytest.raises(ValueError, match="policy must be None"):
        solve(name, mdp, np.full((2, 3, 2), 0.5))


def test_an_empty_batch_is_refused():
    with pytest.raises(
        ValueError, match=r"policies must have shape \[B, S, A\] with at least one policy, got \[0, 3, 2\]"
    ):
        solve_policies("mico", garnet(3, 2, seed=0), np.zeros((0, 3, 2)))


@pytest.mark.parametrize("name", METRICS)
def test_watchers_see_the_error_fall_to_the_tolerance(name):
    mdp = garnet(8, 2, seed=1).mdp
    seen: list[float] = []
    with watch(seen.append):
        solve(name, mdp, tolerance=1e-6)
    assert len(seen) >= 2
    assert seen[-1] <= 1e-6 < seen[0]
    solve(name, mdp)
    assert seen[-1] <= 1e-6, "nobody watches outside the with"


def test_watchers_see_the_factored_form_too():
    seen: list[float] = []
    with watch(seen.append):
        factored_mico(make("open-grid", height=20, width=20, discount=0.99).mdp.chain())
    assert len(seen) >= 2
    assert min(seen) < max(seen)
