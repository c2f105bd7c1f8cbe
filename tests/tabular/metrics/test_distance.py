"""What `distance` does around the solvers: batches of policies, and those who watch."""

import numpy as np
import pytest

from mico.tabular import METRICS, distance, factored_mico, garnet, problem, random_policy, watch

OF_A_POLICY = [name for name, metric in METRICS.items() if metric.on == "policy"]


@pytest.mark.parametrize("name", OF_A_POLICY)
def test_a_batch_of_policies_is_its_members(name):
    mdp = garnet(6, 3, seed=0)
    policies = np.stack([random_policy(mdp, seed=seed) for seed in range(4)])
    batch = distance(name, mdp, policies)
    assert batch.value.shape == (4, 6, 6)
    for policy, value in zip(policies, batch.value, strict=True):
        one = distance(name, mdp, policy)
        np.testing.assert_allclose(value, one.value, atol=batch.error + one.error, rtol=0)
    assert np.abs(batch.value[0] - batch.value[1]).max() > 0.01


@pytest.mark.parametrize("name", ["bisimulation", "lax-bisimulation"])
def test_a_batch_is_refused_where_a_policy_is(name):
    mdp = garnet(3, 2, seed=0)
    with pytest.raises(ValueError, match="policy must be None"):
        distance(name, mdp, np.full((2, 3, 2), 0.5))


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match=r"policy has shape \[0, 3, 2\]"):
        distance("mico", garnet(3, 2, seed=0), np.zeros((0, 3, 2)))


@pytest.mark.parametrize("name", METRICS)
def test_watchers_see_the_error_fall_to_the_tolerance(name):
    mdp = garnet(8, 2, seed=1)
    seen: list[float] = []
    with watch(seen.append):
        distance(name, mdp, tolerance=1e-6)
    assert len(seen) >= 2
    assert seen[-1] <= 1e-6 < seen[0]
    distance(name, mdp)
    assert seen[-1] <= 1e-6, "nobody watches outside the with"


def test_watchers_see_the_factored_form_too():
    seen: list[float] = []
    with watch(seen.append):
        factored_mico(problem("open-grid", height=20, width=20, discount=0.99).mdp.chain())
    assert len(seen) >= 2
    assert min(seen) < max(seen)
