"""The worked examples, by their numbers: the registered problem, and the same MDP written out by hand."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from mico.tabular import MDP, METRICS, Chain, lukaszyk_karmowski, make, optimal_value, solve
from mico.tabular.abstraction.bisimilarity import bisimulation_relation
from mico.tabular.diagnostics import check_axioms

EXACT = {"rtol": 0, "atol": 1e-8}


def chain_of(name, discount=0.9):
    example = make(name, discount=discount)
    return example.mdp.chain("uniform" if example.policy is None else example.policy)


def value(name, subject, policy=None, **options):
    return solve(name, subject, policy, **options).matrix


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.9, 0.99])
def test_1_the_reduced_distance_is_below_the_value_gap(discount):
    """The paper's lemma on ΠU."""
    for chain in (chain_of("two-state", discount), Chain([[0.5, 0.5], [0, 1]], [1, 0], discount)):
        half, quarter = 1 - discount / 2, 1 - discount / 4
        full = [[discount / 2 / half / quarter, 1 / half], [1 / half, 0]]
        np.testing.assert_allclose(value("mico", chain), full, **EXACT)
        np.testing.assert_allclose(value("reduced-mico", chain), [[0, 1 / quarter], [1 / quarter, 0]], **EXACT)
        assert chain.value()[0] - chain.value()[1] == pytest.approx(1 / half)


def test_1_at_the_printed_discount():
    full = value("mico", chain_of("two-state"))
    np.testing.assert_allclose(full, [[360 / 341, 20 / 11], [20 / 11, 0]], **EXACT)
    assert value("reduced-mico", chain_of("two-state"))[0, 1] == pytest.approx(40 / 31)
    assert np.ptp(chain_of("two-state").value()) == pytest.approx(20 / 11)


