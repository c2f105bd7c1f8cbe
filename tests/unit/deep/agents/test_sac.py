"""Soft actor-critic against NumPy in float64: losses, gradients by differences, what they reach, and targets."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import DQN
from mico.deep.learner import acting
from mico.deep.learner import update as updates
from mico.deep.learner.state import TrainState, init_params
from mico.deep.metric_losses import METRIC_LOSSES, MICo
from mico.deep.types import FirstTransition, Timestep, Views
from plain_actor import pieces
from small_runs import CONTINUOUS, small_agent, small_batch, small_run, two_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(7)
NETWORK = CONTINUOUS["network"]
ALPHA = 0.4
CASES = {
    "usual": ({}, NETWORK),
    "a target as released": ({"next_action": "mean", "reward_scale": 0.3, "entropy": -1.3}, NETWORK),
    "critics that read what the actor does": ({"critics_read": "actor", "next_action": "mean"}, NETWORK),
    "a fixed projection": ({"critics_read": "actor", "actor_projection": "fixed"}, NETWORK),
    "the temperature itself": ({"temperature_loss": "temperature", "initial_temperature": 0.2}, NETWORK),
    "without projections": ({"reward_scale": 2.0, "entropy": 0.25}, replace(NETWORK, latent=0, hidden=4)),
}
ENCODER, ACTOR = {"layers", "φ"}, {"actor's projection", "actor"}


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def noisy(tree, seed):
    """Biases off 0, and deviations that differ."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape), tree)


def situation(case):
    fields, network = CASES[case]
    run = small_run(small_agent("sac", **fields), MICo(alpha=ALPHA), seed=0, network=network)
    params, target = (noisy(tree, seed) for seed, tree in enumerate(two_networks(run)))
    batch = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype.kind == "f" else leaf, small_batch(run.env.spec))
    return run, params, target, batch


def noise(key, shape):
    """Of the next actions, and of the actor's own."""
    return [np.asarray(jax.random.normal(own, shape)) for own in jax.random.split(key)]


@jax.jit
def examined(run, params, target, batch):
    """TD losses, what else is minimised, the metric loss; and their gradients, by the parameters and the target's."""

    def parts(params, target):
        seen = Views(run.agent, params, target, batch)
        each, other = run.agent.loss(params, target, seen, batch, KEY)
        return jnp.stack([each.mean(), other, run.metric.loss(None, seen, batch, KEY)]), (each, other)

    gradients, (each, other) = jax.jacrev(parts, argnums=(0, 1), has_aux=True)(params, target)
    return each, other, gradients


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A situation, and what is found in it."""
    with jax.enable_x64(True):
        given = situation(request.param)
        return given, jax.device_get(examined(*given))


def test_losses_are_those_of_the_definitions(case):
    (run, params, target, batch), (each, other, _) = case
    expected = pieces(run.agent, params, target, batch, noise(KEY, batch.action.shape))
    np.testing.assert_allclose(each, expected.critic, rtol=1e-9)
    np.testing.assert_allclose(other, expected.actor + expected.temperature, rtol=1e-9)
    assert min(abs(expected.actor), abs(expected.temperature), *expected.critic) > 1e-3


def test_gradients_are_differences_of_the_definitions(case):
    """At two numbers of each array; every array has an effect, but for the encoder's where only the actor's is read."""
    (run, params, target, batch), (_, _, (gradients, _)) = case
    rng, width, draws = np.random.default_rng(0), 1e-6, noise(KEY, batch.action.shape)
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, params))

    def whole(leaf, index, change):
        moved = [array.copy() for array in leaves]
        moved[leaf].flat[index] += change
        found = pieces(run.agent, jax.tree.unflatten(structure, moved), target, batch, draws, still=params)
        return found.critic.mean() + found.actor + found.temperature

    for leaf, slope in enumerate(jax.tree.leaves(gradients)):
        for index in rng.integers(leaves[leaf].size, size=2):
            expected = (whole(leaf, index, width) - whole(leaf, index, -width)) / (2 * width)
            found = (slope[0] + slope[1]).flat[index]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def reached(gradients, row):
    """The groups of parameters that a loss's gradient reaches."""
    groups = {
        "layers": gradients.encoder.layers,
        "φ": gradients.encoder.projection,
        "actor's projection": gradients.head.projection,
        "actor": gradients.head.actor,
        "critics": gradients.head.critics,
        "temperature": gradients.head.log_temperature,
        "models": gradients.metric,
    }
    return {name for name, group in groups.items() if any(np.any(leaf[row]) for leaf in jax.tree.leaves(group))}


