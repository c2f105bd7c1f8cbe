"""The preset `control-released` against an independent port of what MICo's authors released, in float64."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.config.presets import PRESETS
from mico.deep.learner.state import UpdateKeys, init_params
from mico.deep.learner.update import total_loss
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.types import FirstTransition, Spec
from plain_actor import pieces
from released_dbc import bisimulation_loss, mico_loss, model_losses
from small_runs import small_batch, small_run, two_networks

pytestmark = pytest.mark.usefixtures("quick_compilation")
NAMES = ("dbc", "dbc-det", "dbc-mico")
KEYS = UpdateKeys(*jax.random.split(jax.random.key(3), 3))
DISCOUNT = 0.9


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def released_run(name, **fields):
    preset = PRESETS["control-released"]["sac"]
    agent = replace(preset.agent_beside(name), discount=DISCOUNT)
    return small_run(agent, replace(preset.metric_loss(name), hidden=4, **fields), seed=0)


def situation(name):
    """A run, parameters and those of the target network with no special values, and a batch."""
    run = released_run(name)
    rng = np.random.default_rng(5)
    noisy = (jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape), one) for one in two_networks(run))
    batch = jax.tree.map(
        lambda leaf: leaf.astype(float) if leaf.dtype.kind == "f" else leaf, small_batch(run.env.spec, count=6)
    )
    first = FirstTransition(batch.reward, batch.next_observation, batch.terminal)
    return run, *noisy, batch._replace(first=first)


def released(name, run, params, target, batch, still):
    """All losses of an update; what a loss does not train is taken from `still`."""
    of_draw, of_pairs = jax.random.split(KEYS.metric)
    shape = batch.reward.size, run.network.latent
    order = np.asarray(jax.random.permutation(of_pairs, batch.reward.size))
    noise = [np.asarray(jax.random.normal(key, batch.action.shape)) for key in jax.random.split(KEYS.agent)]
    of_agent = pieces(run.agent, params, target, batch, noise, still=still)
    of_pairs_too = mico_loss if name == "dbc-mico" else bisimulation_loss
    models = model_losses(params, target, batch, np.asarray(jax.random.normal(of_draw, shape)), still)
    pairs = of_pairs_too(params, batch, order, DISCOUNT, still)
    return of_agent.critic.mean() + of_agent.actor + of_agent.temperature + models + pairs


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_those_of_the_released_code(name):
    """The gradient at two numbers of each array, by differences; that of the actor's projection is 0."""
    run, params, target, batch = situation(name)
    value = jax.jit(jax.value_and_grad(lambda own: total_loss(own, target, run, batch, KEYS)[0]))
    found, gradients = value(params)
    plain = jax.tree.map(np.asarray, batch)
    np.testing.assert_allclose(found, released(name, run, params, target, plain, params), rtol=1e-9)
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradients.head.projection))
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, params))
    rng, width = np.random.default_rng(0), 1e-6

    def moved(leaf, index, change):
        other = [array.copy() for array in leaves]
        other[leaf].flat[index] += change
        own = jax.tree.unflatten(structure, other)
        own = own._replace(head=eqx.tree_at(lambda head: head.projection, own.head, params.head.projection))
        return released(name, run, own, target, plain, params)

    for leaf, slope in enumerate(jax.tree.leaves(gradients)):
        for index in rng.integers(leaves[leaf].size, size=2):
            expected = (moved(leaf, index, width) - moved(leaf, index, -width)) / (2 * width)
            np.testing.assert_allclose(np.asarray(slope).flat[index], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("field", ["second", "target_distance", "target_encoder"])
def test_each_reading_of_dbc_with_mico_changes_what_is_learnt(field):
    run, params, target, batch = situation("dbc-mico")
    usual = getattr(METRIC_LOSSES["dbc-mico"](), field)
    other = replace(run, metric=replace(run.metric, **{field: usual}))
    ours, theirs = (total_loss(params, target, one, batch, KEYS)[1].metric for one in (other, run))
    assert abs(ours - theirs) > 1e-2


def test_a_frozen_second_state_has_the_value_but_not_the_gradient():
    run, params, target, batch = situation("dbc-mico")
    frozen = replace(run, metric=replace(run.metric, second="frozen"))
    both = [
        jax.value_and_grad(lambda own, one=one: total_loss(own, target, one, batch, KEYS)[0])(params)
        for one in (run, frozen)
    ]
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=1e-12)
    one, other = (np.asarray(gradients.encoder.projection.dense.bias) for _, gradients in both)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize(("initialiser", "inputs"), [("xavier", None), ("fan-in", 3**-0.5)])
@pytest.mark.parametrize("name", NAMES)
def test_models_start_by_glorot_s_rule_or_by_inputs(name, initialiser, inputs):
    """Uniform within √(6/(in + out)), mean and deviation as layers of their own; or within √(√3/in)."""
    loss = METRIC_LOSSES[name](initialiser=initialiser, hidden=64)
    models = loss.init(jax.random.key(0), 20, Spec((1,), "float32", 0, 4))
    assert models.dynamics.output.weight.shape == (20 if name == "dbc-det" else 40, 64)
    for layer, outputs in (
        (models.dynamics.hidden, 64),
        (models.dynamics.output, 20),
        (models.reward.hidden, 64),
        (models.reward.output, 1),
    ):
        size = layer.weight.shape[1]
        bound = np.sqrt(6 / (size + outputs)) if inputs is None else np.sqrt(3 * inputs / size)
        largest = np.abs(layer.weight).max()
        assert 0.9 * bound < largest <= bound
        assert np.all(np.asarray(layer.bias) == 0)


def test_the_reward_model_reads_the_latent_alone_or_the_action_too():
    run = released_run("dbc")
    widths = {
        reads: init_params(
            replace(run, metric=replace(run.metric, reward_input=reads)), run.env.spec
        ).metric.reward.hidden.weight.shape[1]
        for reads in ("latent", "latent-action")
    }
    assert widths == {"latent": 5, "latent-action": 5 + run.env.spec.action_size}


def test_a_variant_that_draws_what_its_reward_model_reads_takes_no_other_input():
    with pytest.raises(ValueError, match="reward_input must be latent-action with variant original"):
        METRIC_LOSSES["dbc"](variant="original", reward_input="latent")


def test_an_update_leaves_a_fixed_projection_as_it_was():
    run, params, target, batch = situation("dbc")
    gradients = jax.grad(lambda own: total_loss(own, target, run, batch, KEYS)[0])(params)
    optimiser = run.agent.optimiser()
    changes, _ = optimiser.update(gradients, optimiser.init(params))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(changes.head.projection))
    followed = run.target_rule.follow(target._replace(head=params.head), params)
    jax.tree.map(np.testing.assert_array_equal, followed.head.projection, params.head.projection)
    assert jnp.any(jnp.asarray([jnp.abs(leaf).max() > 0 for leaf in jax.tree.leaves(changes.encoder)]))
