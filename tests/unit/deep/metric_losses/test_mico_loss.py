"""The MICo loss against loops in float64, and its gradients where plain formulas have none."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import FIELDS, READINGS, SIZES, both_losses, odd_rows, replayed
from mico.deep.metric_losses import MICo
from mico.deep.metric_losses.mico import PairBatch, angle, distance, distances

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
DIFFERENTIATED = jax.jit(jax.value_and_grad(lambda a, b: distance(a, b, 0.1), argnums=(0, 1)))


def naive_distance(x, y, beta):
    """The paper's formulas, in float64."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    cosine = x @ y / (np.linalg.norm(x) * np.linalg.norm(y))
    theta = np.arctan2(np.sqrt(max(0.0, 1 - cosine**2)), cosine)
    return (x @ x + y @ y) / 2 + beta * theta


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: "-".join(reading.values()))
def test_every_reading_against_loops(reading):
    found, expected = both_losses(MICo(beta=0.3, **reading), lambda x, y: naive_distance(x, y, 0.3))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_changes_the_loss(field):
    views, batch = replayed()
    key = jax.random.key(4)  # a shuffle that leaves one in place
    base = {"pairs": "shuffled"} if field == "self_pairs" else {}
    found = []
    for value in FIELDS[field]:
        mico = MICo(**(base | {field: value}))
        loss, gradient = jax.value_and_grad(lambda v, m=mico: m.loss(None, views._replace(online=v), batch, key))(
            views.online
        )
        found.append(np.append(np.ravel(gradient), loss))
    for one, two in itertools.combinations(found, 2):
        assert np.abs(one - two).max() > 1e-4


@pytest.mark.parametrize("second", FIELDS["second"])
def test_gradients_reach_the_online_representations_alone(second):
    views, batch = replayed()
    mico = MICo(second=second, terminals="absorbing")
    gradient = jax.grad(lambda v: mico.loss(None, v, batch, KEY), allow_int=True)(views)
    assert np.abs(gradient.online).max() > 1e-3
    assert np.abs(gradient.sink.online).max() > 1e-3
    for frozen in (gradient.target, gradient.target_next, gradient.sink.target):
        np.testing.assert_array_equal(frozen, 0)


def test_the_frozen_second_argument_moves_half_of_what_the_online_one_does():
    """With no rewards and no future, the loss of (i, j) and of (j, i) are the same function of both arguments."""
    views, batch = replayed()
    batch = batch._replace(reward=jnp.zeros_like(batch.reward), bootstrap=jnp.float32(0))
    one, both = (
        jax.grad(lambda v, s=second: MICo(second=s).loss(None, views._replace(online=v), batch, KEY))(views.online)
        for second in ("frozen", "online")
    )
    np.testing.assert_allclose(2 * one, both, rtol=1e-4, atol=1e-6)


def test_a_sink_that_is_not_there_is_named():
    views, batch = replayed()
    mico = MICo(horizon="one-step", terminals="absorbing")
    with pytest.raises(ValueError, match="sink"):
        mico.loss(None, views._replace(sink=None), batch, KEY)


def test_arrays_of_ones_own_go_in_and_a_scalar_comes_out():
    rng = np.random.default_rng(0)
    online, target, after = rng.normal(size=(3, 6, 8)).astype(np.float32)
    sides = PairBatch(online, target, after, rng.normal(size=6).astype(np.float32), 0.99)
    loss = jax.jit(MICo())(sides, KEY)
    goal = [
        abs(float(sides.reward[i]) - float(sides.reward[j])) + 0.99 * naive_distance(after[i], after[j], 0.1)
        for i, j in np.ndindex(6, 6)
    ]
    found = [naive_distance(online[i], target[j], 0.1) for i, j in np.ndindex(6, 6)]
    errors = np.abs(np.subtract(goal, found))
    assert loss.shape == ()
    np.testing.assert_allclose(loss, np.where(errors <= 1, errors**2 / 2, errors - 0.5).mean(), rtol=1e-5)


def test_all_distances_are_those_of_single_pairs():
    x, y = jax.random.normal(KEY, (2, 5, 7))
    expected = [[distance(a, b, 0.1) for b in y] for a in x]
    np.testing.assert_allclose(distances(x, y, 0.1), expected, rtol=1e-6)


