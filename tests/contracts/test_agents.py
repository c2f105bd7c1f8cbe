"""Contracts of every agent: to register is to be tested."""

import dataclasses
from functools import cache, partial
from typing import Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import AGENTS, VALUE_AGENTS
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.types import Params, Views
from small_runs import SMALL, small_agent, small_batch, small_run, two_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)
COUNT, SIZE, ACTIONS = 4, 6, 3
every_agent = pytest.mark.parametrize("name", AGENTS)
every_value_agent = pytest.mark.parametrize("name", VALUE_AGENTS)
FIELDS = [(name, field) for name, agent in AGENTS.items() for field in dataclasses.fields(agent)]
CHOICES = [
    (name, field, get_args(kind))
    for name, agent in AGENTS.items()
    for field, kind in get_type_hints(agent).items()
    if get_origin(kind) is Literal
]


@cache
def situation(name):
    """A run, its parameters, those of a target network that are others, and a batch."""
    run = small_run(name, seed=0)
    return run, *two_networks(run), small_batch(run.env.spec, COUNT)


@cache
def differentiated(name):
    """What is minimised with its parts, and gradients by the parameters, those of the target, rewards and actions."""
    run = small_run(name, seed=0)

    def whole(params, target, batch, reward):
        views = Views(run.agent, params, target, batch)
        each, other = run.agent.loss(params, target, views, batch._replace(reward=reward), KEY)
        return each.mean() + other, (each, other)

    return jax.jit(jax.value_and_grad(whole, argnums=(0, 1, 3), has_aux=True))


def minimised(name, params, target, batch):
    return differentiated(name)(params, target, batch, batch.reward)


def test_every_agent_is_tested():
    assert set(SMALL) == set(AGENTS)
    assert {name for name, agent in AGENTS.items() if agent.actions == "discrete"} == set(VALUE_AGENTS)


@every_agent
def test_the_losses_are_finite_and_their_gradient_reaches_what_is_online_alone(name):
    _, params, target, batch = situation(name)
    (_, (each, other)), (of_params, of_target, of_reward) = minimised(name, params, target, batch)
    assert (each.shape, other.shape) == ((COUNT,), ())
    assert np.isfinite(each).all()
    assert np.isfinite(other)
    for leaf in jax.tree.leaves(of_params):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).max() > 1e-6
    for leaf in jax.tree.leaves((of_target, of_reward)):
        np.testing.assert_array_equal(leaf, 0)


@every_agent
def test_after_a_terminal_the_next_state_does_not_matter(name):
    _, params, target, batch = situation(name)
    moved = batch._replace(next_observation=batch.observation)
    (_, (before, _)), _ = minimised(name, params, target, batch)
    (_, (after, _)), _ = minimised(name, params, target, moved)
    assert np.abs(before[:-1] - after[:-1]).max() > 1e-4
    assert before[-1] == pytest.approx(float(after[-1]), rel=1e-6)


@every_value_agent
def test_a_descent_along_the_gradient_lowers_what_is_minimised(name):
    _, params, target, batch = situation(name)
    (value, _), (slope, *_) = minimised(name, params, target, batch)
    lower = jax.tree.map(lambda weight, slope: weight - 1e-3 * slope, params, slope)
    (after, _), _ = minimised(name, lower, target, batch)
    assert after < value


@every_agent
def test_heads_start_by_their_key_and_the_networks_rule(name):
    run = small_run(name, seed=0)
    spec, shape = run.env.spec, run.observation_shape
    rules = run.network, dataclasses.replace(run.network, initialiser="fan-in")
    usual, ruled = (
        jax.jit(lambda key, rule=rule: run.agent.init(rule.sizes(shape), spec, rule, key=key)) for rule in rules
    )
    heads = usual(KEY), usual(KEY), usual(jax.random.key(1)), ruled(KEY)
    by_rule = []
    for one, same, other, ruled in zip(*map(jax.tree.leaves, heads), strict=True):
        np.testing.assert_array_equal(one, same)
        assert one.ndim < 2 or np.abs(one - other).max() > 1e-3
        by_rule += [] if one.ndim < 2 else [np.abs(one - ruled).max() > 1e-3]
    assert sum(by_rule) == (1 if name == "sac" else len(by_rule))  # an actor's projection; the others are Xavier's


