import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from mico.tabular.abstraction.clustering import epsilon_cover, k_medoids, value_loss_bound
from mico.tabular.abstraction.partition import Partition, quotient
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.policies import optimal_value

SEEDS = st.integers(0, 2**32 - 1)
LINE = np.abs(np.subtract.outer([0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]))
DIFFUSE = np.array([[9.0, 1.0, 3.0], [1.0, 9.0, 3.0], [3.0, 3.0, 9.0]])


def euclidean(seed, size=15):
    points = np.random.default_rng(seed).normal(size=(size, 2))
    return cdist(points, points)


def random_chain(rng, states, discount):
    return Chain(rng.dirichlet(np.full(states, 0.5), size=states), rng.normal(size=states), discount)


def mico(chain):
    return solve_discrete_lyapunov(np.sqrt(chain.discount) * chain.transition, chain.reward_gap())


def transport(cost, one, two):
    """The cheapest coupling of two distributions, as a linear programme."""
    size = len(one)
    margins = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    return linprog(cost.ravel(), A_eq=margins[:-1], b_eq=np.concatenate([one, two])[:-1]).fun


def bisimulation(mdp, sweeps):
    """Sweeps of the operator from zero, plus what is missing to the fixed point."""
    size, d = mdp.num_states, np.zeros((mdp.num_states,) * 2)
    for _ in range(sweeps):
        new = np.zeros_like(d)
        for x, y in itertools.combinations(range(size), 2):
            new[x, y] = new[y, x] = max(
                abs(mdp.reward[x, a] - mdp.reward[y, a])
                + mdp.discount * transport(d, mdp.transition[x, a], mdp.transition[y, a])
                for a in range(mdp.num_actions)
            )
        d = new
    missing = mdp.discount**sweeps * np.ptp(mdp.reward, axis=0).max() / (1 - mdp.discount)
    return d + missing * (1 - np.eye(size))


def check_shape(found, d):
    """Centres are their classes' own, no class is empty, and the radius is the largest distance to a centre."""
    size, count = len(d), found.partition.num_classes
    assert found.partition.block[found.centres].tolist() == list(range(count))
    reach = [0.0 if x == c else d[x, c] for x, c in zip(range(size), found.centres[found.partition.block])]
    assert found.radius == max(reach)
    for x in set(range(size)) - set(found.centres.tolist()):
        assert reach[x] == min(d[x, c] for c in found.centres)


def test_cover_by_hand():
    found = epsilon_cover(LINE, radius=2.0)
    assert found.centres.tolist() == [2, 5]
    assert found.partition.block.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.radius == 2.0
    finer = epsilon_cover(LINE, radius=1.0)
    assert sorted(finer.centres.tolist()) == [0, 2, 3, 5]
    assert finer.radius == 1.0


@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0, 2.5, 100.0]))
def test_cover(seed, radius):
    d = euclidean(seed)
    found = epsilon_cover(d, radius=radius)
    check_shape(found, d)
    assert found.radius <= radius
    assert all(d[a, b] > radius for a, b in itertools.combinations(found.centres, 2))
    one_ball = (d.max(axis=0) <= radius).any()
    assert (found.partition.num_classes == 1) == one_ball


def test_cover_of_radius_zero_joins_only_the_identical():
    d = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert epsilon_cover(d, radius=0.0).partition.block.tolist() == [0, 1, 0]


def test_own_distance_of_a_centre_counts_as_zero():
    found = epsilon_cover(DIFFUSE, radius=1.0)
    assert found.partition.block.tolist() == [0, 0, 1]
    assert found.centres.tolist() == [0, 2]
    assert found.radius == 1.0
    alone = k_medoids(DIFFUSE, num_clusters=3, seed=0)
    assert alone.partition.num_classes == 3
    assert alone.radius == 0.0


@given(SEEDS)
def test_covers_of_mico(seed):
    d = mico(random_chain(np.random.default_rng(seed), 8, 0.9))
    found = epsilon_cover(d, radius=float(np.median(d)))
    check_shape(found, d)
    assert found.radius <= np.median(d)


@pytest.mark.parametrize("seed", range(6))
def test_medoids_by_hand(seed):
    found = k_medoids(LINE, num_clusters=2, seed=seed)
    assert found.partition.block.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.centres.tolist() == [1, 4]
    assert found.radius == 1.0


@given(SEEDS, st.integers(1, 6))
def test_no_swap_improves_medoids(seed, num_clusters):
    d = euclidean(seed, size=10)
    found = k_medoids(d, num_clusters=num_clusters, seed=seed)
    check_shape(found, d)
    assert found.partition.num_classes == num_clusters

    def cost(centres):
        return sum(min(d[x, c] for c in centres) for x in range(10))

    centres = found.centres.tolist()
    for place, state in itertools.product(range(num_clusters), range(10)):
        assert cost([*centres[:place], state, *centres[place + 1 :]]) >= cost(centres) - 1e-9