@pytest.mark.parametrize("k", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("policy", ["printed", "mirrored"])
def test_2_the_bisimulation_bound_is_broken_by_other_policies(k, policy):
    loops = [[[1, 0], [1, 0]], [[0, 1], [0, 1]]]
    taken = [[0, 1], [1, 0]] if policy == "printed" else [[1, 0], [0, 1]]
    gap = abs(k - 1) if policy == "printed" else k
    example = make("bound-example", k=k, policy=policy)
    for mdp, rows in ((example.mdp, example.policy), (MDP(loops, [[0, k], [1, k]], 0.9), np.array(taken))):
        assert value("bisimulation", mdp)[0, 1] == pytest.approx(10)
        values = mdp.chain(rows).value()
        assert abs(values[0] - values[1]) == pytest.approx(10 * gap)
        assert (abs(values[0] - values[1]) > value("bisimulation", mdp)[0, 1]) == (gap > 1)
        assert value("mico", mdp, rows)[0, 1] == pytest.approx(10 * gap)


def test_3_a_lukaszyk_karmowski_distance_that_is_no_partial_metric():
    points, d = np.array([[1, 0], [0, 1], [0.5, 0.5]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    between = np.array([[lukaszyk_karmowski(mu, nu, d) for nu in points] for mu in points])
    np.testing.assert_allclose(between, [[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0.5]], **EXACT)
    report = check_axioms(between)
    assert report.is_diffuse_metric
    assert not report.is_partial_metric
    assert not report.axioms["modified-triangle"].holds
    assert report.axioms["modified-triangle"].excess == pytest.approx(0.5)  # d(δ₀,δ₁) = 1 > ½ + ½ − ½


@pytest.mark.parametrize("k", [1.0, 3.0])
def test_4_bisimulation_is_pessimistic(k):
    s, t, u = np.eye(3)
    by_hand = MDP([[t, u], [u, s], [u, u]], [[k, 0], [0, k], [0, 0]], 0.9)
    best = np.array([[1, 0], [0, 1], [1, 0]])
    example = make("pessimism", k=k)
    np.testing.assert_array_equal(example.policy[:2], best[:2])
    for mdp in (example.mdp, by_hand):
        np.testing.assert_allclose(optimal_value(mdp), [10 * k, 10 * k, 0], **EXACT)
        np.testing.assert_allclose(value("bisimulation", mdp), 10 * k * (1 - np.eye(3)), rtol=0, atol=1e-7)
        np.testing.assert_allclose(value("lax-bisimulation", mdp)[0], [0, 0, 10 * k], rtol=0, atol=1e-7)
        for name in ("pi-bisimulation", "mico"):
            assert value(name, mdp, best)[0, 1] == pytest.approx(0, abs=1e-8)
            assert value(name, mdp, best)[0, 2] == pytest.approx(10 * k)


def test_5_a_coin_toss():
    rows = [[0, 0, 0.5, 0.5], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    coupled = np.array([[0, 4.5, 4.5, 5.5], [4.5, 0, 0, 10], [4.5, 0, 0, 10], [5.5, 10, 10, 0]])
    for chain in (chain_of("coin-chain"), Chain(rows, [0, 0, 0, 1], 0.9)):
        np.testing.assert_allclose(value("pi-bisimulation", chain), coupled, **EXACT)
        np.testing.assert_allclose(value("mico", chain), coupled + np.diag([4.5, 0, 0, 0]), **EXACT)
        reduced = value("reduced-mico", chain)
        assert (reduced[0, 1], reduced[0, 3], reduced[1, 3]) == pytest.approx((2.25, 3.25, 10))
        assert reduced[1, 3] > reduced[1, 0] + reduced[0, 3]  # a squared distance: no triangle inequality


def test_6_values():
    for chain in (chain_of("value-example"), Chain([[0.5, 0.5], [0.8, 0.2]], [1, 0], 0.9)):
        np.testing.assert_allclose(chain.value(), [6.46, 5.67], rtol=0, atol=0.005)


def test_7_terminals_need_a_sink():
    for chain in (chain_of("terminals"), Chain([[0.5, 0, 0.5], [0, 0, 1], [0, 0, 1]], [1, 0, 0], 0.9)):
        full, values = value("mico", chain), chain.value()
        assert (full[0, 1], full[0, 0]) == pytest.approx((20 / 11, 360 / 341))
        assert abs(values[0] - values[1]) <= full[0, 1] + 1e-12
    going_on = np.sqrt(0.9) * np.array([[0.5, 0], [0, 0]])
    dropped = solve_discrete_lyapunov(going_on, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert dropped[0, 1] == pytest.approx(1.0)
    assert abs(values[0] - values[1]) > dropped[0, 1]


def test_8_random_rewards():
    example = make("random-reward", discount=0.8).mdp
    by_hand = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[[0, 1]], [[0, 1]]], 0.8)  # the reward is where it leads
    for mdp in (example, by_hand):
        np.testing.assert_allclose(value("mico", mdp), 0, **EXACT)
        np.testing.assert_allclose(value("mico", mdp, reward="sampled"), 0.5 / 0.2, **EXACT)
        np.testing.assert_allclose(value("reduced-mico", mdp, reward="sampled"), 0, **EXACT)


def test_9_five_states():
    s1, s2, t1, t2, end = range(5)
    following = np.array([[s2, end], [end, end], [t2, end], [end, end], [end, end]])
    by_hand = MDP(np.eye(5)[following], [[0.2, 0], [0.5, 0], [0.2, 0], [1.0, 0], [0, 0]], 0.9)
    for mdp in (make("five-state").mdp, by_hand):
        d = value("bisimulation", mdp)
        assert (d[s1, t1], d[s2, t2], d[s1, s2], d[t1, t2]) == pytest.approx((0.45, 0.5, 0.75, 1.7))
        assert len(np.unique(np.round(d, 6), axis=0)) == 5
        assert bisimulation_relation(mdp, tolerance=1e-9).num_classes == 5


def test_action_rewards_are_averaged_before_they_are_compared():
    """One state, two actions paying 0 and 1: U = 0, while draws of rewards are ½ apart on average."""
    for mdp in (make("action-reward").mdp, MDP([[[1], [1]]], [[0, 1]], 0.9)):
        assert value("mico", mdp)[0, 0] == pytest.approx(0, abs=1e-12)
        assert value("mico", mdp, reward="sampled")[0, 0] == pytest.approx(5)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.update is not None])
def test_examples_come_out_the_same_by_iterating_the_definition(name):
    """Operators from zero, 400 times; derived metrics have none."""
    for key in ("two-state", "pessimism", "coin-chain", "five-state"):
        example = make(key)
        policy = example.policy if METRICS[name].on == "policy" else None
        operator, d = METRICS[name].operator(example.mdp, policy), np.zeros((example.mdp.num_states,) * 2)
        for _ in range(400):
            d = operator(d)
        np.testing.assert_allclose(value(name, example.mdp, policy), d, **EXACT)
