"""To register a metric is to be tested: what every entry of METRICS keeps to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import references
from mico.tabular import MDP, METRICS, garnet, lukaszyk_karmowski, solve, wasserstein
from strategies import PARTS, mdps, sparse

OF_A_POLICY = [name for name, metric in METRICS.items() if metric.on == "policy"]
OF_THE_MDP = [name for name, metric in METRICS.items() if metric.on == "mdp"]
FIXED_POINTS = [name for name, metric in METRICS.items() if metric.update is not None]
SAMPLED = [name for name, metric in METRICS.items() if "sampled" in metric.rewards]
ZERO_FOR_TWINS = [name for name in METRICS if name != "mico"]  # whose self-distances are not zero
PRECISE = 1e-9  # times the size of the numbers: what references and tolerances are exact to

every_metric = pytest.mark.parametrize("name", METRICS)
small = {"states": (1, 2, 3, 5), "actions": (1, 2), "discounts": (0.0, 0.5, 0.9)}


def solved(name, sample, mdp=None, *, precision=PRECISE):
    mdp = sample.mdp if mdp is None else mdp
    return solve(name, mdp, asked(name, sample.policy), tolerance=precision * sample.scale)


def asked(name, policy):
    """The policy, for the metrics that take one."""
    return policy if name in OF_A_POLICY else None


@every_metric
@given(sample=mdps())
def test_is_a_symmetric_and_non_negative_matrix_within_the_tolerance(name, sample):
    found = solved(name, sample)
    value, error, iterations = found.matrix, found.error, found.iterations
    assert value.shape == (sample.mdp.num_states,) * 2
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, value.T)
    assert value.min() >= 0
    assert 0 <= error <= PRECISE * sample.scale
    assert iterations >= 0


@every_metric
@settings(max_examples=15)
@given(sample=mdps(**small, rows=("parts",)))
def test_error_is_a_bound_on_the_true_error(name, sample):
    exact = references.metric(name, sample.mdp, asked(name, sample.policy), parts=PARTS, precision=1e-10 * sample.scale)
    for precision in (0.3, 1e-2, 1e-5, 1e-9):
        found = solved(name, sample, precision=precision)
        value, error = found.matrix, found.error
        assert np.abs(value - exact).max() <= error + 2e-10 * sample.scale
        assert error <= precision * sample.scale


@every_metric
@settings(max_examples=4)
@given(sample=mdps(states=(3,), actions=(2,), discounts=(0.99,), rows=("parts",)))
def test_error_is_a_bound_on_the_true_error_at_a_large_discount(name, sample):
    exact = references.metric(name, sample.mdp, asked(name, sample.policy), parts=PARTS, precision=1e-9 * sample.scale)
    for precision in (1e-2, 1e-9):
        found = solved(name, sample, precision=precision)
        value, error = found.matrix, found.error
        assert np.abs(value - exact).max() <= error + 2e-9 * sample.scale


@pytest.mark.parametrize("name", [name for name in FIXED_POINTS if name != "mico"])
@settings(max_examples=6)
@given(sample=mdps(states=(3, 5), actions=(1, 2), discounts=(0.5, 0.9)))
def test_one_sweep_of_linear_programs_agrees(name, sample):
    """For probabilities of any kind: if a step of the naive operator moves d by e, d is within e/(1−γ)."""

    def cost(mass, other, d):
        i, j = np.flatnonzero(mass), np.flatnonzero(other)
        return references.transport_cost(mass[i], other[j], d[np.ix_(i, j)])

    found = solved(name, sample)
    value, error = found.matrix / sample.scale, found.error
    unit = MDP(sample.mdp.transition, sample.mdp.reward / sample.scale, sample.mdp.discount)
    update, subject = {
        "pi-bisimulation": (references.update_of_policy, unit.chain(sample.policy)),
        "bisimulation": (references.update_of_bisimulation, unit),
        "lax-bisimulation": (references.update_of_lax_bisimulation, unit),
    }[name]
    assert np.abs(update(subject, cost, value) - value).max() <= 2 * error / sample.scale + 1e-9


@pytest.mark.parametrize("name", FIXED_POINTS)
@given(sample=mdps(states=(1, 2, 3, 5), actions=(1, 2)))
def test_operator_is_a_contraction_from_anywhere(name, sample):
    operator = METRICS[name].operator(sample.mdp, asked(name, sample.policy))
    a, b = sample.scale * sample.rng.normal(size=(2, *2 * (sample.mdp.num_states,)))  # negative and asymmetric
    assert np.abs(operator(a) - operator(b)).max() <= (sample.mdp.discount * np.abs(a - b).max()) * (1 + 1e-9)


@pytest.mark.parametrize("name", FIXED_POINTS)
@given(sample=mdps(states=(1, 2, 3, 5), actions=(1, 2)))
def test_operator_keeps_the_solution_and_draws_other_starts_to_it(name, sample):
    operator = METRICS[name].operator(sample.mdp, asked(name, sample.policy))
    found = solved(name, sample)
    value, error = found.matrix, found.error
    assert np.abs(operator(value) - value).max() <= 2 * error + 1e-13 * sample.scale
    d = value + sample.scale * sample.rng.normal(size=value.shape)
    for _ in range(4):
        closer = sample.mdp.discount * np.abs(d - value).max() + 2 * error + 1e-13 * sample.scale
        d = operator(d)
        assert np.abs(d - value).max() <= closer


@pytest.mark.parametrize("name", [name for name in METRICS if name not in FIXED_POINTS])
def test_derived_metrics_have_no_operator(name):
    with pytest.raises(ValueError, match="derived"):
        METRICS[name].operator(garnet(3, 2, seed=0).mdp)


@every_metric
@given(sample=mdps(), factor=st.sampled_from((-3.0, -1.0, 0.0, 1e-5, 2.0)))
def test_scaling_and_shifting_the_rewards(name, sample, factor):
    mdp, scale = sample.mdp, sample.scale
    plain = solved(name, sample)
    scaled = solved(name, sample, MDP(mdp.transition, factor * mdp.reward, mdp.discount))
    np.testing.assert_allclose(scaled.matrix, abs(factor) * plain.matrix, rtol=0, atol=6 * PRECISE * scale)
    moved = solved(name, sample, MDP(mdp.transition, mdp.reward + factor * np.ptp(mdp.reward), mdp.discount))
    np.testing.assert_allclose(moved.matrix, plain.matrix, rtol=0, atol=3 * PRECISE * scale)


@every_metric
@given(sample=mdps())
def test_relabelling_the_states_relabels_the_distances(name, sample):
    mdp = sample.mdp
    new = sample.rng.permutation(mdp.num_states)
    relabelled = MDP(mdp.transition[new][:, :, new], mdp.reward[new], mdp.discount)
    there = solve(name, relabelled, asked(name, sample.policy[new]), tolerance=PRECISE * sample.scale).matrix
    here = solved(name, sample).matrix
    np.testing.assert_allclose(there, here[np.ix_(new, new)], rtol=0, atol=2 * PRECISE * sample.scale)


@pytest.mark.parametrize("name", OF_THE_MDP)
@given(sample=mdps())
def test_relabelling_the_actions_changes_nothing(name, sample):
    mdp = sample.mdp
    new = sample.rng.permutation(mdp.num_actions)
    there = solved(name, sample, MDP(mdp.transition[:, new], mdp.reward[:, new], mdp.discount)).matrix
    np.testing.assert_allclose(there, solved(name, sample).matrix, rtol=0, atol=2 * PRECISE * sample.scale)


@every_metric
@given(sample=mdps(discounts=(0.0,)))
def test_without_a_future_it_is_the_gap_of_rewards(name, sample):
    mdp = sample.mdp
    states, actions = range(mdp.num_states), range(mdp.num_actions)
    gap = np.zeros((mdp.num_states,) * 2)
    for x, y in np.ndindex(gap.shape):
        between = np.array([[abs(mdp.reward[x, a] - mdp.reward[y, b]) for b in actions] for a in actions])
        if name == "bisimulation":
            gap[x, y] = max(between[a, a] for a in actions)
        elif name == "lax-bisimulation":
            gap[x, y] = max(*(min(between[a]) for a in actions), *(min(between[:, b]) for b in actions), 0)
        else:
            mean = [sum(sample.policy[s, a] * mdp.reward[s, a] for a in actions) for s in states]
            gap[x, y] = abs(mean[x] - mean[y])
    np.testing.assert_allclose(solved(name, sample).matrix, gap, rtol=0, atol=PRECISE * sample.scale)


@pytest.mark.parametrize("name", ZERO_FOR_TWINS)
@given(sample=mdps(states=(2, 3, 5, 8), twins=True))
def test_states_that_behave_alike_are_at_distance_zero(name, sample):
    found = solved(name, sample)
    value, error = found.matrix, found.error
    assert value[0, -1] <= error
    np.testing.assert_allclose(value[0], value[-1], rtol=0, atol=2 * error)


@pytest.mark.parametrize("name", ZERO_FOR_TWINS)
@given(sample=mdps())
def test_self_distances_are_zero(name, sample):
    np.testing.assert_array_equal(np.diag(solved(name, sample).matrix), 0)


@every_metric
@given(sample=mdps(pay=("constant",)))
def test_constant_rewards_put_all_states_together(name, sample):
    found = solved(name, sample)
    value, error = found.matrix, found.error
    assert value.max() <= error + 1e-12 * np.abs(sample.mdp.reward).max() / (1 - sample.mdp.discount)


@every_metric
@given(sample=mdps())
def test_dense_and_sparse_agree(name, sample):
    dense, other = solved(name, sample), solved(name, sample, sparse(sample.mdp))
    assert np.abs(dense.matrix - other.matrix).max() <= dense.error + other.error + 1e-13 * sample.scale


@pytest.mark.parametrize("name", OF_A_POLICY)
@given(sample=mdps())
def test_a_chain_stands_for_its_policy(name, sample):
    tolerance = PRECISE * sample.scale
    of_chain = solve(name, sample.mdp.chain(sample.policy), tolerance=tolerance)
    np.testing.assert_array_equal(of_chain.matrix, solved(name, sample).matrix)
    uniform = solve(name, sample.mdp, np.full(sample.mdp.shape, 1 / sample.mdp.num_actions), tolerance=tolerance)
    for policy in (None, "uniform"):
        np.testing.assert_array_equal(solve(name, sample.mdp, policy, tolerance=tolerance).matrix, uniform.matrix)


@every_metric
@pytest.mark.parametrize("num_actions", [1, 3])
def test_one_state(name, num_actions):
    mdp = MDP(np.ones((1, num_actions, 1)), np.arange(num_actions)[None] - 0.5, 0.9)
    found = solve(name, mdp)
    value, error = found.matrix, found.error
    np.testing.assert_allclose(value, [[0.0]], rtol=0, atol=error)


@pytest.mark.parametrize("name", SAMPLED)
@given(sample=mdps(states=(2, 3, 5), discounts=(0.5, 0.9)))
def test_sampled_rewards_against_scipy(name, sample):
    mdp = sample.mdp
    prices = mdp.reward[:, :, None] + np.ptp(mdp.reward) * sample.rng.integers(0, 3, size=mdp.transition.shape)
    priced = MDP(mdp.transition, prices, mdp.discount)
    exact = references.mico(priced.chain(sample.policy, reward="sampled"))
    exact = references.reduced(exact) if name == "reduced-mico" else exact
    found = solve(name, priced, sample.policy, reward="sampled", tolerance=PRECISE * sample.scale)
    value, error = found.matrix, found.error
    assert np.abs(value - exact).max() <= error + 1e-10 * sample.scale


@given(sample=mdps(states=(1, 3, 5), discounts=(0.9,)))
def test_operators_use_the_couplings_that_are_public(sample):
    """One entry of each operator by the two functions of distributions."""
    chain = sample.mdp.chain(sample.policy)
    d = sample.scale * sample.rng.random((chain.num_states,) * 2)
    x, y = sample.rng.integers(chain.num_states, size=2)
    rows, gap = chain.dense_transition(), abs(chain.reward[x] - chain.reward[y])
    for name, lift in (("mico", lukaszyk_karmowski), ("pi-bisimulation", wasserstein)):
        expected = gap + chain.discount * lift(rows[x], rows[y], d)
        found = METRICS[name].operator(chain)(d)[x, y]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12 * sample.scale)
