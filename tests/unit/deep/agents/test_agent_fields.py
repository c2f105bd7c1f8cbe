"""Every field of every agent changes what it says: a field without a check here fails."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import AGENTS, VALUE_AGENTS
from mico.deep.agents.value_agent import Transition
from mico.deep.learner import acting, update
from mico.deep.learner.state import init_state
from mico.deep.metric_losses import MICo
from mico.deep.replay.replay import Replay
from mico.deep.types import Params, Representations, Timestep, Views
from small_runs import NETWORK, SMALL, small_agent, small_batch, small_run, two_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(5)
SIZE, ACTIONS = 6, 3
FIELDS = [(name, field.name) for name, agent in AGENTS.items() for field in dataclasses.fields(agent)]


def head_of(agent, key=KEY):
    return agent.make_head(SIZE, ACTIONS, NETWORK, key=key)


def loss(agent):
    """Of one transition; with an actor, of a batch, and what else is minimised."""
    if agent.actions == "continuous":
        run = small_run(agent, MICo(), seed=0)
        params, target = two_networks(run)
        batch = small_batch(run.env.spec)
        seen = Views(run.agent, params, target, batch)
        each, other = agent.loss(params, target, seen, batch, KEY)
        return float(each.mean() + other)
    rng = np.random.default_rng(0)
    views = Representations(*jnp.asarray(rng.normal(size=(3, SIZE)), jnp.float32))
    transition = Transition(jnp.int32(1), jnp.float32(3.0), jnp.float32(0.5))
    return float(agent.td_loss(head_of(agent), head_of(agent, jax.random.key(6)), views, transition, KEY))


def changes_the_loss(name, field, one, other):
    # M-IQN's policy would be all but greedy here, and SAC's loss of a temperature of 1 is 0.
    soft = {"m-iqn": {"temperature": 0.5}, "sac": {"initial_temperature": 0.25}}.get(name, {})
    agents = [small_agent(name, **(soft | {field: value})) for value in (one, other)]
    assert abs(loss(agents[0]) - loss(agents[1])) > 1e-3


def window(name, field, one, other):
    """How many steps replayed windows have, and what they are discounted by."""
    for value in (one, other):
        run = small_run(small_agent(name, **{field: value}), seed=0)
        assert getattr(run.window, {"horizon": "length", "discount": "discount"}[field]) == value


def adam(name, field, one, other):
    r"""The first step is $-\eta\,g / (|g| + \epsilon)$."""
    gradient = {"weight": jnp.asarray([1e-3, -2.0])}
    for value in (one, other):
        agent = small_agent(name, **({"learning_rate": 0.5, "adam_epsilon": 1e-30} | {field: value}))
        optimiser = agent.optimiser()
        found, _ = optimiser.update(gradient, optimiser.init(gradient))
        g = np.array([1e-3, -2.0])
        expected = -agent.learning_rate * g / (np.abs(g) + agent.adam_epsilon)
        np.testing.assert_allclose(found["weight"], expected, rtol=1e-4)


def clipped_rewards(name, field, one, other):
    """What the replay holds of rewards 2, −2 and ¼."""
    rewards = np.array([2, -2, 0.25], np.float32)
    for value in (one, other):
        run = small_run(small_agent(name, reward_clip=value), seed=0)
        steps = learner_steps(rewards, run.env.spec)
        held = acting.add_to_replay(run, run.replay.init(run.env.spec), steps, jnp.int32(0)).steps.reward[:3]
        np.testing.assert_array_equal(held, rewards if value is None else np.clip(rewards, -value, value))


def learner_steps(rewards, spec):
    """Steps through some states that pay these rewards."""
    batch, never = small_batch(spec, len(rewards)), jnp.zeros(len(rewards), bool)
    seen = {"observation_frame": batch.observation, "action": batch.action}
    return Timestep(jnp.asarray(rewards), batch.next_observation, never, never, **seen)


@cache
def updated(name, importance):
    """Losses of one update, where the priorities of steps are far apart."""
    run = small_run(small_agent(name, importance=importance), seed=0)
    run = dataclasses.replace(run, replay=Replay(capacity=20, batch_size=16, sampling="prioritised"))
    spec = run.env.spec

    @jax.jit
    def losses(run):
        blank = init_state(run, spec, None, jnp.zeros(spec.shape, spec.dtype))
        steps = learner_steps(np.linspace(-1, 1, 8, dtype=np.float32), spec)
        state = blank._replace(memory=acting.add_to_replay(run, blank.memory, steps, jnp.int32(0)))
        ids = jnp.arange(7, dtype=jnp.int32)
        memory = run.replay.update_priorities(state.memory, ids, jnp.linspace(0.1, 9.0, 7))
        return update.update(run, state._replace(memory=memory), jnp.int32(8))[1]

    return losses(run)


def weights_count(name, field, one, other):
    """Weights are at most 1, so the weighted mean of TD losses is below the plain one; the rest has no weights."""
    weighted, plain = updated(name, one), updated(name, other)
    assert weighted.td_loss == pytest.approx(float(plain.td_loss))
    assert weighted.loss < plain.loss - 0.1 * plain.td_loss
    if name in VALUE_AGENTS:
        assert plain.loss == pytest.approx(float(plain.td_loss))


def priorities_change(name, field, one, other):
    """TD losses alone, or (1 − α) times those and the weighted metric loss."""
    td, weight = jnp.asarray([2.0, 3.0]), jnp.asarray([1.0, 0.5])
    expected = {"combined": np.array([2.0, 1.5]) * 0.75 + 0.1, "td": np.array([2.0, 3.0])}
    for value in (one, other):
        run = small_run(small_agent(name, importance="weighted", **{field: value}), MICo(alpha=0.25), seed=0)
        batch = small_batch(run.env.spec, 2)._replace(weight=weight)
        terms = update.LossTerms(td, metric=jnp.asarray(0.4), weighted_metric=jnp.asarray(0.1))
        np.testing.assert_allclose(update.priority_losses(run, batch, terms), expected[value], rtol=1e-6)


def followed(name, field, one, other):
    for value in (one, other):
        rule = small_agent(name, **{field: value}).target_rule(None)
        found = rule.follow(*(Params(jnp.asarray(weight), None, None) for weight in ([1.0, 2.0], [3.0, -2.0])))
        np.testing.assert_allclose(found.encoder, [1 + 2 * value, 2 - 4 * value], rtol=1e-6)


def deviations(name, field, one, other):
    """Within the bounds or beyond them, where what the actor says of them is far above."""
    largest = []
    for value in (one, other):
        head = two_networks(small_run(small_agent(name, **{field: value}), MICo(), seed=0))[0].head
        head = eqx.tree_at(lambda head: head.actor.layers[-1].bias, head, replace_fn=lambda bias: bias + 30)
        largest.append(float(head.policy(jnp.ones(5)).log_deviation.max()))
    assert largest[0] == 2
    assert largest[1] > 20


def learnt_projection(name, field, one, other):
    """Whether the loss has a gradient by the actor's projection."""
    reaches = []
    for value in (one, other):
        run = small_run(small_agent(name, **{field: value}), MICo(), seed=0)
        params, target = two_networks(run)
        batch = small_batch(run.env.spec)

        def total(params, run=run, target=target, batch=batch):
            each, other = run.agent.loss(params, target, Views(run.agent, params, target, batch), batch, KEY)
            return each.mean() + other

        reaches.append(any(np.any(leaf) for leaf in jax.tree.leaves(jax.grad(total)(params).head.projection)))
    assert reaches == [True, False]


