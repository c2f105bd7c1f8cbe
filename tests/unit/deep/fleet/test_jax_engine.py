"""Many runs as one program: each is what it is alone, in float64 all the way, in float32 while rounding stays small."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import AGENTS
from mico.deep.envs import environment
from mico.deep.fleet.jax_engine import copy_targets, stack
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import MICo, SimSR
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from small_runs import SCHEDULE, assert_close, by_run, of_run, small_agent, small_run, trained

pytestmark = pytest.mark.usefixtures("quick_compilation")
STEPS = 480
TIMES = np.arange(840)


def check_fleet(one, other, base, steps):
    """Two runs together are what they are alone, the first of which, with α = 0, is the baseline, if that is given.

    Not to the bit: products of other shapes are summed in another order. All chunks learn, for want of a second
    program; before there is a batch, updates do nothing.
    """
    with jax.enable_x64(True):
        together, tallies = trained([one, other], steps, learns_from=0)
        assert tallies.updates.sum(axis=0).min() > steps / 4 - 5
        for index, run in enumerate((one, other)):
            alone, tally = trained([run], steps, learns_from=0)
            assert_close(of_run(together, index), of_run(alone, 0))
            assert_close(of_run(by_run(tallies), index), of_run(by_run(tally), 0))
        if base is not None:
            assert_close(of_run(together, 0), of_run(trained([base], steps, learns_from=0)[0], 0))


QUICK = [("dqn", "base"), ("rainbow", "base"), ("iqn", "no base"), ("sac", "no base")]
SLOW = [pytest.param(name, "base", marks=pytest.mark.slow) for name in AGENTS if (name, "base") not in QUICK]


@pytest.mark.parametrize(("name", "base"), [*QUICK, *SLOW])
def test_a_fleet_is_its_single_runs_and_no_weight_is_no_metric(name, base):
    one, other = small_run(name, MICo(alpha=0.0), seed=0), small_run(name, MICo(alpha=0.4, beta=0.5), seed=1)
    check_fleet(one, other, small_run(name, seed=0) if base == "base" else None, STEPS)


def test_targets_are_copies_and_nothing_else_changes():
    late = dataclasses.replace(SCHEDULE, target_period=400)
    state, _ = trained([small_run(seed=seed, schedule=late) for seed in (0, 1)], 80, learns_from=0)
    state = jax.tree.map(jnp.asarray, state)
    before = jax.device_get(state)
    after = copy_targets(state)
    for name, old, new in zip(before._fields, before, after, strict=True):
        kept = before.params if name == "target" else old
        jax.tree.map(np.testing.assert_array_equal, new, kept)
    for weight, old, new in zip(*map(jax.tree.leaves, (after.params, before.target, after.target)), strict=True):
        assert np.abs(new - old).max() > 1e-3
        assert new.unsafe_buffer_pointer() != weight.unsafe_buffer_pointer()


@pytest.mark.slow
def test_a_fleet_on_a_game_is_its_single_runs():
    parts = {"env": environment("minatar/breakout", max_steps=50), "network": NetworkConfig("minatar", hidden=8)}
    one, other = (small_run(metric=MICo(alpha=alpha), seed=seed, **parts) for seed, alpha in enumerate((0.0, 0.4)))
    check_fleet(one, other, small_run(seed=0, **parts), 400)


@pytest.fixture(scope="module")
def three(quick_compilation):
    """840 steps, which is 200 updates, in float32, of runs of which the last does not learn."""
    agents = [small_agent(learning_rate=rate, adam_epsilon=0.01) for rate in (0.001, 0.001, 0.0)]
    replay = Replay(capacity=1_000, batch_size=8)
    runs = [small_run(agent, MICo(alpha=0.2), seed=seed, replay=replay) for agent, seed in zip(agents, (0, 1, 0))]
    return runs, *trained(runs, 840)


def test_in_single_precision_a_fleet_stays_near_its_single_runs(three):
    """Gradients of about 1 round by 1e-7, which Adam makes η·1e-7/ε = 1e-8 of; 2e-6 after 200 steps, and tenfold room.

    An action that is another one, for want of a digit, would send the runs apart at once.
    """
    runs, together, _ = three
    for index in (0, 1):
        alone, _ = trained([runs[index]], 840)
        assert_close(of_run(together, index).params, of_run(alone, 0).params, rtol=2e-5)
        np.testing.assert_array_equal(together.memory.steps.action[index], alone.memory.steps.action[0])


def test_seeds_differ_in_what_they_start_from_and_in_what_they_try(three):
    runs, together, _ = three
    begun = [init_params(run, run.env.spec) for run in runs]
    for a, b, c in zip(*map(jax.tree.leaves, begun), strict=True):
        assert a.ndim == 1 or np.abs(a - b).max() > 0.01
        np.testing.assert_array_equal(a, c)
    actions = together.memory.steps.action[:, :40]  # all of them random
    assert (actions[0] != actions[1]).mean() > 0.5
    np.testing.assert_array_equal(actions[0], actions[2])
    assert (np.bincount(actions.ravel(), minlength=4) > 10).all()


def test_numbers_are_each_runs_own(three):
    """Where the learning rate is 0 nothing is learnt, while the others learn."""
    runs, together, _ = three
    moved = []
    for index, run in enumerate(runs):
        begun = jax.tree.leaves(init_params(run, run.env.spec))
        now = jax.tree.leaves(of_run(together.params, index))
        moved.append(max(np.abs(a - b).max() for a, b in zip(begun, now, strict=True)))
    assert moved[2] == 0
    assert min(moved[:2]) > 0.01


def test_tallies_are_those_of_a_plain_loop(three):
    """The environment once more, by the same keys and the actions that were taken."""
    runs, together, tallies = three
    step = jax.jit(lambda *now: runs[0].env.step(*now))
    for index, run in enumerate(runs[:2]):
        root = jax.random.key(run.seed)
        playing = jax.random.fold_in(root, 2)
        keys = jax.vmap(lambda key: jax.random.split(key, 3)[2])(
            jax.vmap(jax.random.fold_in, (None, 0))(playing, TIMES)
        )
        state, _ = run.env.reset(jax.random.fold_in(jax.random.fold_in(root, 1), 0))
        ended, returned, length = [], 0.0, 0
        for time, action in enumerate(together.memory.steps.action[index, :840]):
            state, outcome = step(state, jnp.int32(action), keys[time])
            returned, length = returned + float(outcome.reward), length + 1
            if outcome.ended:
                ended.append((time // 40, returned, length))
                returned, length = 0.0, 0
        for chunk in range(21):
            own = [(score, steps) for place, score, steps in ended if place == chunk]
            scores, lengths = np.array(own).reshape(-1, 2).T
            assert tallies.episodes[chunk, index] == len(own)
            assert tallies.returns[chunk, index] == scores.sum()
            assert tallies.lengths[chunk, index] == lengths.sum()
            assert tallies.least[chunk, index] == scores.min(initial=np.inf)
            assert tallies.most[chunk, index] == scores.max(initial=-np.inf)
        assert tallies.returns[:, index].sum() > 0
        assert int(together.episode.length[index]) == length


def test_updates_are_made_and_summed_once_learning_has_started(three):
    _, _, tallies = three
    np.testing.assert_array_equal(tallies.updates[0], 0)
    np.testing.assert_array_equal(tallies.updates[1:], 10)
    np.testing.assert_allclose(tallies.loss, 0.8 * tallies.td_loss + 0.2 * tallies.metric_loss, rtol=1e-5)
    assert (tallies.loss[1:] > 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": small_agent(horizon=2)}, "agent.horizon is 1 in one and 2 in another"),
        ({"agent": small_agent("iqn")}, "agent.name is 'dqn' in one and 'iqn' in another"),
        ({"agent": small_agent(learning_rate=0.5, error="huber")}, "agent.error is 'squared' .* 'huber'"),
        ({"agent": small_agent(learning_rate=0.5, reward_clip=1.0)}, "agent.reward_clip is None .* 1.0"),
        ({"metric": None}, "metric.name is 'mico' in one and None"),
        ({"metric": SimSR()}, "metric.name is 'mico' in one and 'simsr'"),
        ({"metric": MICo(alpha=0.3, pairs="shuffled")}, "metric.pairs is 'all' .* 'shuffled'"),
        ({"env": environment("mdp/frozen-lake", max_steps=9), "agent": small_agent(discount=0.7)}, "env.max_steps"),
        ({"network": NetworkConfig("table", width=8, hidden=9)}, "network.hidden is 8 in one and 9"),
        ({"replay": Replay(capacity=201, batch_size=8)}, "replay.capacity is 200 in one and 201"),
        ({"schedule": dataclasses.replace(SCHEDULE, epsilon=0.3, log_period=80)}, "schedule.log_period is 40 .* 80"),
    ],
)
def test_runs_that_do_not_fit_are_refused_by_the_field_that_differs(change, message):
    run = small_run(metric=MICo(alpha=0.2), seed=0)
    with pytest.raises(ValueError, match=f"differ in seeds and numbers alone, but {message}"):
        stack([run, dataclasses.replace(run, seed=1), dataclasses.replace(run, **change)])


def test_numbers_of_a_problem_are_not_each_runs_own():
    envs = [environment("mdp/four-rooms", discount=discount) for discount in (0.9, 0.5)]
    runs = [small_run(small_agent(learning_rate=rate), env=env, seed=0) for env, rate in zip(envs, (0.1, 0.2))]
    with pytest.raises(ValueError, match=r"env.discount is 0\.9 in one and 0\.5 in another"):
        stack(runs)


def test_numbers_and_seeds_are_stacked():
    runs = [
        small_run(small_agent(learning_rate=rate), MICo(alpha=rate), seed=seed) for seed, rate in ((3, 0.1), (4, 0.2))
    ]
    fleet = stack(runs)
    np.testing.assert_array_equal(fleet.seed, [3, 4])
    for numbers in (fleet.agent.learning_rate, fleet.metric.alpha):
        np.testing.assert_allclose(numbers, [0.1, 0.2])
    np.testing.assert_allclose(fleet.schedule.epsilon, [0.1, 0.1])
