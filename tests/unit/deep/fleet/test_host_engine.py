"""A fleet on environments outside JAX: each run is what it is alone, and its episodes are those of a plain loop."""

import json
from dataclasses import replace
from unittest.mock import Mock

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.config.run import Schedule
from mico.deep.envs import AbstractHostEnv, AbstractHostEnvs, Tabular, environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.fleet import host_programs
from mico.deep.fleet.host_engine import HostEngine
from mico.deep.fleet.jax_engine import copy_targets, stack
from mico.deep.learner import acting
from mico.deep.learner import update as updates
from mico.deep.learner.state import init_state, play_keys
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.types import Spec, Timestep
from mico.tabular import MDP
from point_mass import PointMass
from small_runs import SCHEDULE, assert_close, by_run, of_run, small_agent, small_run, tally, trained

pytestmark = pytest.mark.usefixtures("quick_compilation")
STEPS, LIMIT = 120, 15


@pytest.fixture(scope="module")
def fleet(quick_compilation):
    """Two runs that differ in seed, learning rate and α, after some episodes and twenty updates, in float64."""
    env = environment("gym/CartPole-v1", max_steps=LIMIT)
    parts = {"env": env, "network": NetworkConfig("mlp", width=8, hidden=8)}
    runs = [small_run(small_agent(learning_rate=0.01), MICo(alpha=0.0), seed=3, **parts)]
    runs += [small_run(small_agent(learning_rate=0.03), MICo(alpha=0.4), seed=4, **parts)]
    with jax.enable_x64(True):
        return runs, *trained(runs, STEPS, engine=HostEngine)


def test_a_fleet_is_its_single_runs(fleet):
    runs, together, tallies = fleet
    for index, run in enumerate(runs):
        with jax.enable_x64(True):
            alone, tally = trained([run], STEPS, engine=HostEngine)
        assert_close(of_run(together, index), of_run(alone, 0))
        assert_close(of_run(by_run(tallies), index), of_run(by_run(tally), 0))


def test_runs_are_each_their_own(fleet):
    _, together, _ = fleet
    action, frames = together.memory.steps.action, together.memory.frames
    assert (action[0, :STEPS] != action[1, :STEPS]).mean() > 0.2
    assert np.abs(frames[0, 0] - frames[1, 0]).max() > 1e-3
    weights = together.params.encoder.layers[0].weight
    assert np.abs(weights[0] - weights[1]).max() > 0.1


def test_updates_come_every_period_once_learning_has_started(fleet):
    _, _, tallies = fleet
    np.testing.assert_array_equal(tallies.updates, [[0, 0], [10, 10], [10, 10]])
    assert (tallies.td_loss[1:] > 0).all()
    share = np.array([0.0, 0.4])
    mixed = (1 - share) * tallies.td_loss + share * tallies.metric_loss
    np.testing.assert_allclose(tallies.loss, mixed, rtol=1e-9)


