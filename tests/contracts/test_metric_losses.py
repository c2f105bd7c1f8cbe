"""Contracts of every metric loss: to register is to be tested."""

import dataclasses
import itertools
from typing import Literal, get_args, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import SIZES, SPECS, GivenViews, odd_rows, replayed
from mico.deep.metric_losses import METRIC_LOSSES, AbstractPairLoss
from mico.deep.types import ActorLatents

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(4)  # a shuffle that leaves one of five in place
PAIR_LOSSES = [name for name, loss in METRIC_LOSSES.items() if issubclass(loss, AbstractPairLoss)]
FIELDS = [(name, field) for name, loss in METRIC_LOSSES.items() for field in dataclasses.fields(loss)]
CHOICES = [
    (name, field.name, get_args(get_type_hints(METRIC_LOSSES[name])[field.name]))
    for name, field in FIELDS
    if get_origin(get_type_hints(METRIC_LOSSES[name])[field.name]) is Literal
]
NUMBERS = [(name, field.name) for name, field in FIELDS if field.type is float]
WIDTHS = [(name, field.name) for name, field in FIELDS if field.type is int]
every_loss = pytest.mark.parametrize("name", METRIC_LOSSES)
every_pair_loss = pytest.mark.parametrize("name", PAIR_LOSSES)
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def readings(name, *, of):
    """The loss with every combination of values of these fields, as far as it has them."""
    own = {field: values for loss, field, values in CHOICES if loss == name and field in of}
    return [METRIC_LOSSES[name](**dict(zip(own, values, strict=True))) for values in itertools.product(*own.values())]


def started(loss, spec=SPECS["discrete"], size=4):
    return loss.init(KEY, size, spec)


def value_and_gradient(loss, views, batch):
    params = started(loss)
    return jax.value_and_grad(lambda v: loss.loss(params, v, batch, KEY), allow_int=True)(views)


def of_one_kind(rows):
    """Views that are all the same."""
    first = replayed(size=len(rows))[0].first_step._replace(target_next=rows)
    same = dict.fromkeys(("online", "target", "target_next", "online_next"), rows)
    return GivenViews(**same, first_step=first, actor=ActorLatents(rows, rows))


# Parameters of its own


@every_loss
@every_spec
def test_parameters_of_its_own_are_finite_and_follow_from_the_key(name, spec):
    for loss in readings(name, of=("variant",)):
        one, again, other = (jax.tree.leaves(loss.init(key, 4, spec)) for key in (KEY, KEY, jax.random.key(5)))
        jax.tree.map(np.testing.assert_array_equal, one, again)
        assert all(np.isfinite(leaf).all() for leaf in one)
        assert not one or any((a != b).any() for a, b in zip(one, other, strict=True))
        assert bool(one) == (name not in PAIR_LOSSES)


@every_loss
@every_spec
def test_parameters_of_its_own_have_gradients_and_every_one_of_them_counts(name, spec):
    views, batch = replayed(spec=spec)
    for loss in readings(name, of=("variant",)):
        params = started(loss, spec)
        gradients = jax.grad(lambda p, m=loss: m.loss(p, views, batch, KEY))(params)
        for gradient in jax.tree.leaves(gradients):
            assert np.isfinite(gradient).all()
            assert np.abs(gradient).max() > 1e-5


@pytest.mark.parametrize(("name", "field"), WIDTHS)
def test_each_width_changes_the_parameters_and_the_loss(name, field):
    views, batch = replayed()
    few, many = (METRIC_LOSSES[name](**{field: width}) for width in (8, 16))
    small, large = (sum(leaf.size for leaf in jax.tree.leaves(started(loss))) for loss in (few, many))
    assert 1.8 * small < large < 2.2 * small
    assert abs(few.loss(started(few), views, batch, KEY) - many.loss(started(many), views, batch, KEY)) > 1e-4


@pytest.mark.parametrize(("name", "field"), WIDTHS)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_width_is_refused(name, field):
    for value in (0, 2.5, True):
        with pytest.raises(ValueError, match=rf"{field}.*{value}"):
            METRIC_LOSSES[name](**{field: value})


# Numbers and gradients


@every_loss
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_losses_and_gradients_are_finite_on_hard_vectors(name, dtype):
    _, batch = replayed(size=6)
    for loss in readings(name, of=("pairs", "variant")):
        params = started(loss, size=8)
        of_rows = lambda p, v, m=loss: m.loss(p, of_one_kind(v), batch, KEY)  # noqa: E731
        ours = jax.jit(jax.value_and_grad(of_rows, argnums=(0, 1)))
        for size in SIZES if name in PAIR_LOSSES else [size for size in SIZES if size < 1e11]:  # models square
            value, (own, gradient) = ours(params, odd_rows(size, dtype))
            assert np.isfinite(value)
            assert gradient.dtype == dtype
            assert np.isfinite(np.asarray(gradient, dtype=float)).all()
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own))