def test_medoids_of_identical_states_are_never_empty():
    found = k_medoids(np.zeros((5, 5)), num_clusters=4, seed=1)
    assert found.partition.num_classes == 4
    check_shape(found, np.zeros((5, 5)))


def test_seed_of_medoids():
    d = euclidean(0, size=40)
    runs = [k_medoids(d, num_clusters=8, seed=seed) for seed in (0, 0, 1, 2, 3, 4)]
    assert runs[0].centres.tolist() == runs[1].centres.tolist()
    assert len({tuple(run.centres.tolist()) for run in runs}) > 1


def test_bound_by_hand():
    """Two absorbing states that pay 0 and 1: d = 1/(1−γ), and the merged state is worth half of that."""
    both = Partition(np.array([0, 0]))
    d = np.array([[0.0, 10.0], [10.0, 0.0]])
    np.testing.assert_allclose(value_loss_bound(d, both, 0.9), [50.0, 50.0])
    np.testing.assert_allclose(value_loss_bound(d / 10, both, 0.0), [0.5, 0.5])
    lopsided = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    np.testing.assert_allclose(value_loss_bound(lopsided, Partition(np.array([0, 0, 1])), 0.5), [3.0, 3.0, 1.5])


def test_bound_of_singletons_is_zero():
    assert value_loss_bound(DIFFUSE, Partition(np.arange(3)), 0.9).tolist() == [0.0, 0.0, 0.0]


def test_bound_is_tight_without_a_future():
    chain = Chain(np.eye(2), [0.0, 1.0], 0.0)
    both = Partition(np.array([0, 0]))
    loss = np.abs(both.lift(quotient(chain, both).value()) - chain.value())
    np.testing.assert_allclose(loss, value_loss_bound(mico(chain), both, 0.0))


@given(SEEDS, st.sampled_from([0.1, 0.5, 0.9]))
def test_values_of_aggregated_chains(seed, discount):
    rng = np.random.default_rng(seed)
    for _ in range(5):
        chain = random_chain(rng, 7, discount)
        d, value = mico(chain), chain.value()
        for found in (epsilon_cover(d, radius=float(np.median(d))), k_medoids(d, num_clusters=3, seed=0)):
            own = found.centres[found.partition.block]
            assert (np.abs(value - value[own]) <= d[np.arange(7), own] + 1e-9).all()
            loss = np.abs(found.partition.lift(quotient(chain, found.partition).value()) - value)
            assert (loss <= value_loss_bound(d, found.partition, discount) + 1e-9).all()
        anyhow = Partition.from_labels(rng.integers(3, size=7))
        loss = np.abs(anyhow.lift(quotient(chain, anyhow).value()) - value)
        assert (loss <= value_loss_bound(d, anyhow, discount) + 1e-9).all()


@pytest.mark.parametrize("seed", range(4))
def test_optimal_values_of_aggregated_mdps(seed):
    rng = np.random.default_rng(seed)
    mdp = MDP(rng.dirichlet(np.full(4, 0.5), size=(4, 2)), rng.normal(size=(4, 2)), 0.5)
    d, value = bisimulation(mdp, sweeps=8), optimal_value(mdp)
    for labels in itertools.product(range(3), repeat=4):
        partition = Partition.from_labels(labels)
        loss = np.abs(partition.lift(optimal_value(quotient(mdp, partition))) - value)
        assert (loss <= value_loss_bound(d, partition, 0.5) + 1e-9).all()
    found = k_medoids(d, num_clusters=2, seed=seed)
    own = found.centres[found.partition.block]
    assert (np.abs(value - value[own]) <= d[np.arange(4), own] + 1e-9).all()


@pytest.mark.usefixtures("unchecked")
def test_bad_input():
    with pytest.raises(ValueError, match="radius must be finite and not negative, but is -1"):
        epsilon_cover(LINE, radius=-1.0)
    with pytest.raises(ValueError, match="radius must be finite"):
        epsilon_cover(LINE, radius=float("nan"))
    for number in (0, 7):
        with pytest.raises(ValueError, match=rf"num_clusters must lie in 1\.\.6, but is {number}"):
            k_medoids(LINE, num_clusters=number, seed=0)
    with pytest.raises(ValueError, match=r"num_clusters must be a whole number, not 1.5"):
        k_medoids(LINE, num_clusters=1.5, seed=0)
    with pytest.raises(ValueError, match="seed must be at least 0, but is -1"):
        k_medoids(LINE, num_clusters=2, seed=-1)
    with pytest.raises(ValueError, match=r"d must have shape \[S, S\]"):
        k_medoids(LINE[:, :3], num_clusters=2, seed=0)
    with pytest.raises(ValueError, match="d is empty"):
        epsilon_cover(np.zeros((0, 0)), radius=1.0)
    with pytest.raises(ValueError, match="partition has 3 states, but d has 6"):
        value_loss_bound(LINE, Partition(np.arange(3)), 0.9)
    with pytest.raises(ValueError, match="discount must lie in"):
        value_loss_bound(LINE, Partition(np.arange(6)), 1.0)
