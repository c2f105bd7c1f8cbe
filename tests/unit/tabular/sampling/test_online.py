"""Limits are solved by SciPy or by enumeration of paths; noise is bounded as follows.

With c log entries a state, k visits a pair and targets that spread by at most s, the log moves the fixed point by about
s·√(2/c)/(1−γ) and the last updates by s/((1−γ)√k), in standard deviations and at worst (errors of one sign in all
pairs). With c = 100,000, k = 100,000, γ = .8 and s = .4 these are .009 and .006: together .011, of .04.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.sampling.logs import Transitions
from mico.tabular.sampling.online import _BLOCK, Schedule, online_mico, online_state_action_mico
from mico.tabular.sampling.simulator import simulate
from references import paths

STATES, ACTIONS, DISCOUNT = 4, 2, 0.8
TARGET = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.25, 0.75]])
BEHAVIOUR = np.array([[0.5, 0.5], [0.6, 0.4], [0.4, 0.6], [0.5, 0.5]])
PLENTY = Schedule(updates=2_000_000)
TOLERANCE = 0.04


def random_mdp(reward):
    """Four states, the rewards of which differ by the state, the action or the transition."""
    rng = np.random.default_rng(7)
    transition = rng.dirichlet(np.full(STATES, 0.5), size=(STATES, ACTIONS))
    by_state = np.array([0.0, 1.0, 0.2, 0.8])
    rewards = {
        "state": np.repeat(by_state[:, None], ACTIONS, axis=1),
        "action": rng.random((STATES, ACTIONS)),
        "transition": rng.random((STATES, ACTIONS, STATES)),
    }
    return MDP(transition, rewards[reward], DISCOUNT)


def exact(mdp, policy, steps=1):
    """The fixed point of the n-step operator, whose expectations are sums over all pairs of paths."""
    futures = [np.array(paths(mdp, policy, x, steps)).T for x in range(mdp.num_states)]
    gap, ends = np.zeros((mdp.num_states,) * 2), np.zeros((mdp.num_states,) * 2)
    for x, (p, gain, end) in enumerate(futures):
        np.add.at(ends[x], end.astype(int), p)
        for y, (q, other, _) in enumerate(futures):
            gap[x, y] = p @ np.abs(np.subtract.outer(gain, other)) @ q
    return solve_discrete_lyapunov(np.sqrt(mdp.discount**steps) * ends, gap)


def mean_reward_exact(mdp, policy):
    """The distance on mean rewards, and the value."""
    transition, reward = np.einsum("xa,xay->xy", policy, mdp.transition), (policy * mdp.reward).sum(axis=1)
    gap = np.abs(np.subtract.outer(reward, reward))
    value = np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * transition, reward)
    return solve_discrete_lyapunov(np.sqrt(mdp.discount) * transition, gap), value


def state_action_mdp(mdp, policy):
    """The chain on (x, a), at x·A + a, as an MDP of one action."""
    size = mdp.num_states * mdp.num_actions
    transition = np.einsum("xay,yb->xayb", mdp.transition, policy).reshape(size, 1, size)
    return MDP(transition, mdp.reward.reshape(size, 1), mdp.discount)


def farthest(one, two):
    return np.abs(one - two).max()


@pytest.mark.parametrize(
    ("num_steps", "schedule"),
    [(400_000, PLENTY), (200, PLENTY), (1, Schedule(2_000_000, scale=1.0, exponent=0.7))],
)
def test_goes_to_the_exact_distance(num_steps, schedule):
    mdp = random_mdp("state")
    log = simulate(mdp, TARGET, num_steps=num_steps, num_trajectories=400_000 // num_steps, seed=1)
    initial = np.random.default_rng(0).normal(size=(STATES, STATES))
    found = online_mico(log, STATES, DISCOUNT, schedule, seed=2, initial=initial)
    assert farthest(found.value, mean_reward_exact(mdp, TARGET)[0]) < TOLERANCE


def test_random_rewards_lead_to_the_sampled_distance_and_not_to_that_of_mean_rewards():
    mdp = random_mdp("transition")
    log = simulate(mdp, TARGET, num_steps=200, num_trajectories=2_000, seed=1)
    found = online_mico(log, STATES, DISCOUNT, PLENTY, seed=2).value
    assert farthest(found, exact(mdp, TARGET)) < TOLERANCE
    assert np.abs(found - mean_reward_exact(mdp, TARGET)[0]).min() > 4 * TOLERANCE


def test_a_coin_as_reward():
    columns = Outcomes(np.zeros(2, int), np.zeros(2, int), np.zeros(2, int), np.full(2, 0.5), np.array([0.0, 1.0]))
    mdp = MDP.from_outcomes(columns, 1, 1, 0.9)
    log = simulate(mdp, num_steps=100_000, seed=0)
    found = online_mico(log, 1, 0.9, Schedule(1_000_000), seed=0).value
    assert found == pytest.approx(0.5 / (1 - 0.9), abs=0.05)


def test_an_ended_episode_lives_on_in_the_sink():
    transition = np.array([[0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])[:, None]
    mdp = MDP(transition, np.array([[1.0], [0.0], [0.0]]), 0.9)
    log = simulate(mdp, num_steps=3, num_trajectories=100_000, seed=0)
    found = online_mico(log, 3, 0.9, PLENTY, seed=0).value
    assert found[0, 1] == pytest.approx(20 / 11, abs=0.05)
    assert found[0, 0] == pytest.approx(360 / 341, abs=0.05)
    assert found[1, 2] == found[2, 2] == 0.0


@pytest.mark.parametrize("horizon", [2, 3])
def test_longer_horizons_go_to_their_own_smaller_fixed_point(horizon):
    mdp = random_mdp("state")
    one_step, value = mean_reward_exact(mdp, TARGET)
    limit = exact(mdp, TARGET, horizon)
    assert (np.abs(np.subtract.outer(value, value)) <= limit + 1e-9).all()
    assert (limit < one_step - 4 * TOLERANCE).all()
    log = simulate(mdp, TARGET, num_steps=200, num_trajectories=2_000, seed=1)
    assert farthest(online_mico(log, STATES, DISCOUNT, PLENTY, seed=2, horizon=horizon).value, limit) < TOLERANCE


@pytest.mark.parametrize("horizon", [1, 2])
def test_ratios_turn_data_of_one_policy_into_the_distance_of_another(horizon):
    mdp = random_mdp("action")
    wanted, acted = exact(mdp, TARGET, horizon), exact(mdp, BEHAVIOUR, horizon)
    assert farthest(wanted, acted) > 4 * TOLERANCE
    log = simulate(mdp, BEHAVIOUR, num_steps=200, num_trajectories=2_000, seed=1)
    plain = online_mico(log, STATES, DISCOUNT, PLENTY, seed=2, horizon=horizon)
    assert farthest(plain.value, acted) < TOLERANCE
    weighted = online_mico(log.with_ratio(TARGET, BEHAVIOUR), STATES, DISCOUNT, PLENTY, seed=2, horizon=horizon)
    assert farthest(weighted.value, wanted) < TOLERANCE


def test_two_actions_that_pay_differently_are_apart_where_states_are_not():
    mdp = MDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), 0.9)
    policy = np.full((1, 2), 0.5)
    log = simulate(mdp, policy, num_steps=100_000, seed=0)
    found = online_state_action_mico(log, policy, 0.9, Schedule(1_000_000), seed=0).value
    assert found.mean() == pytest.approx(0.5 / (1 - 0.9), abs=0.05)
    assert found[0, 1] - found[0, 0] == pytest.approx(1.0, abs=0.05)
    assert mean_reward_exact(mdp, policy)[0] == 0.0


@pytest.mark.parametrize("horizon", [1, 2])
def test_state_action_distance_from_another_policys_data(horizon):
    """Also for the actions that the policy of interest never takes."""
    mdp, target = random_mdp("action"), np.array([[1.0, 0.0], [0.3, 0.7], [0.6, 0.4], [0.0, 1.0]])
    log = simulate(mdp, BEHAVIOUR, num_steps=200, num_trajectories=2_000, seed=1)
    if horizon > 1:  # with one step, the next action alone is the policy's, and it is drawn from it
        log = log.with_ratio(target, BEHAVIOUR)
    schedule = Schedule(6_000_000)
    found = online_state_action_mico(log, target, DISCOUNT, schedule, seed=2, horizon=horizon).value
    chain = state_action_mdp(mdp, target)
    assert farthest(found, exact(chain, np.ones((STATES * ACTIONS, 1)), horizon)) < TOLERANCE


def coin(**columns):
    """Two entries of one state that pay 0 and 1: any pair of two entries has the gap 1."""
    zeros = np.zeros(2, int)
    return Transitions(zeros, zeros, np.array([0.0, 1.0]), zeros, **columns)


@pytest.mark.parametrize(
    ("schedule", "ratio"),
    [
        (Schedule(9), [1.0, 1.0]),
        (Schedule(9, scale=1.0, exponent=0.6), [1.0, 1.0]),
        (Schedule(9), [0.5, 0.8]),
        (Schedule(9, scale=0.25), [4.0, 0.5]),  # the first weighted steps would be larger than 1
    ],
)
def test_each_step_is_the_formula(schedule, ratio):
    value, scale = 3.0, 0.1 if schedule.scale is None else schedule.scale
    for visits in range(9):
        step = min(1.0, ratio[0] * ratio[1] / (1 + scale * visits) ** schedule.exponent)
        value = (1 - step) * value + step * (1.0 + 0.9 * value)
    found = online_mico(coin(ratio=np.array(ratio)), 1, 0.9, schedule, seed=0, initial=[[3.0]])
    assert found.value[0, 0] == pytest.approx(value, rel=1e-14)
    assert found.visits[0, 0] == 9


def test_never_an_entry_with_itself():
    found = online_mico(coin(), 1, 0.0, Schedule(1_000, checkpoints=1_000), seed=0)
    assert (found.trace == 1.0).all()


def test_never_two_windows_that_share_an_entry():
    """The sums of two steps are 0, 0, 1, 1: those without a common entry differ by 1, some of the others do not."""
    zeros = np.zeros(5, int)
    log = Transitions(zeros, zeros, np.array([0.125, -0.25, 0.5, 1.0, 0.0]), zeros, last=np.arange(5) == 4)
    limit = 1 / (1 - 0.5**2)
    found = online_mico(log, 1, 0.5, Schedule(1_000), seed=0, horizon=2, initial=[[limit]])
    assert found.value[0, 0] == pytest.approx(limit, rel=1e-12)


def test_windows_stay_within_a_trajectory():
    state, next_state = np.array([0, 1, 2, 3, 4, 5]), np.array([1, 2, 3, 4, 5, 0])
    log = Transitions(state, state * 0, state * 1.0, next_state, last=np.array([False, True, False, False, True, True]))
    visits = online_mico(log, 6, 0.9, Schedule(500), seed=0, horizon=2).visits
    # (2, 3) and (3, 4) are windows of the second trajectory, (0, 1) of the first; the last entry is too short for one.
    expected = {(0, 2), (2, 0), (0, 3), (3, 0)}
    assert {tuple(pair) for pair in np.argwhere(visits).tolist()} == expected


def test_a_seed_gives_one_table():
    log = simulate(random_mdp("transition"), num_steps=500, seed=0)
    one, two, other = (online_mico(log, STATES, DISCOUNT, Schedule(5_000), seed=seed) for seed in (0, 0, 1))
    assert (one.value == two.value).all()
    assert (one.visits == two.visits).all()
    assert (one.value != other.value).any()


def test_checkpoints_only_look_on():
    log = simulate(random_mdp("transition"), num_steps=500, seed=0)
    total = 2 * _BLOCK + 11
    found = online_mico(log, STATES, DISCOUNT, Schedule(total, checkpoints=4), seed=3)
    assert found.updates.tolist() == [total // 4, total // 2, 3 * total // 4, total]
    assert found.visits.sum() == total
    for updates, table in zip(found.updates, found.trace, strict=True):
        assert (table == online_mico(log, STATES, DISCOUNT, Schedule(int(updates)), seed=3).value).all()


def test_double_precision_stays_inside():
    before = jax.config.read("jax_enable_x64")
    found = online_mico(coin(), 1, 0.9, Schedule(5), seed=0)
    assert found.value.dtype == np.float64
    assert jax.config.read("jax_enable_x64") == before
    assert jnp.ones(1).dtype == (jnp.float64 if before else jnp.float32)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates": 0}, "updates .* 0"),
        ({"updates": 5, "scale": 0.0}, "scale .* 0.0"),
        ({"updates": 5, "exponent": 0.5}, "exponent .* 0.5"),
        ({"updates": 5, "exponent": 1.5}, "exponent .* 1.5"),
        ({"updates": 5, "checkpoints": 6}, "checkpoints .* 6"),
        ({"updates": 1e3}, "updates must be a whole number, not 1000.0"),
        ({"updates": float("nan")}, "updates must be a whole number, not nan"),
        ({"updates": 5, "checkpoints": 1.5}, "checkpoints must be a whole number, not 1.5"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_schedules(settings, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": -1}, "horizon .* -1"),
        ({"horizon": 2}, r"horizon 2 \(0\)"),
        ({"horizon": 9}, r"horizon 9 \(0\)"),
        ({"discount": 1.0}, "discount .* 1.0"),
        ({"initial": np.zeros((2, 2))}, "initial"),
        ({"initial": [[np.nan]]}, "initial.* nan"),
        ({"num_states": 0}, "num_states must be at least 1, but is 0"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"num_states": 1, "discount": 0.9, "schedule": Schedule(5), "seed": 0} | changes
    with pytest.raises(ValueError, match=message):
        online_mico(coin(), **arguments)


def test_one_window_is_no_pair():
    with pytest.raises(ValueError, match=r"horizon 2 \(1\)"):
        online_mico(coin(last=np.array([False, True])), 1, 0.9, Schedule(5), seed=0, horizon=2)


def test_state_actions_need_a_policy_table_and_actions_in_range():
    with pytest.raises(ValueError, match="policy must have shape"):
        online_state_action_mico(coin(), "uniform", 0.9, Schedule(5), seed=0)
    with pytest.raises(ValueError, match=r"action\[0\] = 3"):
        online_state_action_mico(coin()._replace(action=np.array([3, 0])), [[0.5, 0.5]], 0.9, Schedule(5), seed=0)