def test_which_loss_reaches_what(case):
    (run, params, _, _), (_, _, (by_params, by_target)) = case
    there = {"layers", "critics", "actor", "temperature"} | (
        {"φ", "actor's projection"} if params.encoder.projection else set()
    )
    fixed = {"actor's projection"} if run.agent.actor_projection == "fixed" else set()
    trained_by_critics = ACTOR - {"actor"} if run.agent.critics_read == "actor" else ENCODER
    assert reached(by_params, 0) == ({"critics"} | trained_by_critics) & there - fixed
    assert reached(by_params, 1) == (ACTOR | {"temperature"}) & there - fixed
    assert reached(by_params, 2) == ENCODER & there
    assert [reached(by_target, row) for row in range(3)] == [set()] * 3


@pytest.mark.parametrize("variant", ["paper", "original", "rewrite"])
@pytest.mark.parametrize("name", ["dbc", "dbc-det", "dbc-mico"])
def test_what_losses_with_models_reach(name, variant):
    """Without pairs, whose weight is 0, and with them; where models read the actor's projection, only pairs reach φ."""
    run = small_run(small_agent("sac"), METRIC_LOSSES[name](variant=variant, hidden=4), seed=0)
    params, target = (noisy(tree, seed) for seed, tree in enumerate(two_networks(run)))
    batch = small_batch(run.env.spec, count=8)
    batch = batch._replace(first=FirstTransition(batch.reward, batch.next_observation, batch.terminal))

    def loss(params, target, weight):
        metric = eqx.tree_at(lambda metric: metric.weight, run.metric, weight)
        return metric.loss(params.metric, Views(run.agent, params, target, batch), batch, KEY)

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))
    read = {"actor's projection"} if variant == "rewrite" else ENCODER
    for weight, of_pairs in ((0.0, set()), (0.5, ENCODER)):
        by_params, by_target = gradients(params, target, weight)
        assert reached(by_params, ...) == {"models"} | read | of_pairs
        assert reached(by_target, ...) == set()


def test_the_gradient_by_the_log_temperature_is_the_excess_of_entropy_or_alpha_times_it(case):
    """Of log α·h it is h, of α·h it is α·h; the actor's loss does not reach it."""
    (run, params, target, batch), (_, _, (gradients, _)) = case
    expected = pieces(run.agent, params, target, batch, noise(KEY, batch.action.shape)).temperature
    if run.agent.temperature_loss == "log-temperature":
        expected /= params.head.log_temperature
    np.testing.assert_allclose(gradients.head.log_temperature[1], expected, rtol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_the_temperature_starts_where_it_is_asked_to(temperature):
    run = small_run(small_agent("sac", initial_temperature=temperature), seed=0)
    found = init_params(run, run.env.spec).head.log_temperature
    np.testing.assert_allclose(found, np.log(temperature), rtol=1e-12)
    assert (temperature == 1) == (found == 0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf")])
def test_a_temperature_without_a_logarithm_is_refused(temperature):
    with pytest.raises(ValueError, match="initial_temperature must"):
        small_agent("sac", initial_temperature=temperature)


def test_a_projection_that_is_not_there_cannot_be_fixed():
    run = small_run(small_agent("sac", actor_projection="fixed"), seed=0, network=replace(NETWORK, latent=0))
    with pytest.raises(ValueError, match=r"actor_projection must be learnt where network\.latent is 0, got fixed"):
        init_params(run, run.env.spec)


@pytest.mark.parametrize(("shift", "limit"), [(30.0, 2.0), (-30.0, -10.0)])
@pytest.mark.parametrize("log_std", ["bounded", "unbounded"])
def test_deviations_have_limits(shift, limit, log_std):
    """Their logarithms stay within −10 and 2, unless they are unbounded."""
    run = small_run(small_agent("sac", log_std=log_std), seed=0)
    params = noisy(init_params(run, run.env.spec), 0)
    head = eqx.tree_at(lambda head: head.actor.layers[-1].bias, params.head, replace_fn=lambda bias: bias + shift)
    law, usual = head.policy(jnp.ones(5)), params.head.policy(jnp.ones(5))
    if log_std == "bounded":
        np.testing.assert_array_equal(law.log_deviation, [limit, limit])
    else:
        np.testing.assert_allclose(law.log_deviation, usual.log_deviation + shift, rtol=1e-12)
    np.testing.assert_allclose(law.mean, usual.mean + shift)
    assert np.abs(usual.log_deviation).max() < 2


def test_an_agent_without_an_actor_has_no_view_of_one():
    _, params, target, batch = situation("usual")
    with pytest.raises(ValueError, match="DQN has no actor, which the metric loss asks for"):
        _ = Views(DQN(), params, target, batch).actor


def test_the_actors_view_is_its_projection(case):
    (run, params, target, batch), _ = case
    views = Views(run.agent, params, target, batch)
    online = views.actor.online, params.head, views.features
    later = views.actor.target_next, target.head, views.target_features_next
    for rows, head, given in (online, later):
        np.testing.assert_allclose(rows, [head.latent(row) for row in given], rtol=1e-12)


# Updates


@pytest.fixture(scope="module")
def update(quick_compilation):
    """A run that has seen something, its state, and one update of it, compiled once."""
    with jax.enable_x64(True):
        run, params, target, _ = situation("usual")
        rng = np.random.default_rng(1)
        frames = jnp.asarray(rng.normal(size=(31, 2)), jnp.float32)
        action, reward = jnp.asarray(rng.uniform(-1, 1, size=(30, 2))), jnp.asarray(rng.normal(size=30))
        end = np.arange(30) % 3
        ends = jnp.asarray(end == 0), jnp.asarray(end == 1)
        steps = Timestep(reward, frames[1:], *ends, observation_frame=frames[:-1], action=action)
        memory = acting.add_to_replay(run, run.replay.init(run.env.spec), steps, jnp.int32(0))
        still = run.agent.optimiser().init(params)
        state = TrainState(params, target, still, memory, episode=None, bad_step=jnp.int32(-1))
        return run, state, jax.jit(updates.update)


def drawn_batch(run, state, time):
    """What the update draws that is due then, and the key of its losses."""
    root = jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), 3), time)
    of_batch, of_agent, _ = jax.random.split(root, 3)
    batch, _ = run.replay.sample(state.memory, time, run.window, of_batch)
    return jax.device_get(batch), of_agent


