import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

from mico.tabular.abstraction import bisimilarity
from mico.tabular.abstraction.bisimilarity import bisimulation_relation, policy_bisimulation_relation
from mico.tabular.abstraction.partition import Partition, quotient
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.policies import optimal

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module", params=["numpy", "compiled"])
def refinement(request):
    """Every test runs on the refinement for small models and on the compiled one for large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bisimilarity, "_COMPILED_FROM", 0 if request.param == "compiled" else np.inf)
        yield request.param


TOLERANCES = st.sampled_from([0.0, 0.125, 0.25])


def five_states():
    """s1, s2, t1, t2 and the absorbing T, in that order."""
    transition, reward = np.zeros((5, 2, 5)), np.zeros((5, 2))
    for state, successor, pay in ((0, 1, 0.2), (1, 4, 0.5), (2, 3, 0.2), (3, 4, 1.0), (4, 4, 0.0)):
        transition[state, 0, successor], reward[state, 0] = 1.0, pay
        transition[state, 1, 4] = 1.0
    return MDP(transition, reward, 0.9)


def duplicated(rng, states, copies, actions=2):
    """A random MDP, the same with `copies` of each state among which its probability is split at random, and of whom
    each state is a copy."""
    transition, reward = rng.dirichlet(np.ones(states), size=(states, actions)), rng.random((states, actions))
    origin = rng.permutation(np.repeat(np.arange(states), copies))
    share = rng.random((origin.size, actions, origin.size))
    for state in range(states):
        share[:, :, origin == state] /= share[:, :, origin == state].sum(axis=2, keepdims=True)
    large = MDP(transition[origin][:, :, origin] * share, reward[origin], 0.9)
    return MDP(transition, reward, 0.9), large, origin


def pieces(values, tolerance):
    """The number of gaps wider than the tolerance below each value."""
    ordered = sorted(values)
    cuts = [high for low, high in itertools.pairwise(ordered) if high - low > tolerance]
    return [sum(value >= cut for cut in cuts) for value in values]


def naive_relation(transition, reward, tolerance):
    """Split every class by the signatures of its states until no class falls apart."""
    states, actions = reward.shape
    classes = [list(range(states))]
    moves = False  # the classes by reward come first
    while True:
        split = []
        for mine in classes:
            features = [[reward[x, a] for x in mine] for a in range(actions)]
            if moves:
                features += [
                    [sum(transition[x, a, y] for y in into) for x in mine] for a in range(actions) for into in classes
                ]
            signatures = list(zip(*(pieces(values, tolerance) for values in features)))
            split += [[x for x, other in zip(mine, signatures) if other == one] for one in dict.fromkeys(signatures)]
        if moves and len(split) == len(classes):
            return Partition.from_labels(
                [next(c for c, mine in enumerate(classes) if x in mine) for x in range(states)]
            )
        classes, moves = split, True


def coarse_mdp(rng, states, actions, levels, steps=8):
    """Rewards in eighths and probabilities in `steps`-ths: sums are exact, and many values tie or lie a step apart."""
    counts = rng.multinomial(steps, rng.dirichlet(np.full(states, 0.5)), size=(states, actions))
    return MDP(counts / steps, rng.integers(-levels // 2, levels // 2, size=(states, actions)) / 8, 0.9)


def sparse(mdp):
    return MDP([sp.csr_array(kernel) for kernel in mdp.kernels], mdp.reward, mdp.discount)


def test_worked_example_has_five_classes():
    assert bisimulation_relation(five_states(), tolerance=1e-9).num_classes == 5


@pytest.mark.parametrize(
    ("tolerance", "block"),
    [
        (0.25, [0, 1, 2, 3, 4]),  # rewards 0, .2, .2 | .5 | 1, then s1 and t1 move to different classes
        (0.35, [0, 0, 1, 2, 0]),  # rewards 0, .2, .2, .5 | 1, then t1 alone moves to t2
        (0.6, [0, 0, 0, 0, 0]),  # every step between the rewards is smaller
    ],
)
def test_worked_example_under_wide_tolerances(tolerance, block):
    assert bisimulation_relation(five_states(), tolerance=tolerance).block.tolist() == block


def test_a_chain_of_small_steps_breaks_when_its_middle_leaves():
    chain = Chain([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]], [0.0, 0.2, 0.4, 10.0], 0.9)
    assert policy_bisimulation_relation(chain, tolerance=0.25).num_classes == 4
    assert policy_bisimulation_relation(chain, tolerance=0.5).block.tolist() == [0, 1, 0, 2]


def test_a_chain_of_probabilities_breaks_when_its_middle_leaves():
    """a, b, c move to G with 0, .2, .4; b leaves them once k1 and k2 are told apart, and only then a and c part."""
    transition = np.zeros((7, 7))
    a, b, c, k1, k2, G, H = range(7)
    transition[a, [k1, H]] = 0.5, 0.5
    transition[b, [G, k2, H]] = 0.2, 0.3, 0.5
    transition[c, [G, k1, H]] = 0.4, 0.3, 0.3
    transition[[k1, k2, G, H], [G, H, G, H]] = 1.0
    chain = Chain(transition, [0.0, 0.0, 0.0, 3.0, 3.0, 1.0, 2.0], 0.9)
    assert policy_bisimulation_relation(chain, tolerance=0.25).num_classes == 7
    assert policy_bisimulation_relation(chain, tolerance=0.45).block.tolist() == [0, 0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(("gap", "num_classes"), [(0.9e-6, 1), (1.1e-6, 2)])
def test_tolerance_is_respected_by_rewards(gap, num_classes):
    chain = Chain(np.eye(2), [1.0, 1.0 + gap], 0.9)
    assert policy_bisimulation_relation(chain, tolerance=1e-6).num_classes == num_classes


@pytest.mark.parametrize(("gap", "num_classes"), [(0.9e-6, 3), (1.1e-6, 4)])
def test_tolerance_is_respected_by_probabilities(gap, num_classes):
    transition = [[0, 0, 0.5, 0.5], [0, 0, 0.5 + gap, 0.5 - gap], [0, 0, 1, 0], [0, 0, 0, 1]]
    chain = Chain(transition, [0.0, 0.0, 1.0, 2.0], 0.9)
    assert policy_bisimulation_relation(chain, tolerance=1e-6).num_classes == num_classes


@settings(max_examples=150)
@given(
    SEEDS,
    st.sampled_from([(4, 1), (8, 1), (8, 2), (12, 2)]),
    st.sampled_from([2, 8, 16]),
    st.sampled_from([1, 8]),
    TOLERANCES,
)
def test_naive_refinement(seed, shape, levels, steps, tolerance):
    mdp = coarse_mdp(np.random.default_rng(seed), *shape, levels, steps)
    expected = naive_relation(mdp.transition, mdp.reward, tolerance)
    assert bisimulation_relation(mdp, tolerance=tolerance) == expected
    assert bisimulation_relation(sparse(mdp), tolerance=tolerance) == expected


@given(SEEDS, st.sampled_from([(3, 1), (4, 2), (3, 4)]))
def test_copies_are_recovered(seed, shape):
    rng = np.random.default_rng(seed)
    base, large, origin = duplicated(rng, *shape)
    found = bisimulation_relation(large, tolerance=1e-9)
    assert found == Partition.from_labels(origin)
    assert bisimulation_relation(base, tolerance=1e-9).num_classes == base.num_states
    small = quotient(large, found)
    named = origin[[found.members(c)[0] for c in range(found.num_classes)]]
    np.testing.assert_allclose(small.transition, base.transition[named][:, :, named], atol=1e-12)
    np.testing.assert_allclose(small.reward, base.reward[named], atol=1e-12)


@given(SEEDS)
def test_quotient_keeps_values(seed):
    rng = np.random.default_rng(seed)
    _, large, _ = duplicated(rng, 4, 3)
    found = bisimulation_relation(large, tolerance=1e-9)
    value, policy = optimal(quotient(large, found))
    np.testing.assert_allclose(found.lift(value), optimal(large)[0], atol=1e-9)
    np.testing.assert_allclose(found.lift(value), large.chain(found.lift(policy)).value(), atol=1e-9)


@given(SEEDS)
def test_related_states_of_a_chain_share_their_mico_distances(seed):
    rng = np.random.default_rng(seed)
    _, large, origin = duplicated(rng, 4, 2)
    chain = large.chain(Partition.from_labels(origin).lift(rng.dirichlet(np.ones(2), size=4)))
    found = policy_bisimulation_relation(chain, tolerance=1e-9)
    assert found == Partition.from_labels(origin)
    distance = solve_discrete_lyapunov(np.sqrt(0.9) * chain.transition, chain.reward_gap())
    for c in range(found.num_classes):
        one, two = found.members(c)
        np.testing.assert_allclose(distance[one], distance[two], atol=1e-9)


@given(SEEDS, TOLERANCES)
def test_order_of_states_and_actions_does_not_matter(seed, tolerance):
    rng = np.random.default_rng(seed)
    mdp = coarse_mdp(rng, 9, 3, levels=16)
    states, actions = rng.permutation(9), rng.permutation(3)
    other = MDP(mdp.transition[states][:, actions][:, :, states], mdp.reward[states][:, actions], 0.9)
    found = bisimulation_relation(mdp, tolerance=tolerance)
    assert bisimulation_relation(other, tolerance=tolerance) == Partition.from_labels(found.block[states])


def test_batches_change_nothing(monkeypatch, refinement):
    if refinement == "compiled":
        pytest.skip("has no batches")
    rng = np.random.default_rng(3)
    models = [coarse_mdp(rng, 12, 1, levels=16) for _ in range(20)]
    whole = [bisimulation_relation(mdp, tolerance=0.125) for mdp in models]
    monkeypatch.setattr("mico.tabular.abstraction.bisimilarity._ENTRIES", 5)
    assert [bisimulation_relation(mdp, tolerance=0.125) for mdp in models] == whole
    assert len({partition.num_classes for partition in whole}) > 1


def test_one_reward_is_one_class():
    mdp = MDP(np.random.default_rng(0).dirichlet(np.ones(6), size=(6, 2)), np.ones((6, 2)), 0.9)
    assert bisimulation_relation(mdp, tolerance=0.0).num_classes == 1


def test_a_large_sparse_ring():
    states = np.arange(200_000)
    ahead = sp.csr_array((np.ones(states.size), (states, np.roll(states, -1))))
    back = sp.csr_array((np.ones(states.size), (states, np.roll(states, 1))))
    step = states % 10
    reward = np.stack([step == 0, step == 0], axis=1)
    found = bisimulation_relation(MDP([ahead, back], reward, 0.9), tolerance=1e-9)
    assert found == Partition.from_labels(step)
    uniform = policy_bisimulation_relation(Chain((ahead + back) / 2, reward[:, 0], 0.9), tolerance=1e-9)
    assert uniform == Partition.from_labels(np.minimum(step, 10 - step))  # the mirror image behaves alike
    assert quotient(MDP([ahead, back], reward, 0.9), found).num_states == 10


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf])
def test_bad_tolerance(tolerance):
    with pytest.raises(ValueError, match="tolerance must be finite and not negative"):
        bisimulation_relation(five_states(), tolerance=tolerance)


@pytest.mark.usefixtures("unchecked")
def test_a_relation_is_asked_of_what_it_is_of():
    with pytest.raises(ValueError, match="mdp must be a Problem or an MDP, got a Chain"):
        bisimulation_relation(five_states().chain(), tolerance=0.0)
    with pytest.raises(ValueError, match="policy must be None for a Chain"):
        policy_bisimulation_relation(five_states().chain(), "uniform", tolerance=0.0)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_rewards_far_from_zero_split_no_more_states(offset):
    """Two states with the same rewards in another order, which are alike under the uniform policy."""
    reward = offset + np.array([0.1, 0.2, 0.4, 0.8, 1.6]) * np.ones((2, 1))
    reward[1] = reward[1, ::-1]
    mdp = MDP(np.full((2, 5, 2), 0.5), reward, 0.9)
    assert policy_bisimulation_relation(mdp.chain(), tolerance=1e-9).num_classes == 1
    assert bisimulation_relation(mdp, tolerance=1e-9).num_classes == 2
