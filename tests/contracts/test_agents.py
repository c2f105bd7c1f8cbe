"""Contracts of every agent: to register is to be tested."""

import dataclasses
from typing import Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import AGENTS
from mico.deep.agents.value import Transition
from mico.deep.networks import Network
from mico.deep.types import Views
from small_runs import SMALL, small_agent

KEY = jax.random.key(0)
SIZE, ACTIONS = 6, 3
NETWORK = Network("table", width=SIZE, hidden=5)
every_agent = pytest.mark.parametrize("name", AGENTS)
FIELDS = [(name, field) for name, agent in AGENTS.items() for field in dataclasses.fields(agent)]
CHOICES = [
    (name, field, get_args(kind))
    for name, agent in AGENTS.items()
    for field, kind in get_type_hints(agent).items()
    if get_origin(kind) is Literal
]


def heads(agent, network=NETWORK):
    online, target = jax.random.split(KEY)
    return tuple(agent.make_head(SIZE, ACTIONS, network, key=key) for key in (online, target))


def transitions(count, seed=0):
    """Views and transitions, the last of which is a terminal one."""
    rng = np.random.default_rng(seed)
    views = Views(*jnp.asarray(rng.normal(size=(3, count, SIZE)), jnp.float32))
    discount = jnp.full(count, 0.9, jnp.float32).at[-1].set(0.0)
    reward = jnp.asarray(rng.normal(size=count), jnp.float32)
    return views, Transition(jnp.arange(count, dtype=jnp.int32) % ACTIONS, reward, discount)


def first(tree):
    return jax.tree.map(lambda rows: rows[0], tree)


def test_every_agent_is_tested():
    assert set(SMALL) == set(AGENTS)


@every_agent
@pytest.mark.parametrize("hidden", [0, 5])
def test_values_are_one_number_an_action(name, hidden):
    agent = small_agent(name)
    head, _ = heads(agent, Network("table", width=SIZE, hidden=hidden))
    phi = jnp.ones(SIZE)
    q = agent.q_values(head, phi, KEY)
    assert q.shape == (ACTIONS,)
    assert np.isfinite(q).all()
    assert np.ptp(q) > 1e-3
    assert np.abs(q - agent.q_values(head, -phi, KEY)).max() > 1e-3


@every_agent
def test_heads_start_by_their_key_and_the_networks_rule(name):
    agent = small_agent(name)
    one, other = heads(agent)
    leaves = [jax.tree.leaves(head) for head in (one, other, heads(agent, Network(hidden=5, initialiser="fan-in"))[0])]
    for a, b, c in zip(*leaves, strict=True):
        if a.ndim == 2:
            assert np.abs(a - b).max() > 1e-3
            assert np.abs(a - c).max() > 1e-3
        else:
            np.testing.assert_array_equal(a, 0)


@every_agent
def test_the_loss_is_a_finite_number_whose_gradient_reaches_what_is_online_alone(name):
    agent = small_agent(name)
    views, transition = first(transitions(4))

    def loss(head, target, views, reward):
        return agent.td_loss(head, target, views, transition._replace(reward=reward), KEY)

    value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*heads(agent), views, transition.reward)
    of_head, of_target, of_views, of_reward = gradients
    assert value.shape == ()
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(of_head):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).max() > 1e-6
    assert np.abs(of_views.online).max() > 1e-4
    for leaf in jax.tree.leaves((of_target, of_views.target, of_views.target_next, of_reward)):
        np.testing.assert_array_equal(leaf, 0)


@every_agent
def test_after_a_terminal_the_next_state_does_not_matter(name):
    agent = small_agent(name)
    views, transition = transitions(2)
    moved = views._replace(target_next=views.target_next + 1)
    each = jax.jit(jax.vmap(lambda v, t: agent.td_loss(*heads(agent), v, t, KEY)))
    before, after = each(views, transition), each(moved, transition)
    assert abs(before[0] - after[0]) > 1e-4
    assert before[1] == pytest.approx(float(after[1]), rel=1e-6)


@every_agent
def test_a_descent_along_the_gradient_lowers_the_loss(name):
    agent = small_agent(name)
    head, target = heads(agent)
    views, transition = first(transitions(4))
    loss = jax.jit(jax.value_and_grad(lambda head: agent.td_loss(head, target, views, transition, KEY)))
    value, gradient = loss(head)
    after, _ = loss(jax.tree.map(lambda weight, slope: weight - 1e-2 * slope, head, gradient))
    assert after < value


@every_agent
def test_a_key_for_each_sample(name):
    agent = small_agent(name)
    keys = jax.random.key_data(agent.sample_keys(KEY, 5))
    assert len({tuple(key.tolist()) for key in keys}) == 5


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
