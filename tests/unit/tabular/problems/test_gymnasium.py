from collections import Counter
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from mico.tabular.problems import from_gymnasium, make

ENVIRONMENTS = {"frozen-lake": "FrozenLake-v1", "taxi": "Taxi-v4", "cliff-walking": "CliffWalking-v1"}


def naive(table):
    """What can happen in each state and action of a table, endings sent to the sink."""
    sink, happens = len(table), {}
    for state in table:
        for action in table[state]:
            happens[state, action] = Counter()
            for probability, following, reward, terminated in table[state][action]:
                happens[state, action][sink if terminated else following, reward] += probability
    for action in table[0]:
        happens[sink, action] = Counter({(sink, 0): 1.0})
    return happens


def listed(mdp):
    happens = {(s, a): Counter() for s in range(mdp.num_states) for a in range(mdp.num_actions)}
    for state, action, following, probability, reward in zip(*mdp.outcomes(), strict=True):
        happens[state, action][following, reward] += probability
    return happens


def fake(table):
    return SimpleNamespace(unwrapped=SimpleNamespace(P=table))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_outcome_of_the_table_is_kept_and_endings_go_to_the_sink(name):
    env_id = ENVIRONMENTS[name]
    table = gymnasium.make(env_id).unwrapped.P
    endings = sum(entry[3] for actions in table.values() for entries in actions.values() for entry in entries)
    assert endings > 0
    expected = naive(table)
    for mdp in (make(name).mdp, from_gymnasium(env_id, discount=0.9).mdp):
        found = listed(mdp)
        assert found.keys() == expected.keys()
        for key, happens in expected.items():
            assert found[key] == pytest.approx(happens)


def test_no_ending_is_left_in_a_state_that_goes_on():
    """Taxi lists the state after a drop-off, which is not absorbing; none of its reward may follow."""
    mdp = make("taxi", discount=0.5).mdp
    outcomes = mdp.outcomes()
    assert set(outcomes.next_state[outcomes.reward == 20].tolist()) == {500}
    assert mdp.chain().value()[500] == 0


def test_frozen_lake_8x8_keeps_hole_and_goal_apart():
    """Right of the last row's seventh cell lies the goal, above it a hole: action right slips into both."""
    mdp = make("frozen-lake", map="8x8").mdp
    outcomes = mdp.outcomes()
    here = (outcomes.state == 62) & (outcomes.action == 2) & (outcomes.next_state == 64)
    law = dict(zip(outcomes.reward[here].tolist(), outcomes.probability[here].tolist(), strict=True))
    assert law == pytest.approx({0.0: 1 / 3, 1.0: 1 / 3})
    assert mdp.reward[62, 2] == pytest.approx(1 / 3)
    right = np.eye(4)[np.full(65, 2)]
    levels, weights = mdp.chain(right, reward="sampled").law
    np.testing.assert_array_equal(levels, [0, 1])
    np.testing.assert_allclose(weights.toarray()[62], [2 / 3, 1 / 3])


def test_frozen_lake_layout():
    small, large = make("frozen-lake").layout, make("frozen-lake", map="8x8").layout
    assert small.cells.shape == (4, 4)
    assert small.goals == (15,)
    assert large.cells.shape == (8, 8)
    assert large.goals == (63,)


def test_frozen_lake_without_slipping_is_deterministic():
    assert max(len(happens) for happens in listed(make("frozen-lake", slippery=False).mdp).values()) == 1


def test_cliff_walking_layout_has_no_cell_for_the_sink():
    cliff = make("cliff-walking")
    assert cliff.layout.cells.shape == (4, 12)
    assert cliff.mdp.num_states == 49
    assert cliff.layout.cells.max() == 47
    assert cliff.mdp.kernels[2][35, 48] == 1  # down from above the goal


def test_an_environment_is_taken_as_it_is():
    mdp = from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), discount=0.25).mdp
    assert mdp.discount == 0.25
    assert mdp.kernels[2][0, 1] == 1


def test_a_table_without_endings_still_gets_its_sink():
    mdp = from_gymnasium(fake({0: {0: [(1.0, 0, 2.0, False)]}}), discount=0.5).mdp
    assert mdp.shape == (2, 1)
    np.testing.assert_allclose(mdp.chain().value(), [4, 0])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPole-v1", r"^env 'CartPole-v1' has no transition table"),
        ("NoSuchLake-v1", "'NoSuchLake-v1' cannot be made"),
        (SimpleNamespace(), "no transition table"),
        (fake({}), "not a dict of the states"),
        (fake([[]]), "not a dict of the states"),
        (fake({1: {0: [(1.0, 1, 0.0, False)]}}), "not a dict of the states"),
        (fake({0: {0: [(1.0, 0, 0.0)]}}), r"P\[0\] .* \(probability, next state, reward, terminated\)"),
        (fake({0: [(1.0, 0, 0.0, False)]}), r"P\[0\]"),
        (fake({0: {0: [(0.5, 0, 0.0, False)]}}), "state 0, action 0 sums to 0.5"),
        (fake({0: {0: [(1.0, 7, 0.0, False)]}}), "next_state.* 7"),
        (fake({0: {}}), "state 0, action 0 sums to 0"),
    ],
)
def test_refuses_what_is_no_table(env, message):
    with pytest.raises(ValueError, match=message):
        from_gymnasium(env, discount=0.9)