@every_loss
def test_gradients_reach_no_target_and_no_next_state(name):
    views, batch = replayed()
    for loss in readings(name, of=("second", "horizon", "terminals", "variant")):
        _, gradient = value_and_gradient(loss, views, batch)
        assert np.abs(gradient.online).max() > 1e-3
        sink, actor = (getattr(loss, name, None) for name in ("terminals", "variant"))
        assert (sink == "absorbing") == (np.abs(gradient.sink.online).max() > 1e-3)
        assert (actor == "rewrite") == (np.abs(gradient.actor.online).max() > 1e-3)
        frozen = gradient.target, gradient.target_next, gradient.first_step.target_next, gradient.sink.target
        for rows in (*frozen, gradient.online_next, gradient.actor.target_next):
            np.testing.assert_array_equal(rows, 0)


@every_loss
def test_a_fleet_of_settings_and_batches_is_its_single_runs(name):
    alone = [METRIC_LOSSES[name](**{field: x for loss, field in NUMBERS if loss == name}) for x in (0.1, 0.7)]
    batches = [(started(loss), *replayed(seed)) for loss, seed in zip(alone, (1, 2), strict=True)]
    stack = lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves])  # noqa: E731
    run = lambda loss, *given: loss.loss_weights[1] * loss.loss(*given, KEY)  # noqa: E731
    together = eqx.filter_jit(eqx.filter_vmap(run))(*jax.tree.map(stack, *((m, *b) for m, b in zip(alone, batches))))
    expected = [run(loss, *batch) for loss, batch in zip(alone, batches, strict=True)]
    np.testing.assert_allclose(together, expected, rtol=1e-5)


@every_loss
def test_what_is_learnt_of_pairs_is_symmetric_and_that_of_single_pairs(name):
    x, y = jax.random.normal(KEY, (2, 5, 7))
    for loss in readings(name, of=("variant",)):
        found = loss.pairwise(x, y[:3])
        assert found.shape == (5, 3)
        np.testing.assert_allclose(found, [[loss.measure(a, b) for b in y[:3]] for a in x], rtol=1e-5)
        np.testing.assert_allclose(found, loss.pairwise(y[:3], x).T, rtol=1e-5)


@every_loss
def test_a_loss_asks_for_the_views_of_its_reading_alone(name):
    """Whatever else there may be is not computed: of these views there is nothing to compute others of."""
    views, batch = replayed()
    asked = {
        ("horizon", "one-step"): {"first_step"},
        ("terminals", "absorbing"): {"sink"},
        ("variant", "paper"): {"first_step"},
        ("variant", "original"): {"first_step", "online_next"},
        ("variant", "rewrite"): {"first_step", "actor"},
        ("target_encoder", "online"): {"online_next"},
    }
    for loss in readings(name, of=("horizon", "terminals", "variant", "target_encoder")):
        own = [views for (field, value), views in asked.items() if getattr(loss, field, None) == value]
        names = {"online", "target", "target_next"}.union(*own)
        given = GivenViews(**{name: view for name, view in vars(views).items() if name in names})
        assert np.isfinite(loss.loss(started(loss), given, batch, KEY))


# Fields


def test_every_field_is_a_choice_a_number_or_a_width():
    known = {(name, field) for name, field, _ in CHOICES} | {*NUMBERS} | {*WIDTHS}
    assert known == {(name, field.name) for name, field in FIELDS}


@pytest.mark.parametrize(("name", "field"), [pair for pair in NUMBERS if pair[1] != "alpha"])
def test_each_number_changes_the_loss(name, field):
    views, batch = replayed()
    both = [METRIC_LOSSES[name](**{field: x}) for x in (0.1, 0.7)]
    low, high = (loss.loss(started(loss), views, batch, KEY) for loss in both)
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
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_bad_number_is_refused(name, field, value):
    with pytest.raises(ValueError, match=rf"{field}.*{value}"):
        METRIC_LOSSES[name](**{field: value})


# Of the losses over pairs of a batch


@every_pair_loss
def test_the_order_of_the_batch_does_not_matter_to_all_pairs(name):
    views, batch = replayed()
    order = jnp.asarray([3, 0, 4, 1, 2])
    rows = lambda tree: jax.tree.map(lambda x: x[order] if x.shape[:1] == (5,) else x, tree)  # noqa: E731
    for horizon in ("n-step", "one-step"):
        loss = METRIC_LOSSES[name](horizon=horizon, terminals="absorbing")
        moved = loss.loss(None, rows(views), rows(batch), KEY)
        np.testing.assert_allclose(moved, loss.loss(None, views, batch, KEY), rtol=1e-5)


@every_pair_loss
def test_alpha_is_a_share(name):
    with pytest.raises(ValueError, match=r"alpha.*1\.1"):
        METRIC_LOSSES[name](alpha=1.1)
    for alpha in (0.0, 0.25, 1.0):
        assert METRIC_LOSSES[name](alpha=alpha).loss_weights == (1 - alpha, alpha)
