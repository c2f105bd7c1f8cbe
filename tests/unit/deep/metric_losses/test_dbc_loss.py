"""DBC's losses against loops in float64 from their definitions, and who learns by them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import SPECS, replayed
from mico.deep.metric_losses import METRIC_LOSSES, MICo
from mico.deep.metric_losses.dbc_models import DiagonalGaussian

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(7)
NAMES = ("dbc", "dbc-det", "dbc-mico")
VARIANTS = ("paper", "original", "rewrite")
every_loss = pytest.mark.parametrize("name", NAMES)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def moved(params):
    """Parameters of no special value, those of the layer norms included."""
    leaves, kind = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(3), len(leaves))
    shifts = (0.2 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True))
    return jax.tree.unflatten(kind, [leaf + shift for leaf, shift in zip(leaves, shifts, strict=True)])


def made(name, variant, spec=SPECS["continuous"], **fields):
    """A loss, parameters, views and a batch."""
    loss = METRIC_LOSSES[name](variant=variant, hidden=8, **fields)
    return loss, moved(loss.init(KEY, 4, spec)), *replayed(size=6, spec=spec)


def weighted(loss, weight):
    return eqx.tree_at(lambda own: own.weight, loss, weight)


# The definitions


class Said(NamedTuple):
    """By naive models of one step: mean and deviation of what comes next (none if deterministic), a draw, a reward."""

    mean: np.ndarray
    deviation: np.ndarray | None
    drawn: np.ndarray
    reward: float


def regression(layers, x):
    """A dense layer, a layer norm, a ReLU and a dense layer."""
    number = lambda array: np.asarray(array, dtype=float)  # noqa: E731
    hidden = number(layers.hidden.weight) @ x + number(layers.hidden.bias)
    normal = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
    active = np.maximum(normal * number(layers.norm.weight) + number(layers.norm.bias), 0.0)
    return number(layers.output.weight) @ active + number(layers.output.bias)


def said(name, variant, params, state, action, noise):
    read = np.append(state, np.eye(3)[action] if np.ndim(action) == 0 else action)
    found = regression(params.dynamics, read)
    mean, deviation, drawn = found, None, found
    if name != "dbc-det":
        mean, raw = np.split(found, 2)
        deviation = 1e-4 + (10 - 1e-4) / (1 + np.exp(-raw))
        drawn = mean + deviation * noise
    return Said(mean, deviation, drawn, regression(params.reward, drawn if variant == "original" else read)[0])


def of_one_model(variant, step, later, reward):
    """Gaussian negative log-likelihood or, in the rewrite, the squared error of a draw; and that of the reward."""
    deviation = np.ones_like(later) if step.deviation is None else step.deviation
    likelihood = ((later - step.mean) / deviation) ** 2 / 2 + np.log(deviation)
    errors = (step.drawn - later) ** 2 if variant == "rewrite" else likelihood
    return errors.mean() + (step.reward - reward) ** 2


def smooth(gap):
    return np.where(np.abs(gap) < 1, np.square(gap) / 2, np.abs(gap) - 0.5)


def apart(one, other):
    """Gaps of means and deviations; those of no deviations are 0."""
    same = one.deviation is None
    return one.mean - other.mean, np.zeros_like(one.mean) if same else one.deviation - other.deviation


def of_one_pair(variant, states, rewards, steps, discount):
    (one, other), (mean, deviation) = states, apart(*steps)
    reward = rewards[0] - rewards[1]
    if variant == "original":
        goal = smooth(reward) + discount * np.sqrt(mean**2 + deviation**2)
        return ((smooth(one - other) - goal) ** 2).mean()
    if variant == "paper":
        later = np.sqrt((mean**2).sum() + (deviation**2).sum())
    else:
        later = np.sqrt((mean**2).sum()) + np.sqrt((deviation**2).sum())
    return (np.abs(one - other).sum() - abs(reward) - discount * later) ** 2


def mico_distance(x, y, beta):
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    return (x @ x + y @ y) / 2 + beta * np.arccos(cosine)


def naive(name, loss, params, views, batch):
    """The mean over steps and pairs, one at a time."""
    variant, first = loss.variant, views.first_step
    of_draw, of_pairs = jax.random.split(KEY)
    size = batch.reward.size
    noise, order = jax.random.normal(of_draw, views.online.shape), np.asarray(jax.random.permutation(of_pairs, size))
    rows = lambda array: np.asarray(array, dtype=float)  # noqa: E731
    online, reward, discount = rows(views.online), rows(first.reward), float(first.bootstrap)
    read = {"paper": views.online, "original": views.online, "rewrite": views.actor.online}[variant]
    later = {"paper": first.target_next, "original": views.online_next, "rewrite": views.actor.target_next}[variant]
    given = rows(read), np.asarray(batch.action), rows(noise)
    steps = [said(name, variant, params, *one) for one in zip(*given, strict=True)]
    models = [of_one_model(variant, step, *one) for step, *one in zip(steps, rows(later), reward, strict=True)]
    pairs = []
    for i, j in enumerate(order):
        if name == "dbc-mico":
            after, target = rows(first.target_next), rows(views.target)
            goal = abs(reward[i] - reward[j]) + discount * mico_distance(after[i], after[j], loss.beta)
            pairs.append(smooth(goal - mico_distance(online[i], target[j], loss.beta)))
        else:
            both = (online[i], online[j]), (reward[i], reward[j]), (steps[i], steps[j])
            pairs.append(of_one_pair(variant, *both, discount))
    return np.mean(models) + loss.weight * np.mean(pairs)


@every_loss
@every_variant
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_loss_against_loops(name, variant, spec):
    given = made(name, variant, spec, weight=0.7)
    loss, params, views, batch = given
    np.testing.assert_allclose(loss.loss(params, views, batch, KEY), naive(name, *given), rtol=1e-4)


def test_the_shuffle_of_these_tests_leaves_few_in_place():
    order = jax.random.permutation(jax.random.split(KEY)[1], 6)
    assert (order != jnp.arange(6)).sum() >= 4


# Models


def test_deviations_stay_within_their_bounds():
    loss, params, views, batch = made("dbc", "paper")
    for shift, end in ((-1e3, 1e-4), (1e3, 10.0)):
        far = eqx.tree_at(
            lambda models: models.dynamics.output.bias, params, replace_fn=lambda bias, by=shift: bias + by
        )
        law = far.law(far.joined(views.online, batch.action), 4)
        np.testing.assert_allclose(law.deviation, end, rtol=1e-5)
        assert np.isfinite(loss.loss(far, views, batch, KEY))


def test_a_deterministic_law_is_its_mean_and_counts_as_one_of_deviation_one():
    mean, outcome = jax.random.normal(KEY, (2, 3, 4))
    bare, unit = DiagonalGaussian(mean, None), DiagonalGaussian(mean, jnp.ones_like(mean))
    np.testing.assert_array_equal(bare.sample(KEY), mean)
    np.testing.assert_allclose(bare.nll(outcome), unit.nll(outcome), rtol=1e-6)
    np.testing.assert_array_equal(bare.gaps(jnp.asarray([1, 2, 0]))[1], 0)


@every_loss
@every_variant
def test_terminals_and_windows_of_several_steps_are_no_matter(name, variant):
    """All is of the first step, whose next state counts also where the episode ended with it."""
    loss, params, views, batch = made(name, variant)
    found = loss.loss(params, views, batch, KEY)
    other = batch._replace(
        terminal=~batch.terminal, discount=batch.discount + 1, reward=batch.reward + 1, bootstrap=batch.bootstrap / 2
    )
    ended = views._replace(
        first_step=views.first_step._replace(terminal=~views.first_step.terminal), target_next=views.target_next + 1
    )
    assert loss.loss(params, ended, other, KEY) == found
    assert loss.loss(params, ended, other._replace(action=-batch.action), KEY) != found


# Who learns


def gradients(loss, params, views, batch):
    of_both = lambda p, v: loss.loss(p, v, batch, KEY)  # noqa: E731
    return jax.grad(of_both, argnums=(0, 1), allow_int=True)(params, views)


@every_loss
@every_variant
def test_models_learn_nothing_of_pairs_and_in_the_rewrite_representations_nothing_of_models(name, variant):
    """The weight of pairs changes the gradient of the representation alone."""
    loss, params, views, batch = made(name, variant)
    none, some = (gradients(weighted(loss, weight), params, views, batch) for weight in (0.0, 2.0))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-6), none[0], some[0])
    assert min(np.abs(leaf).max() for leaf in jax.tree.leaves(none[0])) > 1e-5
    np.testing.assert_allclose(none[1].actor.online, some[1].actor.online, rtol=1e-6)
    assert np.abs(some[1].online - none[1].online).max() > 1e-3
    read, other = (none[1].actor.online, none[1].online)[:: 1 if variant == "rewrite" else -1]
    assert np.abs(read).max() > 1e-3
    np.testing.assert_array_equal(other, 0)


@pytest.mark.parametrize("name", ["dbc", "dbc-det"])
@every_variant
def test_both_states_of_a_pair_learn(name, variant):
    r"""$\nabla_{z_k}$ in closed form: k is the first state of one pair, and the second of another."""
    loss, params, views, batch = made(name, variant, weight=1.0)
    both = loss, weighted(loss, 0.0)
    found = np.subtract(*(gradients(own, params, views, batch)[1].online for own in both))
    of_draw, of_pairs = jax.random.split(KEY)
    order = np.asarray(jax.random.permutation(of_pairs, 6))
    noise = np.asarray(jax.random.normal(of_draw, (6, 4)), dtype=float)
    online, reward = (np.asarray(array, dtype=float) for array in (views.online, views.first_step.reward))
    read = np.asarray(views.actor.online if variant == "rewrite" else views.online, dtype=float)
    steps = [said(name, variant, params, *one) for one in zip(read, np.asarray(batch.action), noise, strict=True)]
    expected = np.zeros_like(online)
    for i, j in enumerate(order):
        gap, (mean, deviation) = online[i] - online[j], apart(steps[i], steps[j])
        if variant == "original":
            goal = smooth(reward[i] - reward[j]) + 0.9 * np.sqrt(mean**2 + deviation**2)
            slope = 2 * (smooth(gap) - goal) * np.clip(gap, -1, 1) / 4
        else:
            norms = np.linalg.norm(mean), np.linalg.norm(deviation)
            later = np.hypot(*norms) if variant == "paper" else sum(norms)
            goal = abs(reward[i] - reward[j]) + 0.9 * later
            slope = 2 * (np.abs(gap).sum() - goal) * np.sign(gap)
        expected[i] += slope / 6
        expected[j] -= slope / 6
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@every_variant
def test_what_pairs_learn_in_dbc_mico_is_mico_of_shuffled_pairs_with_the_target_network(variant):
    loss, params, views, batch = made("dbc-mico", variant, weight=0.3, beta=0.4)
    mico = MICo(pairs="shuffled", second="target", horizon="one-step", beta=0.4)
    own, models = (one.loss(params, views, batch, KEY) for one in (loss, weighted(loss, 0.0)))
    expected = 0.3 * mico.loss(None, views, batch, jax.random.split(KEY)[1])
    np.testing.assert_allclose(own - models, expected, rtol=1e-4)


@every_loss
def test_the_agent_s_loss_and_this_one_are_added_as_they_are(name):
    assert METRIC_LOSSES[name](weight=0.2).loss_weights == (1.0, 1.0)
