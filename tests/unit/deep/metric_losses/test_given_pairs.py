"""Pairs of one's own: what horizon and terminals make of them, rewards of every type, and shapes that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batches import FIELDS, naive_loss, replayed
from mico.deep.metric_losses import KSMe, MICo, SimSR
from mico.deep.metric_losses.pair_loss import PairBatch

pytestmark = pytest.mark.usefixtures("quick_compilation", "unchecked")

KEY = jax.random.key(0)
each_way = pytest.mark.parametrize("pairs", FIELDS["pairs"])


def given(views, batch):
    """All that a loss over pairs may ask for."""
    sides = (views.online, views.target, views.target_next)
    return PairBatch(*sides, batch.reward, batch.bootstrap, batch.terminal, views.first_step, views.sink)


def squares(x, y):
    return x @ y


def expected(loss, views, batch):
    order = np.asarray(jax.random.permutation(KEY, batch.reward.size + (loss.terminals == "absorbing")))
    return naive_loss(loss, squares, lambda gap: 1 - gap / 2, views, batch, order)


@each_way
@pytest.mark.parametrize("horizon", FIELDS["horizon"])
@pytest.mark.parametrize("terminals", FIELDS["terminals"])
def test_horizon_and_terminals_against_loops(pairs, horizon, terminals):
    views, batch = replayed()
    loss = KSMe(pairs=pairs, horizon=horizon, terminals=terminals)
    np.testing.assert_allclose(loss(given(views, batch), KEY), expected(loss, views, batch), rtol=1e-4)


def test_pairs_without_a_first_step_are_taken_to_be_of_one():
    sides = given(*replayed())
    bare = sides._replace(first_step=None)
    assert SimSR()(bare, KEY) == SimSR(horizon="n-step")(sides, KEY)
    assert SimSR()(bare, KEY) != pytest.approx(SimSR()(sides, KEY))


@pytest.mark.parametrize("missing", ["terminal", "sink"])
def test_a_part_that_is_not_there_is_named(missing):
    with pytest.raises(ValueError, match=missing):
        MICo(terminals="absorbing")(given(*replayed())._replace(**{missing: None}), KEY)


@each_way
@pytest.mark.parametrize("terminals", FIELDS["terminals"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bool", "float16"])
def test_rewards_of_every_type_are_the_numbers_that_they_show(dtype, terminals, pairs):
    views, batch = replayed()
    least, most = {"uint8": (0, 255), "int8": (-128, 127), "bool": (0, 1)}.get(dtype, (-300, 300))
    shown = np.asarray([least, most, 1, most, least]).astype(dtype)
    loss = KSMe(pairs=pairs, terminals=terminals)
    naive = expected(loss, views, batch._replace(reward=shown.astype(float)))
    for reward in (shown, jnp.asarray(shown), shown.tolist(), tuple(shown.tolist())):
        np.testing.assert_allclose(loss(given(views, batch)._replace(reward=reward), KEY), naive, rtol=1e-4)


OTHERWISE = {
    "online": lambda rows: rows[0],
    "target": lambda rows: rows[:1],
    "target_next": lambda rows: rows[:1],
    "reward": lambda numbers: numbers[:, None],
    "bootstrap": lambda number: jnp.full(5, number),
    "terminal": lambda ends: ends[:, None],
}


@each_way
@pytest.mark.parametrize("name", OTHERWISE)
def test_a_shape_that_does_not_fit_is_named(name, pairs):
    sides = given(*replayed())
    wrong = OTHERWISE[name](getattr(sides, name))
    shape = ", ".join(map(str, wrong.shape))
    with pytest.raises(ValueError, match=rf"^{name} .*\[{shape}\]"):
        MICo(pairs=pairs, terminals="absorbing")(sides._replace(**{name: wrong}), KEY)


@each_way
def test_what_a_reading_does_not_use_is_not_looked_at(pairs):
    """As where `dones` are floats, and terminals bootstrap."""
    sides = given(*replayed())
    loss = MICo(pairs=pairs)
    for part in ({"terminal": jnp.ones(5)}, {"sink": (jnp.ones(3), jnp.ones(3))}, {"terminal": None, "sink": None}):
        assert loss(sides._replace(**part), KEY) == loss(sides, KEY)


@pytest.mark.parametrize("reward", [1.0, np.ones(1), np.ones(4), np.ones((5, 5)), [1.0]])
def test_rewards_are_one_a_row(reward):
    with pytest.raises(ValueError, match=r"^reward has shape .*\[5\]"):
        jax.jit(MICo())(given(*replayed())._replace(reward=np.asarray(reward)), KEY)


def test_the_first_step_and_the_sink_may_be_plain_tuples():
    loss, sides = KSMe(horizon="one-step", terminals="absorbing"), given(*replayed())
    plain = sides._replace(first_step=tuple(sides.first_step), sink=tuple(sides.sink))
    assert loss(plain, KEY) == loss(sides, KEY)


def test_the_first_step_and_the_sink_are_looked_at_too():
    sides = given(*replayed())
    late = sides._replace(first_step=sides.first_step._replace(reward=jnp.ones((5, 1))))
    with pytest.raises(ValueError, match=r"reward.*\[5, 1\]"):
        SimSR()(late, KEY)
    with pytest.raises(ValueError, match=r"sink\.target.*\[1, 4\]"):
        MICo(terminals="absorbing")(sides._replace(sink=sides.sink._replace(target=jnp.ones((1, 4)))), KEY)
    with pytest.raises(ValueError, match=r"terminal.*float32"):
        MICo(terminals="absorbing")(sides._replace(terminal=jnp.ones(5)), KEY)
