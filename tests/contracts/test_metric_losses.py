"""Contracts of every metric loss: to register is to be tested."""

import dataclasses
import itertools
from typing import Literal, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import SIZES, odd_rows, replayed
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.types import Views

KEY = jax.random.key(4)  # a shuffle that leaves one of five in place
CHOICES = [
    (name, field, get_args(kind))
    for name, loss in METRIC_LOSSES.items()
    for field, kind in get_type_hints(loss).items()
    if get_origin(kind) is Literal
]
NUMBERS = [
    (name, field.name)
    for name, loss in METRIC_LOSSES.items()
    for field in dataclasses.fields(loss)
    if field.type is float
]
every_loss = pytest.mark.parametrize("name", METRIC_LOSSES)


def value_and_gradient(loss, views, batch):
    return jax.value_and_grad(lambda v: loss.loss(None, v, batch, KEY), allow_int=True)(views)


@every_loss
def test_no_parameters_of_its_own(name):
    assert METRIC_LOSSES[name]().init(KEY, 4) is None


@every_loss
@pytest.mark.parametrize("pairs", ["all", "shuffled"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_losses_and_gradients_are_finite_on_hard_vectors(name, pairs, dtype):
    _, batch = replayed(size=6)
    loss = METRIC_LOSSES[name](pairs=pairs, horizon="n-step")
    of_rows = jax.jit(jax.value_and_grad(lambda v: loss.loss(None, Views(v, v, v), batch, KEY)))
    for size in SIZES:
        value, gradient = of_rows(odd_rows(size, dtype))
        assert np.isfinite(value)
        assert gradient.dtype == dtype
        assert np.isfinite(np.asarray(gradient, dtype=float)).all()


@every_loss
def test_gradients_reach_the_online_views_alone(name):
    views, batch = replayed()
    for second, horizon in itertools.product(("target", "frozen", "online"), ("n-step", "one-step")):
        loss = METRIC_LOSSES[name](second=second, horizon=horizon, terminals="absorbing")
        _, gradient = value_and_gradient(loss, views, batch)
        assert np.abs(gradient.online).max() > 1e-3
        assert np.abs(gradient.sink.online).max() > 1e-3
        first = gradient.first_step
        for frozen in (gradient.target, gradient.target_next, gradient.sink.target, first.target_next, first.reward):
            np.testing.assert_array_equal(frozen, 0)


@every_loss
def test_the_order_of_the_batch_does_not_matter_to_all_pairs(name):
    views, batch = replayed()
    order = jnp.asarray([3, 0, 4, 1, 2])
    rows = lambda tree: jax.tree.map(lambda x: x[order] if x.shape[:1] == (5,) else x, tree)  # noqa: E731
    for horizon in ("n-step", "one-step"):
        loss = METRIC_LOSSES[name](horizon=horizon, terminals="absorbing")
        moved = loss.loss(None, rows(views), rows(batch), KEY)
        np.testing.assert_allclose(moved, loss.loss(None, views, batch, KEY), rtol=1e-5)


@every_loss
def test_a_fleet_of_settings_and_batches_is_its_single_runs(name):
    alone = [METRIC_LOSSES[name](**{field: x for loss, field in NUMBERS if loss == name}) for x in (0.1, 0.7)]
    batches = [replayed(seed) for seed in (1, 2)]
    stack = lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves])  # noqa: E731
    run = lambda loss, views, batch: loss.alpha * loss.loss(None, views, batch, KEY)  # noqa: E731
    together = eqx.filter_jit(eqx.filter_vmap(run))(*jax.tree.map(stack, *((m, *b) for m, b in zip(alone, batches))))
    expected = [run(loss, *batch) for loss, batch in zip(alone, batches, strict=True)]
    np.testing.assert_allclose(together, expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "field"), [pair for pair in NUMBERS if pair[1] != "alpha"])
def test_each_number_changes_the_loss(name, field):
    views, batch = replayed()
    low, high = (METRIC_LOSSES[name](**{field: x}).loss(None, views, batch, KEY) for x in (0.1, 0.7))
    assert abs(low - high) > 1e-4


@pytest.mark.parametrize(("name", "field", "values"), CHOICES)
def test_each_choice_changes_the_loss_or_its_gradient(name, field, values):
    views, batch = replayed()
    base = {"pairs": "shuffled"} if field == "self_pairs" else {}
    found = []
    for value in values:
        loss, gradient = value_and_gradient(METRIC_LOSSES[name](**(base | {field: value})), views, batch)
        found.append(np.append(np.ravel(gradient.online), loss))
    for one, two in itertools.combinations(found, 2):
        assert np.abs(one - two).max() > 1e-4


@pytest.mark.parametrize(("name", "field", "values"), CHOICES)
@pytest.mark.usefixtures("unchecked")
def test_an_unknown_choice_is_refused(name, field, values):
    with pytest.raises(ValueError, match=rf"{field}.*'no such'"):
        METRIC_LOSSES[name](**{field: "no such"})
    for value in values:
        assert getattr(METRIC_LOSSES[name](**{field: value}), field) == value


@pytest.mark.parametrize(("name", "field"), NUMBERS)
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_a_bad_number_is_refused(name, field, value):
    with pytest.raises(ValueError, match=rf"{field}.*{value}"):
        METRIC_LOSSES[name](**{field: value})


@every_loss
def test_alpha_is_a_share(name):
    with pytest.raises(ValueError, match=r"alpha.*1\.1"):
        METRIC_LOSSES[name](alpha=1.1)
    for end in (0.0, 1.0):
        assert METRIC_LOSSES[name](alpha=end).alpha == end


@every_loss
def test_what_a_loss_needs_is_what_it_looks_at(name):
    views, batch = replayed()
    extra = {"first-step": ("first_step", views.first_step), "sink": ("sink", views.sink)}
    bare = views._replace(first_step=None, sink=None)
    for horizon, terminals in itertools.product(("n-step", "one-step"), ("bootstrap", "absorbing")):
        loss = METRIC_LOSSES[name](horizon=horizon, terminals=terminals)
        given = bare._replace(**dict(extra[need] for need in loss.needs))
        assert np.isfinite(loss.loss(None, given, batch, KEY))
        for need in loss.needs:
            with pytest.raises(ValueError, match=extra[need][0]):
                loss.loss(None, given._replace(**{extra[need][0]: None}), batch, KEY)