def head_shape(name, field, one, other):
    sizes = []
    for value in (one, other):
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(head_of(small_agent(name, **{field: value})))))
    assert sizes[1] - sizes[0] == {
        "num_atoms": (NETWORK.hidden + 1) * ACTIONS,
        "num_quantiles": (NETWORK.hidden + 1) * ACTIONS,
        "num_cosines": SIZE,
    }[field] * (other - one)
    changes_the_loss(name, field, one, other)


def num_quantiles(name, field, one, other):
    """QR-DQN's head grows with them; an implicit one only sums over more of them."""
    (head_shape if name == "qr-dqn" else changes_the_loss)(name, field, one, other)


def values(name, field, one, other):
    """Of the policy: a mean over more fractions, or another support."""
    agents = [small_agent(name, **{field: value}) for value in (one, other)]
    phi = jnp.linspace(-1, 1, SIZE)
    found = [agent.q_values(head_of(agent), phi, KEY) for agent in agents]
    assert np.abs(found[0] - found[1]).max() > 1e-4


def same_samples(name, field, one, other):
    """Their losses differ if fractions are drawn for each, and only then."""
    for value, kinds in ((one, 4), (other, 1)):
        run = small_run(small_agent(name, **{field: value}), seed=0)
        params, target = two_networks(run)
        batch = small_batch(run.env.spec)
        batch = jax.tree.map(lambda leaf: jnp.stack([leaf[0]] * 4) if leaf.ndim else leaf, batch)
        seen = Views(run.agent, params, target, batch)
        losses, _ = run.agent.loss(params, target, seen, batch, KEY)
        assert len(np.unique(np.asarray(losses).round(5))) == kinds


CHECKS = {
    "horizon": (window, 1, 2),
    "discount": (window, 0.9, 0.5),
    "learning_rate": (adam, 0.5, 0.1),
    "adam_epsilon": (adam, 1e-30, 1e-2),
    "reward_clip": (clipped_rewards, None, 0.5),
    "importance": (weights_count, "weighted", "none"),
    "priorities": (priorities_change, "combined", "td"),
    "error": (changes_the_loss, "squared", "huber"),
    "num_atoms": (head_shape, 5, 9),
    "support": (values, 2.0, 1.0),
    "num_quantiles": (num_quantiles, 4, 7),
    "kappa": (changes_the_loss, 1.0, 0.1),
    "num_target_quantiles": (changes_the_loss, 3, 8),
    "num_policy_quantiles": (values, 5, 9),
    "num_cosines": (head_shape, 4, 6),
    "fractions": (same_samples, "each", "shared"),
    "temperature": (changes_the_loss, 0.03, 0.5),
    "munchausen": (changes_the_loss, 0.9, 0.2),
    "clip": (changes_the_loss, -1.0, -0.01),
    "target_rate": (followed, 0.2, 0.75),
    "reward_scale": (changes_the_loss, 1.0, 0.1),
    "entropy": (changes_the_loss, -0.5, -1.0),
    "initial_temperature": (changes_the_loss, 1.0, 0.5),
    "temperature_loss": (changes_the_loss, "log-temperature", "temperature"),
    "log_std": (deviations, "bounded", "unbounded"),
    "actor_projection": (learnt_projection, "learnt", "fixed"),
    "next_action": (changes_the_loss, "sampled", "mean"),
    "critics_read": (changes_the_loss, "representation", "actor"),
}


def test_every_check_is_of_a_field():
    assert set(CHECKS) == {field for _, field in FIELDS}
    assert set(SMALL) == set(AGENTS)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_changes_what_it_says(name, field):
    check, one, other = CHECKS[field]
    check(name, field, one, other)