def test_an_update_follows_each_fourth_step(fleet):
    runs, _, _ = fleet
    with jax.enable_x64(True):
        engine = HostEngine(runs, stack(runs))
        state, _ = engine.play(engine.begin(), 0, 40, False)
        for time, length in ((40, 4), (44, 8)):
            state, happened = engine.play(state, time, length, True)
            assert tally(happened).updates.tolist() == 2 * [length // 4]
        engine.close()


def test_tallies_and_memory_are_those_of_a_plain_loop(fleet):
    """The environment once more with the actions that were taken, each episode by its own seed."""
    runs, together, tallies = fleet
    for index, run in enumerate(runs):
        env, episode = gymnasium.make("CartPole-v1", max_episode_steps=LIMIT), 0
        frame, _ = env.reset(seed=episode_seed(run.seed, episode))
        ends, rows, returned, length = [], [], 0.0, 0
        for time, action in enumerate(together.memory.steps.action[index, :STEPS]):
            rows.append(frame)
            frame, reward, terminal, timeout, _ = env.step(int(action))
            returned, length = returned + float(reward), length + 1
            if terminal or timeout:
                rows.append(frame)  # the true last frame has a place of its own
                ends.append((time // 40, returned, length, terminal))
                returned, length, episode = 0.0, 0, episode + 1
                frame, _ = env.reset(seed=episode_seed(run.seed, episode))
        np.testing.assert_array_equal(together.memory.frames[index, : len(rows)], rows)
        for chunk in range(3):
            own = [end for end in ends if end[0] == chunk]
            found = [getattr(tallies, name)[chunk, index] for name in ("episodes", "returns", "lengths")]
            assert found == [len(own), sum(end[1] for end in own), sum(end[2] for end in own)]
        assert {end[3] for end in ends} == {True, False}


class Corridor(AbstractHostEnv):
    """Five states in a row: action 1 goes on and pays, any other stays; the last state ends an episode."""

    name = "test/corridor"
    spec = Spec((5,), "bool", 2)

    def settings(self):
        return {}

    def make(self, num_envs):
        return Corridors(num_envs)


class Corridors(AbstractHostEnvs):
    spec = Corridor.spec

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.place, self.age = np.zeros((2, num_envs), int)

    def reset(self, which, seeds):
        self.place[which] = self.age[which] = 0
        return np.eye(5, dtype=bool)[self.place]

    def send(self, actions):
        self.sent = actions

    def receive(self):
        actions = self.sent
        reward = np.where(actions == 1, 0.5 * self.place + 0.25, 0.0).astype(np.float32)
        self.place, self.age = self.place + (actions == 1), self.age + 1
        terminal = self.place == 4
        return Timestep(reward, np.eye(5, dtype=bool)[self.place], terminal, (self.age >= 7) & ~terminal)

    def close(self): ...


def corridor():
    """The same as an MDP, for inside JAX."""
    stay, on = np.eye(5), np.eye(5, k=1)
    on[4, 4] = 1
    reward = np.array([[0, 0.25], [0, 0.75], [0, 1.25], [0, 1.75], [0, 0]])
    return Tabular(MDP(np.stack([stay, on], axis=1), reward, 0.9), max_steps=7, start=0)


INSIDE = PointMass(start=0.25)
STEPPED = jax.jit(jax.vmap(INSIDE.step, in_axes=(0, 0, None)))


class Pushed(AbstractHostEnv):
    """The point mass that always starts at one place, stepped outside JAX's program."""

    name = "test/pushed"
    spec = INSIDE.spec

    def settings(self):
        return {}

    def make(self, num_envs):
        return Pushes(num_envs)


class Pushes(AbstractHostEnvs):
    spec = INSIDE.spec

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.states = [INSIDE.reset(jax.random.key(0))[0]] * num_envs

    def reset(self, which, seeds):
        begun, frame = INSIDE.reset(jax.random.key(0))
        self.states = [begun if over else state for over, state in zip(which, self.states)]
        return np.tile(np.asarray(frame), (self.num_envs, 1))

    def send(self, actions):
        assert (actions.shape, actions.dtype) == ((self.num_envs, 2), np.float32)
        self.sent = actions

    def receive(self):
        states = jax.tree.map(lambda *rows: jnp.stack(rows), *self.states)
        states, step = jax.device_get(STEPPED(states, jnp.asarray(self.sent), jax.random.key(0)))
        self.states = [jax.tree.map(lambda rows, one=one: rows[one], states) for one in range(self.num_envs)]
        return step._replace(reset_frame=None)

    def close(self): ...


@pytest.mark.parametrize(
    ("agent", "one", "other"),
    [(small_agent("dqn", horizon=2), corridor(), Corridor()), (small_agent("sac"), INSIDE, Pushed())],
    ids=["dqn", "sac"],
)
def test_inside_and_outside_jax_training_is_the_same(agent, one, other):
    """Nothing is left to chance in these environments, so all that is random is the agent's."""
    inside, outside = ([small_run(agent, env=env, seed=seed) for seed in (0, 1)] for env in (one, other))
    with jax.enable_x64(True):
        one, one_tally = trained(inside, 160)
        other, other_tally = trained(outside, 160, engine=HostEngine)
    for part in ("params", "target", "optimiser", "memory", "bad_step"):
        assert_close(getattr(one, part), getattr(other, part))
    assert_close(one.episode._replace(env=None), other.episode)
    assert_close(one_tally, other_tally)
    assert one_tally.returns.sum() != 0
    assert int(one.memory.steps.end.max()) == 2  # time-outs, beside terminals
    assert (one.memory.steps.end == 1).any()


def sequential(run, steps):
    """One run as a plain loop over the learner's moves, and its losses; when each move comes is the loop's."""
    envs, schedule, every, losses = run.env.make(1), run.schedule, np.ones(1, bool), []
    update, remembered, chosen = map(jax.jit, (updates.update, acting.add_to_replay, action_at))
    state = init_state(run, run.env.spec, None, jnp.asarray(envs.reset(every, every)[0]))
    action = chosen(run, state, 0)
    for time in range(steps):
        step = envs.step(np.asarray(action, run.env.spec.action_dtype)[None])
        seen = jax.tree.map(lambda leaf: jnp.asarray(leaf[0].copy()), step)
        seen = seen._replace(observation_frame=state.episode.stack[-1], action=action)
        memory = remembered(run, state.memory, jax.tree.map(lambda leaf: leaf[None], seen), time)
        begun = jnp.asarray(envs.reset(every, every)[0]) if seen.ended else seen.next_frame
        episode, _ = acting.advance_episode(state.episode, seen._replace(reset_frame=begun), None)
        state, before = state._replace(memory=memory, episode=episode), state.params
        if time >= schedule.learning_starts and (time + 1) % schedule.update_period == 0:
            state, found = update(run, state, time + 1)
            losses.append(found)
        actor = state if schedule.acting == "after-learning" else state._replace(params=before)
        action = chosen(run, actor, time + 1)
        if run.target_rule.copies_at(time + 1):
            state = state._replace(target=state.params)
    return state, jax.tree.map(lambda *each: np.array(each), *losses)


def action_at(run, state, time):
    epsilon = run.schedule.exploration(time)
    return acting.act(run, state.params, state.episode.stack, epsilon, play_keys(run, time))


def restless(agent, acting, seed=0, **schedule):
    """A run whose actions change with nearly every update."""
    env = Pushed() if agent == "sac" else Corridor()
    run = small_run(small_agent(agent, learning_rate=0.1), MICo(0.3), env=env, seed=seed)
    return eqx.tree_at(lambda run: run.schedule, run, replace(run.schedule, acting=acting, **schedule))


@pytest.mark.parametrize("agent", ["dqn", "rainbow", "sac"])
def test_an_action_is_chosen_after_an_update_or_before_it(agent):
    """Either way a fleet is the sequential algorithm; and the two are not the same."""
    found = {}
    for order in ("after-learning", "while-learning"):
        runs = [restless(agent, order, seed, epsilon=0.0, epsilon_decay=0) for seed in (0, 1)]
        with jax.enable_x64(True):
            fleet, tallies = trained(runs, 120, engine=HostEngine)
            for index, run in enumerate(runs):
                alone, losses = sequential(run, 120)
                for part in ("params", "target", "optimiser", "memory"):
                    assert_close(of_run(getattr(fleet, part), index), getattr(alone, part))
                sums = [np.reshape(each, (2, 10)).sum(axis=1) for each in losses]
                told = [getattr(tallies, name)[1:, index] for name in ("updates", "loss", "td_loss", "metric_loss")]
                np.testing.assert_allclose(told, sums, rtol=1e-9)
        found[order] = fleet.memory.steps.action
    first = np.argmax((found["after-learning"] != found["while-learning"]).reshape(2, 200, -1).any(axis=(0, 2)))
    assert first % 4 == 0  # the first action that differs comes right after an update
    assert first >= 44


@pytest.mark.parametrize("period", [1, 40])
def test_steps_enter_the_replay_in_blocks_that_fit_the_update_period(period):
    """One at a time, and twenty at a time, where an update comes with every second block."""
    run = restless("dqn", "after-learning", update_period=period)
    with jax.enable_x64(True):
        fleet, _ = trained([run], 120, engine=HostEngine)
        alone, _ = sequential(run, 120)
    for part in ("params", "target", "optimiser", "memory"):
        assert_close(of_run(getattr(fleet, part), 0), getattr(alone, part))


def test_an_action_that_was_chosen_before_an_update_is_kept_with_the_episodes():
    run = restless("sac", "while-learning")
    engines = [HostEngine([run], stack([run])) for _ in range(2)]
    state, _ = engines[0].play(engines[0].begin(), 0, 40, False)
    state, _ = engines[0].play(state, 40, 40, True)
    kept, snapshot = jax.tree.map(jnp.copy, state), json.loads(json.dumps(engines[0].snapshot()))
    anew = action_at(run, of_run(kept, 0), jnp.int32(80))
    assert np.abs(np.array(snapshot["next"][0]) - anew).max() > 1e-3  # what the parameters of now would choose
    engines[1].restore(snapshot, lambda: False)
    (one, _), (other, _) = engines[0].play(state, 80, 40, True), engines[1].play(kept, 80, 40, True)
    assert_close(jax.device_get(one), jax.device_get(other))
    for engine in engines:
        engine.close()


@pytest.mark.parametrize(
    ("acting", "due"),
    [
        ("after-learning", ["learn", "send"]),
        ("while-learning", ["act", "send", "append", "update", "receive", "read"]),
    ],
)
def test_environments_play_while_the_device_learns(acting, due, monkeypatch):
    """The order of what the host does around an update; what a program still reads is not written again."""
    happened, program = [], host_programs.program

    def told(kind, *args):
        made = program(kind, *args)

        def play(*given):
            happened.append(kind)
            after, other = made(*given)
            if kind == "append":
                return after, Mock(block_until_ready=lambda: happened.append("read") or other.block_until_ready())
            return after, other

        return play

    monkeypatch.setattr(host_programs, "program", told)
    for name in ("send", "receive"):
        plain = getattr(Corridors, name)
        monkeypatch.setattr(
            Corridors, name, lambda self, *given, n=name, plain=plain: happened.append(n) or plain(self, *given)
        )
    run = restless("dqn", acting)
    engine = HostEngine([run], stack([run]))
    state, _ = engine.play(engine.begin(), 0, 40, False)
    happened.clear()
    engine.play(state, 40, 8, True)
    first, last = ["receive", "act", "send"], [what for what in due if what not in ("send", "receive")]
    second = first if "read" not in due else first[1:]
    assert happened == ["send", *3 * first, "receive", *due, *second, *2 * first, "receive", *last]
    engine.close()


def test_what_is_learnt_while_playing_does_not_depend_on_chunks():
    runs = [restless("dqn", "while-learning", seed) for seed in (0, 1)]
    with jax.enable_x64(True):
        whole, one = trained(runs, 120, engine=HostEngine)
        engine, happened = HostEngine(runs, stack(runs)), []
        state, _ = engine.play(engine.begin(), 0, 40, False)
        for time in (40, 80):
            state = copy_targets(state)
            for start, length in ((0, 4), (4, 12), (16, 24)):
                state, part = engine.play(state, time + start, length, True)
                happened.append(tally(part).updates.tolist())
        engine.close()
    assert_close(whole, jax.device_get(copy_targets(state)))
    assert happened == 2 * [[1, 1], [3, 3], [6, 6]]
    assert one.updates.sum() == 40


def test_inside_jax_there_is_nothing_to_act_meanwhile(unchecked):
    with pytest.raises(ValueError, match=r"acting 'while-learning' needs an environment outside JAX, but env is mdp/"):
        small_run(schedule=replace(SCHEDULE, acting="while-learning"), seed=0)
    with pytest.raises(ValueError, match=r"acting must be one of after-learning, while-learning, but is 'never'"):
        Schedule(acting="never")
