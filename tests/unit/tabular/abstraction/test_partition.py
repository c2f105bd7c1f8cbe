import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mico.tabular.abstraction.partition import Partition, quotient
from mico.tabular.chain import Chain
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import RewardLaw

SEEDS = st.integers(0, 2**32 - 1)


def random_mdp(rng, states, actions, discount=0.9):
    return MDP(rng.dirichlet(np.ones(states), size=(states, actions)), rng.normal(size=(states, actions)), discount)


def sparse(mdp):
    return MDP([sp.csr_array(kernel) for kernel in mdp.kernels], mdp.reward, mdp.discount)


def test_classes_are_numbered_by_first_appearance():
    partition = Partition.from_labels([7, 3, 7, -1, 3])
    assert partition.block.tolist() == [0, 1, 0, 2, 1]
    assert partition.num_states == 5
    assert partition.num_classes == 3
    assert partition.sizes.tolist() == [2, 2, 1]
    assert [partition.members(c).tolist() for c in range(3)] == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("kind", ["least", "largest", "far apart", "numbered"])
def test_labels_of_any_integers(dtype, kind):
    """The numbers by a loop, for labels at the ends of what a type can hold, close together and far apart."""
    least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = {
        "least": [least + 3, least, least + 1],
        "largest": [largest, largest - 2, largest - 1],
        "far apart": [largest, least, 7],
        "numbered": [0, 1, 2],
    }[kind]
    labels = [values[i] for i in (0, 1, 0, 1, 2, 2, 0)]
    found = Partition.from_labels(np.array(labels, dtype=dtype))
    seen = list(dict.fromkeys(labels))
    assert found.block.tolist() == [seen.index(label) for label in labels]
    assert found.block.dtype == np.int64


def test_equal_partitions_are_equal():
    one, two = Partition.from_labels([7, 3, 7]), Partition.from_labels([0, 9, 0])
    assert one == two
    assert hash(one) == hash(two)
    assert one != Partition.from_labels([0, 1, 1])
    assert one != [0, 1, 0]


def test_block_is_read_only_and_its_own():
    labels = np.array([0, 1, 0])
    partition = Partition(labels)
    labels[0] = 1
    assert partition.block.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        partition.block[0] = 1


def test_maps_both_ways_by_hand():
    partition = Partition(np.array([0, 1, 0, 2, 1]))
    assert partition.lift(np.array([5.0, 6.0, 7.0])).tolist() == [5, 6, 5, 7, 6]
    policy = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    assert partition.lift(policy).tolist() == policy[[0, 1, 0, 2, 1]].tolist()
    assert partition.lower(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [2.0, 3.5, 4.0]
    assert partition.lower(np.arange(10.0).reshape(5, 2)).tolist() == [[2.0, 3.0], [5.0, 6.0], [6.0, 7.0]]


@given(SEEDS)
def test_lower_undoes_lift(seed):
    rng = np.random.default_rng(seed)
    partition = Partition.from_labels(rng.integers(4, size=9))
    values = rng.normal(size=(partition.num_classes, 3))
    np.testing.assert_allclose(partition.lower(partition.lift(values)), values, atol=1e-14)


def test_values_may_be_lists():
    partition = Partition(np.array([0, 1, 0]))
    assert partition.lift([5, 7]).tolist() == [5, 7, 5]
    assert partition.lower([[1, 0], [2, 4], [3, 6]]).tolist() == [[2, 3], [2, 4]]
    with pytest.raises(ValueError, match="values must be an array of real numbers"):
        partition.lower(["a", "b", "c"])


@given(SEEDS)
def test_quotient_by_naive_loops(seed):
    rng = np.random.default_rng(seed)
    mdp, partition = random_mdp(rng, 6, 2), Partition.from_labels(rng.integers(3, size=6))
    groups = [partition.members(c) for c in range(partition.num_classes)]
    reward = [[np.mean([mdp.reward[x, a] for x in group]) for a in range(2)] for group in groups]
    move = [
        [[np.mean([sum(mdp.transition[x, a, y] for y in into) for x in group]) for into in groups] for a in range(2)]
        for group in groups
    ]
    small = quotient(mdp, partition)
    assert isinstance(small.transition, np.ndarray)
    assert small.discount == mdp.discount
    np.testing.assert_allclose(small.reward, reward, atol=1e-13)
    np.testing.assert_allclose(small.transition, move, atol=1e-13)
    thin = quotient(sparse(mdp), partition)
    assert isinstance(thin.transition, tuple)
    np.testing.assert_allclose(np.stack([kernel.toarray() for kernel in thin.kernels], axis=1), move, atol=1e-13)


@given(SEEDS)
def test_quotient_of_a_chain_is_the_chain_of_the_quotient(seed):
    rng = np.random.default_rng(seed)
    mdp, partition = random_mdp(rng, 6, 2), Partition.from_labels(rng.integers(3, size=6))
    policy = rng.dirichlet(np.ones(2), size=partition.num_classes)
    expected = quotient(mdp, partition).chain(policy)
    for model in (mdp, sparse(mdp)):
        found = quotient(model.chain(partition.lift(policy)), partition)
        assert sp.issparse(found.transition) == isinstance(model.transition, tuple)
        np.testing.assert_allclose(found.dense_transition(), expected.transition, atol=1e-13)
        np.testing.assert_allclose(found.reward, expected.reward, atol=1e-13)


def test_quotient_of_a_chain_averages_the_law_of_its_reward():
    law = RewardLaw(np.array([0.0, 1.0]), sp.csr_array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    chain = Chain(np.eye(3), [0.0, 1.0, 0.5], 0.9, law=law)
    found = quotient(chain, Partition(np.array([0, 0, 1])))
    assert found.law is not None
    assert found.law.weights.toarray().tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert found.reward.tolist() == [0.5, 0.5]


def test_singletons_change_nothing():
    mdp = random_mdp(np.random.default_rng(0), 5, 2)
    same = quotient(mdp, Partition(np.arange(5)))
    np.testing.assert_allclose(same.transition, mdp.transition, atol=1e-15)
    np.testing.assert_array_equal(same.reward, mdp.reward)


@pytest.mark.parametrize("block", [[1, 0], [0, 2], [-1, 0], [0, 1, 3]])
def test_block_numbered_otherwise(block):
    with pytest.raises(ValueError, match=r"block\[\d\] = -?\d, but by first appearance that class is \d"):
        Partition(np.array(block))


@pytest.mark.parametrize("labels", [[], [0.0, 1.0], [[0, 1]], 3, [True, False]])
def test_labels_that_are_no_vector_of_integers(labels):
    with pytest.raises(ValueError, match="block must be a vector of integers"):
        Partition.from_labels(labels)


def test_wrong_lengths():
    partition = Partition(np.array([0, 1, 0]))
    with pytest.raises(ValueError, match=r"values has shape \[3\], but there are 2 classes"):
        partition.lift(np.zeros(3))
    with pytest.raises(ValueError, match=r"values has shape \[2, 2\], but there are 3 states"):
        partition.lower(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="number = 2 is not a class"):
        partition.members(2)
    with pytest.raises(ValueError, match="partition has 3 states, but the model has 4"):
        quotient(random_mdp(np.random.default_rng(0), 4, 1), partition)
