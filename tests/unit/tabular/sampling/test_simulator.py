import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.sampling.simulator import _walks, simulate

pytestmark = pytest.mark.usefixtures("quick_compilation")

POLICY = np.array([[0.3, 0.7], [1.0, 0.0], [0.0, 1.0]])
# In state 0, action 1 may lead to state 1 with two rewards; the rewards of action 0 tell the next state.
LIST = [
    (0, 0, 0, 0.25, 1.0),
    (0, 0, 2, 0.75, -1.0),
    (0, 1, 1, 0.5, 5.0),
    (0, 1, 1, 0.3, 7.0),
    (0, 1, 2, 0.2, 5.0),
    (1, 0, 0, 0.9, 0.0),
    (1, 0, 1, 0.1, 0.0),
    (1, 1, 1, 1.0, 9.0),
    (2, 0, 0, 1.0, 9.0),
    (2, 1, 2, 0.6, 2.0),
    (2, 1, 0, 0.4, 3.0),
]


def listed_mdp():
    return MDP.from_outcomes(Outcomes(*(np.array(column) for column in zip(*LIST, strict=True))), 3, 2, 0.9)


def rows(log):
    return list(zip(log.state.tolist(), log.action.tolist(), log.next_state.tolist(), log.reward.tolist(), strict=True))


@pytest.mark.parametrize(("num_steps", "num_trajectories"), [(1, 60_000), (60_000, 1)])
def test_outcomes_come_as_often_as_they_should(num_steps, num_trajectories):
    """Action, next state and reward together, in each state, by a chi-square test."""
    seen = rows(simulate(listed_mdp(), POLICY, num_steps=num_steps, num_trajectories=num_trajectories, seed=0))
    possible = {(x, a, y, r): POLICY[x, a] * p for x, a, y, p, r in LIST if POLICY[x, a] > 0}
    assert set(seen) <= set(possible)
    for x in range(3):
        mine = [key for key in possible if key[0] == x]
        counts = np.array([seen.count(key) for key in mine])
        expected = np.array([possible[key] for key in mine]) * counts.sum()
        assert chisquare(counts, expected).pvalue > 1e-3


def test_trajectories_follow_each_other():
    log = simulate(listed_mdp(), POLICY, num_steps=7, num_trajectories=50, seed=0)
    assert np.flatnonzero(log.last).tolist() == list(range(6, 350, 7))
    inside = ~log.last[:-1]
    assert (log.next_state[:-1][inside] == log.state[1:][inside]).all()


def test_first_states():
    uniform = simulate(listed_mdp(), num_steps=2, num_trajectories=30_000, seed=0).state[::2]
    assert chisquare(np.bincount(uniform, minlength=3)).pvalue > 1e-3
    given = simulate(listed_mdp(), num_steps=2, num_trajectories=30_000, start=[0.2, 0.0, 0.8], seed=0).state[::2]
    counts = np.bincount(given, minlength=3)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2]], [6_000, 24_000]).pvalue > 1e-3


def test_rounding_carries_no_draw_into_another_states_row():
    """Levels that are off by much more than rounding: every outcome is still one of the state it happened in."""
    owner, next_state = np.repeat(np.arange(3), 2), np.array([1, 2, 2, 0, 0, 1])
    for drift in (-0.3, 0.3):
        levels = np.arange(1, 7) / 2 + drift
        walks = _walks(
            jax.random.split(jax.random.key(0), 50), jnp.arange(50) % 3, levels, next_state, 2 * jnp.arange(4), 40
        )
        assert (owner[walks[:, 0]] == np.arange(50) % 3).all()
        assert (owner[walks[:, 1:]] == next_state[walks[:, :-1]]).all()


def test_a_seed_gives_one_log():
    one, two, other = (simulate(listed_mdp(), num_steps=5, num_trajectories=40, seed=seed) for seed in (0, 0, 1))
    assert rows(one) == rows(two)
    assert rows(one) != rows(other)


def test_trajectories_differ():
    log = simulate(listed_mdp(), num_steps=50, num_trajectories=2, start=[1.0, 0.0, 0.0], seed=0)
    assert rows(log)[:50] != rows(log)[50:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps .* 0"),
        ({"num_trajectories": 0}, "num_trajectories .* 0"),
        ({"start": "first"}, "start .*'first'"),
        ({"start": [0.5, 0.5]}, "start has shape"),
        ({"start": [0.5, 0.1, 0.1]}, "start .* 0.7"),
        ({"policy": np.ones((2, 2))}, "policy has shape"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        simulate(listed_mdp(), **({"num_steps": 5, "seed": 0} | changes))


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_simulated():
    with pytest.raises(ValueError, match="mdp must be a Problem or an MDP, got a Chain"):
        simulate(listed_mdp().chain(), num_steps=5, seed=0)
    with pytest.raises(ValueError, match=r"num_steps must be a whole number, not 5.0"):
        simulate(listed_mdp(), num_steps=5.0, seed=0)
