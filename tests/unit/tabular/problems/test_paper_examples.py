"""The printed numbers of the small examples, by solvers that are not ours where one is needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

from mico.tabular.policies import optimal
from mico.tabular.problems import make

discounts = st.floats(0.05, 0.95)


def mico(chain):
    """U = D + γ P U Pᵀ by SciPy's solver."""
    return solve_discrete_lyapunov(np.sqrt(chain.discount) * chain.dense_transition(), chain.reward_gap())


@given(discount=discounts)
def test_two_state(discount):
    chain = make("two-state", discount=discount).mdp.chain()
    distance, half, quarter = mico(chain), 1 - discount / 2, 1 - discount / 4
    np.testing.assert_allclose(distance, [[discount / 2 / half / quarter, 1 / half], [1 / half, 0]], atol=1e-9)
    np.testing.assert_allclose(chain.value(), [1 / half, 0])
    assert distance[0, 1] - distance[0, 0] / 2 == pytest.approx(1 / quarter)


@given(discount=discounts, k=st.floats(0.0, 10.0))
def test_bound_example(discount, k):
    for policy, gap in (("printed", abs(k - 1)), ("mirrored", k)):
        example = make("bound-example", k=k, policy=policy, discount=discount)
        chain = example.mdp.chain(example.policy)
        np.testing.assert_array_equal(chain.dense_transition(), np.eye(2))
        value = chain.value()
        assert abs(value[0] - value[1]) == pytest.approx(gap / (1 - discount), abs=1e-9)
        np.testing.assert_array_equal(example.mdp.reward, [[0, k], [1, k]])


def test_bound_example_printed_policy_takes_b_in_x_and_a_in_y():
    np.testing.assert_array_equal(make("bound-example").policy, [[0, 1], [1, 0]])
    np.testing.assert_array_equal(make("bound-example", policy="mirrored").policy, [[1, 0], [0, 1]])


@given(k=st.floats(0.1, 10.0))
def test_pessimism(k):
    example = make("pessimism", k=k)
    value, policy = optimal(example.mdp)
    np.testing.assert_allclose(value, [10 * k, 10 * k, 0])
    np.testing.assert_array_equal(policy[:2], example.policy[:2])
    chain = example.mdp.chain(example.policy)
    np.testing.assert_allclose(chain.value(), value)
    assert mico(chain)[0, 1] == pytest.approx(0, abs=1e-9)
    np.testing.assert_array_equal(example.mdp.transition[:, 0].argmax(axis=1), [1, 2, 2])
    np.testing.assert_array_equal(example.mdp.transition[:, 1].argmax(axis=1), [2, 0, 2])


def test_coin_chain():
    distance = mico(make("coin-chain").mdp.chain())
    expected = [[4.5, 4.5, 4.5, 5.5], [4.5, 0, 0, 10], [4.5, 0, 0, 10], [5.5, 10, 10, 0]]
    np.testing.assert_allclose(distance, expected, atol=1e-9)


def test_value_example():
    np.testing.assert_allclose(make("value-example").mdp.chain().value(), [6.46, 5.67], atol=0.005)


def test_terminals():
    chain = make("terminals").mdp.chain()
    distance = mico(chain)
    assert distance[0, 1] == pytest.approx(20 / 11)
    assert distance[0, 0] == pytest.approx(360 / 341)
    np.testing.assert_allclose(chain.value(), [20 / 11, 0, 0], atol=1e-12)


@given(discount=discounts)
def test_random_reward(discount):
    mdp = make("random-reward", discount=discount).mdp
    assert mico(mdp.chain())[0, 0] == 0
    assert mico(mdp.chain(reward="sampled"))[0, 0] == pytest.approx(0.5 / (1 - discount))


def test_five_state():
    """d~(s1, t1) = .9 · d~(s2, t2), d~(s2, t2) = 1 − .5, and the two others by one step each."""
    mdp = make("five-state").mdp
    s1, s2, t1, t2, end = range(5)
    following, reward, distance = mdp.transition.argmax(axis=2), mdp.reward, np.zeros((5, 5))
    for _ in range(3):  # every path ends within two steps
        gap = np.abs(reward[:, None] - reward[None])
        distance = (gap + 0.9 * distance[following[:, None], following[None]]).max(axis=2)
    assert distance[s1, t1] == pytest.approx(0.45)
    assert distance[s2, t2] == pytest.approx(0.5)
    assert distance[s1, s2] == pytest.approx(0.75)
    assert distance[t1, t2] == pytest.approx(1.7)
    assert len(np.unique(distance, axis=0)) == 5
    assert following[end].tolist() == [end, end]


@given(discount=discounts)
def test_action_reward(discount):
    example = make("action-reward", discount=discount)
    chain = example.mdp.chain(example.policy)
    assert mico(chain)[0, 0] == 0
    np.testing.assert_allclose(chain.value(), [0.5 / (1 - discount)])
    np.testing.assert_array_equal(example.mdp.reward, [[0, 1]])
