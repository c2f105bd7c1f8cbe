"""How an actor explores, what it does once it is trained, and that it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep import Trained, load
from mico.deep.config.choices import Choice
from mico.deep.trained.evaluate import evaluate
from mico.deep.training.train import train
from mico.runs.folder import read_runs
from plain_actor import drawn, features, mean_action, projected
from point_mass import PointMass
from small_runs import of_run, small_agent, small_run, trained, two_networks

STEPS, STARTS = 80, 40


@pytest.fixture(scope="module")
def played(quick_compilation):
    """A run whose learning rate is 0 and what it did, in float64; parameters stay those that it began with."""
    run = small_run(small_agent("sac", learning_rate=0.0), seed=2)
    with jax.enable_x64(True):
        state, tallies = trained([run], STEPS)
        np.testing.assert_array_equal(tallies.updates[:, 0], [0, 10])
        jax.tree.map(np.testing.assert_array_equal, of_run(state.params, 0), two_networks(run)[0])
        keys = [jax.random.split(jax.random.fold_in(stream(run), time), 3) for time in range(STEPS)]
    return run, of_run(state, 0), keys


def stream(run):
    return jax.random.fold_in(jax.random.key(run.seed), 2)


def test_until_learning_starts_any_action_is_as_likely(played):
    _, state, keys = played
    with jax.enable_x64(True):
        expected = [2 * jax.random.uniform(own[1], (3,))[1:] - 1 for own in keys[:STARTS]]
    np.testing.assert_allclose(state.memory.steps.action[:STARTS], expected, atol=1e-6)
    assert np.abs(state.memory.steps.action[:STARTS]).max() > 0.9


def test_from_then_on_it_draws_from_its_policy(played):
    _, state, keys = played
    head, steps = state.params.head, state.memory.steps
    for time in range(STARTS, STEPS):
        latent = projected(head.projection, features(state.params, state.memory.frames[steps.frame[time]]))
        with jax.enable_x64(True):
            noise = np.asarray(jax.random.normal(keys[time][0], (2,)))
        np.testing.assert_allclose(steps.action[time], drawn(head, latent, noise)[0], atol=1e-6)


@pytest.fixture(scope="module")
def actor(quick_compilation):
    """A run with other parameters than it begins with, so that biases are not 0."""
    run = small_run("sac", seed=3)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape).astype(np.float32), two_networks(run)[0])
    return Trained(run, 0, params)


STATES = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)


def test_what_it_takes_for_the_best_action_is_the_mean(actor):
    expected = [mean_action(actor.params, state) for state in STATES]
    np.testing.assert_allclose(actor.act(STATES), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actor.act(STATES[3]), expected[3], rtol=1e-4, atol=1e-5)
    assert actor.act(STATES[:1]).shape == (1, 2)
    assert np.ptp(expected, axis=0).min() > 1e-2
    keys, nowhere = jax.random.split(jax.random.key(0)), jnp.zeros(())
    sampled = actor.settings.agent.act(actor.params, jnp.asarray(STATES[3]), nowhere, keys)
    assert np.abs(sampled - expected[3]).max() > 1e-2


def test_it_represents_states_by_what_its_critics_read(actor):
    found = [projected(actor.params.encoder.projection, features(actor.params, state)) for state in STATES]
    np.testing.assert_allclose(actor.represent(STATES), found, rtol=1e-4, atol=1e-5)


def test_it_has_no_values_of_several_actions(actor):
    message = "predict needs .* value for each action, but the actions of test/point-mass are vectors: act gives the"
    with pytest.raises(ValueError, match=message):
        actor.predict(STATES)


def plain_episode(env, params, place):
    """The return from a place at rest, by means of actions alone."""
    speed, total = 0.0, 0.0
    for _ in range(env.max_steps):
        action = mean_action(params, [place, speed])
        speed = speed / 2 + action[0] / 4 + action[1] / 8
        place += speed
        total += 1 - abs(place) - np.abs(action).sum() / 8
        if abs(place) > 1:
            break
    return total


def test_episodes_are_played_by_mean_actions(actor):
    found = evaluate(actor, episodes=6, seed=4, epsilon=0.0)
    begin, _ = jax.random.split(jax.random.key(4))
    places = [float(PointMass().reset(key)[0].place) for key in jax.random.split(begin, 6)]
    np.testing.assert_allclose(found, [plain_episode(PointMass(), actor.params, place) for place in places], rtol=1e-3)
    assert np.ptp(found) > 0.1
    assert np.abs(evaluate(actor, episodes=6, seed=4, epsilon=1.0) - found).max() > 0.1


@pytest.mark.parametrize("shift", [-30.0, 2.0])
def test_deviations_do_not_matter_to_it(actor, shift):
    biases = lambda params: params.head.actor.layers[-1].bias  # noqa: E731
    moved = eqx.tree_at(biases, actor.params, replace_fn=lambda bias: bias.at[2:].add(shift))
    np.testing.assert_array_equal(Trained(actor.settings, 0, moved).act(STATES), actor.act(STATES))


@pytest.mark.slow
def test_it_learns_to_swing_a_pendulum_up(tmp_path):
    """Doing anything returns about −1,200 an episode, swinging up at once −150."""
    runs = [Choice("gym/Pendulum-v1", "sac", "none", None).run({}, seed) for seed in range(3)]
    train(runs, tmp_path, steps=6_000)
    log = read_runs(tmp_path)
    returns = log[log["name"] == "return"].groupby("step")["value"].mean()
    assert returns[1_000] < -900
    assert returns.max() > -300
    finals = [evaluate(load(folder), episodes=10, seed=0, epsilon=0.0).mean() for folder in tmp_path.glob("sac-*")]
    assert len(finals) == 3
    assert np.mean(finals) > -300