def test_an_update_sees_these_losses(update):
    run, state, learn = update
    batch, key = drawn_batch(run, state, jnp.int32(30))
    assert batch.terminal.any()
    expected = pieces(run.agent, state.params, state.target, batch, noise(key, batch.action.shape))
    _, losses = learn(run, state, jnp.int32(30))
    np.testing.assert_allclose(losses.td_loss, expected.critic.mean(), rtol=1e-8)
    both = (1 - ALPHA) * (losses.td_loss + expected.actor + expected.temperature) + ALPHA * losses.metric_loss
    np.testing.assert_allclose(losses.loss, both, rtol=1e-8)


def test_the_target_follows_with_every_update(update):
    run, state, learn = update
    for time in (30, 34, 38):
        after, losses = learn(run, state, jnp.int32(time))
        assert losses.applied
        for old, new, online in zip(*map(jax.tree.leaves, (state.target, after.target, after.params)), strict=True):
            np.testing.assert_allclose(new, old + 0.2 * (online - old), rtol=1e-13, atol=1e-15)
        assert np.abs(after.params.head.log_temperature - state.params.head.log_temperature) > 1e-3
        state = after


def test_a_target_that_is_not_finite_is_not_followed(update):
    run, state, learn = update
    rewards = jnp.full_like(state.memory.steps.reward, jnp.nan)
    steps = state.memory.steps._replace(reward=rewards)
    sick = state._replace(memory=replace(state.memory, steps=steps))
    after, losses = learn(run, sick, jnp.int32(30))
    assert not losses.applied
    assert int(after.bad_step) == 30
    same = after.params, after.target, after.optimiser
    jax.tree.map(np.testing.assert_array_equal, same, (state.params, state.target, state.optimiser))


def test_the_metric_loss_sees_rewards_as_they_are(update):
    run, state, learn = update
    agents = [replace(run.agent, reward_scale=scale) for scale in (0.1, 3.0)]
    losses = [learn(replace(run, agent=agent), state, jnp.int32(30))[1] for agent in agents]
    assert float(losses[0].metric_loss) == float(losses[1].metric_loss) > 1e-2
    assert abs(losses[0].td_loss - losses[1].td_loss) > 1e-2