@every_agent
def test_actions_are_as_announced_and_stray_with_probability_epsilon(name):
    run, params, _, batch = situation(name)
    agent, spec, seen = run.agent, run.env.spec, batch.observation[0]
    often = jax.random.split(KEY, (200, 2))
    for choose in (agent.act, partial(agent.act, explore=False)):
        drawn = jax.jit(jax.vmap(partial(choose, params, seen), in_axes=(None, 0)))
        steady, stray = drawn(0.0, often.at[:, 0].set(often[0, 0])), drawn(1.0, often)
        for actions in (steady, stray):
            assert (actions.shape, str(actions.dtype)) == ((200, *spec.action_shape), spec.action_dtype)
        assert (steady == steady[0]).all()  # whatever the second key is
        low, high = (0, spec.num_actions - 1) if spec.num_actions else (-1, 1)
        assert low <= stray.min() < low + 0.05
        assert high - 0.05 < stray.max() <= high
        found = np.unique(np.asarray(stray), axis=0)
        assert len(found) == (spec.num_actions or 200)


@every_agent
def test_what_it_makes_of_states(name):
    run, params, _, batch = situation(name)
    predict = jax.jit(lambda one: run.agent.predict(params, one, KEY))
    found = [predict(one) for one in batch.observation]
    assert found[0].action_values.shape == (run.env.spec.num_actions or run.env.spec.action_size,)
    assert np.abs(found[0].action_values - found[1].action_values).max() > 1e-3
    assert abs(found[0].state_value - found[1].state_value) > 1e-3
    look = jax.jit(lambda: run.agent.metrics(params, batch.observation, KEY))()
    assert all(number.shape == () and np.isfinite(number) for number in look.values())


@every_agent
def test_a_target_is_copied_or_follows_with_every_update(name):
    run, params, target, _ = situation(name)
    found = run.target_rule.follow(target, params)
    assert isinstance(found, Params)
    unchanged = [np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (found, target)), strict=True)]
    assert all(unchanged) == run.target_rule.copies_at(run.schedule.target_period or 1)


@every_value_agent
@pytest.mark.parametrize("hidden", [0, 5])
def test_values_are_one_number_an_action(name, hidden):
    agent, network = small_agent(name), NetworkConfig("table", width=SIZE, hidden=hidden)
    head, phi = agent.make_head(SIZE, ACTIONS, network, key=KEY), jnp.ones(SIZE)
    q = agent.q_values(head, phi, KEY)
    assert q.shape == (ACTIONS,)
    assert np.isfinite(q).all()
    assert np.ptp(q) > 1e-3
    assert np.abs(q - agent.q_values(head, -phi, KEY)).max() > 1e-3


@pytest.mark.parametrize(("name", "field", "values"), CHOICES)
@pytest.mark.usefixtures("unchecked")
def test_an_unknown_choice_is_refused(name, field, values):
    with pytest.raises(ValueError, match=rf"{field}.*'no such'"):
        AGENTS[name](**{field: "no such"})
    for value in values:
        assert getattr(AGENTS[name](**{field: value}), field) == value


@pytest.mark.parametrize(("name", "field"), [(name, field.name) for name, field in FIELDS if field.type is int])
@pytest.mark.parametrize("value", [0, -1])
def test_a_count_below_one_is_refused(name, field, value):
    with pytest.raises(ValueError, match=rf"{field} must be a whole number.*{value}"):
        AGENTS[name](**{field: value})


@pytest.mark.parametrize(
    ("name", "field"), [(name, field.name) for name, field in FIELDS if "float" in str(field.type)]
)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_are_not_finite_are_refused(name, field, value):
    with pytest.raises(ValueError, match=rf"{field} must be finite, but is {value}"):
        AGENTS[name](**{field: float(value)})


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_field_says_what_it_is_for(name, field):
    assert field.metadata["help"]
