import numpy as np
import pytest

from mico.tabular.sampling.logs import Transitions, checked_transitions

LOG = Transitions(np.array([0, 1, 2]), np.array([0, 1, 0]), np.array([0.0, 1.0, 2.0]), np.array([1, 2, 0]))
TARGET = [[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]
BEHAVIOUR = [[0.3, 0.7], [0.75, 0.25], [1.0, 0.0]]


def test_ratios_by_hand():
    assert LOG.with_ratio(TARGET, BEHAVIOUR).ratio == pytest.approx([3.0, 2.0, 1.0])


def test_entries_stand_alone_and_speak_for_their_policy_unless_told():
    checked = checked_transitions(LOG, 3)
    assert checked.last.tolist() == [True] * 3
    assert checked.ratio.tolist() == [1.0] * 3


def test_small_integers_become_wide_ones():
    narrow = LOG._replace(state=LOG.state.astype(np.uint8), next_state=LOG.next_state.astype(np.int8))
    checked = checked_transitions(narrow, 3)
    assert checked.state.dtype == checked.next_state.dtype == np.int64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros(2)}, r"one length.*reward \[2\]"),
        ({"last": np.ones(4, bool)}, r"one length.*last \[4\]"),
        ({"state": np.array([0, 1, 3])}, r"state\[2\] = 3"),
        ({"next_state": np.array([0, -1, 2])}, r"next_state\[1\] = -1"),
        ({"state": np.array([0.0, 1.0, 2.0])}, "state must hold integers"),
        ({"action": np.array([0, 2, 0])}, r"action\[1\] = 2"),
        ({"reward": np.array([0.0, np.inf, 0.0])}, r"reward\[1\] = inf"),
        ({"ratio": np.array([1.0, -0.5, 1.0])}, r"ratio\[1\] = -0.5"),
        ({"ratio": np.array([1.0, np.nan, 1.0])}, r"ratio\[1\] = nan"),
        ({"last": np.array([0, 0, 1])}, "last must hold booleans"),
        ({"last": np.array([False, False, True]), "state": np.array([0, 2, 2])}, r"next_state\[0\] = 1.* state 2"),
    ],
)
def test_bad_logs(changes, message):
    with pytest.raises(ValueError, match=message):
        checked_transitions(LOG._replace(**changes), 3, 2)


@pytest.mark.parametrize(
    ("target", "behaviour", "message"),
    [
        ([[1.0, 0.0]] * 3, [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]], "behaviour never takes action 0 in state 0"),
        ([[1.0, 0.0]] * 3, [[1.0, 0.0]] * 3, r"action\[1\] = 1"),
        (TARGET, BEHAVIOUR[:2], "policy has shape"),
        ("uniform", BEHAVIOUR, "target must have shape"),
    ],
)
def test_policies_that_cannot_have_made_the_log(target, behaviour, message):
    with pytest.raises(ValueError, match=message):
        LOG.with_ratio(target, behaviour)