@pytest.mark.parametrize("norm", [0.1, 1.0, 1e3])
def test_the_released_formula_is_met_where_it_is_sound(norm):
    """c with 1e-9 added to the product of norms, as released: within 1e-5 of ours for |c| < .99."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 16))
    rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
    for x, y in itertools.product(rows[:8], rows):
        cosine = x @ y / (np.linalg.norm(x) * np.linalg.norm(y) + 1e-9)
        if abs(cosine) < 0.99:
            released = (x @ x + y @ y) / 2 + 0.1 * np.arctan2(np.sqrt(1 - cosine**2), cosine)
            found = distance(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), 0.1)
            np.testing.assert_allclose(found, released, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_angles_and_gradients_are_finite_at_every_size(size, dtype):
    x, y = (size * jax.random.normal(KEY, (2, 64))).astype(dtype)
    for other in (x, -x, y, jnp.zeros_like(x)):
        value, gradients = DIFFERENTIATED(x, other)
        assert np.isfinite(value)
        for gradient in gradients:
            assert gradient.dtype == dtype
            assert np.isfinite(np.asarray(gradient, dtype=float)).all()
    assert angle(x, x) < 1e-3
    if size:
        assert angle(x, -x) > np.pi - 1e-3
        assert angle(x, jnp.zeros_like(x)) == pytest.approx(np.pi / 2)


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e15])
def test_the_gradient_of_the_angle_is_the_exact_one(size):
    r"""$\nabla_x \theta = -(\hat y - c \hat x) / (\sqrt{1-c^2}\,\|x\|)$."""
    x, y = np.asarray(jax.random.normal(KEY, (2, 9)), dtype=float)
    found = jax.grad(angle)(jnp.asarray(size * x, jnp.float32), jnp.asarray(y, jnp.float32))
    unit, other = x / np.linalg.norm(x), y / np.linalg.norm(y)
    cosine = unit @ other
    exact = -(other - cosine * unit) / np.sqrt(1 - cosine**2) / (size * np.linalg.norm(x))
    np.testing.assert_allclose(np.asarray(found, dtype=float) * size, exact * size, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [4, 1024, 7744])
def test_self_angles_vanish_in_the_widths_of_the_encoders(width):
    x = jax.nn.relu(jax.random.normal(KEY, (32, width)))
    norms = (x**2).sum(axis=1)
    thetas = jnp.diag(distances(x, x, 1e4) - (norms[:, None] + norms) / 2) / 1e4
    assert np.abs(thetas).max() < 1e-3
    assert jax.vmap(angle)(x, x).max() < 1e-3


@pytest.mark.parametrize("size", SIZES)
def test_the_loss_has_finite_gradients_on_a_batch_with_every_odd_row(size):
    rows = odd_rows(size)
    for error in ("huber",) if size > 1e9 else FIELDS["error"]:
        mico = MICo(error=error)
        loss, gradient = jax.value_and_grad(lambda v, m=mico: m(PairBatch(v, v, v, jnp.arange(6.0), 0.99), KEY))(rows)
        assert np.isfinite(loss)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(("horizon", "replaced"), [("n-step", [True, False]), ("one-step", [False, True])])
def test_the_sink_follows_the_end_of_the_horizon_that_counts(horizon, replaced):
    """A next state that the sink replaced does not count."""
    views, batch = replayed(size=2)
    batch = batch._replace(terminal=jnp.asarray([True, False]))
    views = views._replace(first_step=views.first_step._replace(terminal=jnp.asarray([False, True])))
    mico = MICo(horizon=horizon, terminals="absorbing", error="squared")

    def loss(after):
        moved = views._replace(target_next=after, first_step=views.first_step._replace(target_next=after))
        return mico.loss(None, moved, batch, KEY)

    for row, idle in enumerate(replaced):
        assert (loss(views.target_next) == loss(views.target_next.at[row].add(1.0))) == idle


def test_self_pairs_bias_self_distances_low():
    """One next state used twice is not the independent coupling: its angle to itself is 0, whatever the law."""
    after = jnp.asarray([[1.0, 0.0], [0.0, 1.0]])
    same = jnp.ones((2, 2))
    sides = PairBatch(same, same, after, jnp.zeros(2), 1.0)
    within = MICo(beta=1.0, self_pairs="exclude", error="squared")(sides, KEY)
    every = MICo(beta=1.0, error="squared")(sides, KEY)
    assert within == pytest.approx((1 + np.pi / 2 - 2) ** 2, rel=1e-4)
    assert every == pytest.approx(((1 + np.pi / 2 - 2) ** 2 + (1 - 2) ** 2) / 2, rel=1e-4)
