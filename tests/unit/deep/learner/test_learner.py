"""Updates of DQN against NumPy in float64: what batches hold, what freezes a run, and what its log says."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from batches import GivenViews, naive_loss
from mico.deep.config.run import Schedule
from mico.deep.learner import diagnostics
from mico.deep.learner import update as updates
from mico.deep.learner.state import Params, init_params, init_state
from mico.deep.metric_losses import METRIC_LOSSES, AbstractPairLoss, KSMe, MICo
from mico.deep.replay.replay import Replay, Window
from mico.deep.types import FirstStep, Sink, Spec, Timestep
from small_runs import small_agent, small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")
STATES, STEPS, TIME = 17, 28, 24
STREAMS = {"learn": 3, "look": 4}  # of a run's randomness
LAKE = Spec((STATES,), "bool", 4)
SCHEDULE = Schedule(learning_starts=20, update_period=4, target_period=40, log_period=40)


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def experience():
    """Steps through the states, some of which end an episode."""
    rng = np.random.default_rng(0)
    frames = np.eye(STATES, dtype=bool)[rng.integers(STATES - 1, size=STEPS + 1)]
    end = rng.integers(6, size=STEPS)
    action, reward = rng.integers(4, size=STEPS, dtype=np.int32), rng.normal(size=STEPS)
    steps = Timestep(reward, frames[1:], end == 0, end == 1, observation_frame=frames[:-1], action=action)
    return jax.tree.map(jnp.asarray, steps)


@cache
def replaying(sampling, horizon):
    """A replay and its functions, compiled once for all that use them."""
    replay, window = Replay(capacity=60, batch_size=8, sampling=sampling), Window(horizon, 0.9)
    add = jax.jit(lambda memory, steps, time: replay.add(memory, steps, time, window))
    return replay, add, jax.jit(lambda memory, time, key: replay.sample(memory, time, window, key))


def extended(run, memory, start, stop):
    """With the experience from one time to another."""
    steps = jax.tree.map(lambda rows: rows[start:stop], experience())
    return replaying(run.replay.sampling, run.agent.horizon)[1](memory, steps, jnp.int32(start))


def learnt(metric=None, *, sampling="uniform", horizon=1, **fields):
    """A run that has seen something, and whose networks differ and have no bias at 0."""
    replay, _, _ = replaying(sampling, horizon)
    agent = small_agent(learning_rate=0.1, adam_epsilon=1e-3, horizon=horizon, **fields)
    run = small_run(agent, metric, replay=replay, schedule=SCHEDULE, seed=5)
    blank = init_state(run, LAKE, None, jnp.zeros(STATES, bool))
    rng = np.random.default_rng(0)
    noisy = lambda tree: jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), tree)  # noqa: E731
    losses, ids = jnp.asarray(rng.uniform(0.01, 9, size=TIME - 1)), jnp.arange(TIME - 1, dtype=jnp.int32)
    memory = replay.update_priorities(extended(run, replay.init(LAKE), 0, TIME), ids, losses)
    return run, blank._replace(params=noisy(blank.params), target=noisy(blank.target), memory=memory)


def stream(run, name, time=TIME):
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), STREAMS[name]), time)


def batch_of(run, state, time=TIME, key=None):
    """What the update draws that is due then, and the numbers of its steps."""
    key = jax.random.split(stream(run, "learn", time), 3)[0] if key is None else key
    return jax.device_get(replaying(run.replay.sampling, run.agent.horizon)[2](state.memory, jnp.int32(time), key))


def encode(params, observation):
    layer = params.encoder.layers[0]
    return np.asarray(observation, float) @ np.asarray(layer.weight).T + np.asarray(layer.bias)


def values(params, phi):
    hidden, output = params.head.hidden, params.head.output
    x = np.maximum(phi @ np.asarray(hidden.weight).T + np.asarray(hidden.bias), 0)
    return x @ np.asarray(output.weight).T + np.asarray(output.bias)


def mico_distance(x, y, beta=0.1):
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    return (x @ x + y @ y) / 2 + beta * np.arccos(np.clip(cosine, -1, 1))


def naive_td(params, target, batch):
    q, later = values(params, encode(params, batch.observation)), values(target, encode(target, batch.next_observation))
    return (batch.reward + batch.discount * later.max(axis=1) - q[np.arange(len(q)), batch.action]) ** 2


def naive_metric(run, params, target, batch):
    """MICo's loss one pair at a time, with the views that the run's readings ask for."""
    first = batch.first
    one = FirstStep(first.reward, encode(target, first.next_observation), first.terminal, run.agent.discount)
    nothing = np.zeros(STATES)
    views = GivenViews(
        online=encode(params, batch.observation),
        target=encode(target, batch.observation),
        target_next=encode(target, batch.next_observation),
        first_step=one,
        sink=Sink(encode(params, nothing), encode(target, nothing)),
    )
    return naive_loss(run.metric, mico_distance, lambda gap: gap, views, batch, None)


READINGS = {
    "one step of three": MICo(alpha=0.3, horizon="one-step"),
    "a sink": MICo(alpha=0.3, terminals="absorbing"),
}


def test_the_batches_that_are_checked_have_what_they_are_to_show():
    """Ends of both kinds, windows cut short, and weights that differ."""
    run, state = learnt(horizon=3, sampling="prioritised")
    batch, _ = batch_of(run, state)
    assert batch.terminal.any()
    assert not batch.terminal.all()
    assert (batch.first.terminal != batch.terminal).any()
    assert len(np.unique(batch.discount)) > 2
    assert np.ptp(batch.weight) > 0.1


@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_reaches_its_loss(reading):
    metric = READINGS[reading]
    run, state = learnt(metric, horizon=3)
    batch, _ = batch_of(run, state)
    expected = naive_metric(run, state.params, state.target, batch)
    _, losses = jax.jit(updates.update)(run, state, jnp.int32(TIME))
    np.testing.assert_allclose(losses.metric_loss, expected, rtol=1e-8)
    plain = replace(run, metric=MICo(alpha=metric.alpha))
    assert abs(naive_metric(plain, state.params, state.target, batch) - expected) > 1e-2


@pytest.mark.parametrize("reward", [0.0, np.nan])
def test_nothing_is_learnt_before_there_is_a_window(reward):
    """Whatever the rows hold that nothing was written to."""
    run = small_run(seed=0)
    blank = init_state(run, run.env.spec, None, jnp.zeros(STATES, bool))
    rows = jnp.full_like(blank.memory.steps.reward, reward)
    blank = eqx.tree_at(lambda state: state.memory.steps.reward, blank, rows)
    after, losses = jax.jit(updates.update)(run, blank, jnp.int32(0))
    assert not losses.applied
    assert int(after.bad_step) == -1
    for old, new in zip(
        jax.tree.leaves((blank.params, blank.optimiser)), jax.tree.leaves((after.params, after.optimiser))
    ):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", ["dbc", "dbc-mico"])
def test_priorities_follow_the_td_loss_alone_where_a_metric_loss_may_be_negative(name):
    """Models that are sure, and right: of next representations that are 0, and with deviations of about 10⁻⁴."""
    run, state = learnt(METRIC_LOSSES[name](weight=0.0, hidden=4), sampling="prioritised")
    target = state.target._replace(encoder=jax.tree.map(jnp.zeros_like, state.target.encoder))
    models = jax.tree.map(jnp.zeros_like, state.params.metric)
    sure = models.dynamics.output.bias.at[run.network.width :].set(-20.0)
    models = eqx.tree_at(lambda models: models.dynamics.output.bias, models, sure)
    state = state._replace(params=state.params._replace(metric=models), target=target)
    batch, ids = batch_of(run, state)
    after, losses = jax.jit(updates.update)(run, state, jnp.int32(TIME))
    expected = batch.weight * naive_td(state.params, target, batch)
    assert losses.applied
    assert (expected + losses.metric_loss < 0).any()
    held = np.asarray(after.memory.priorities.leaves).ravel()[ids]
    np.testing.assert_allclose(held, np.sqrt(expected + 1e-10), rtol=1e-8)


class Kinked(AbstractPairLoss):
    """0 of every pair, by way of a root whose slope there is not finite."""

    def pairwise(self, x, y):
        return jnp.sqrt(0 * x @ y.T)


def test_a_gradient_that_is_not_finite_changes_nothing_though_the_loss_is():
    run, state = learnt(Kinked(alpha=0.5))
    after, losses = jax.jit(updates.update)(run, state, jnp.int32(TIME))
    gradient = jax.grad(lambda x: Kinked().pairwise(x, x).sum())(jnp.ones((2, 3)))
    assert not np.isfinite(gradient).any()
    assert not losses.applied
    assert int(after.bad_step) == TIME
    jax.tree.map(np.testing.assert_array_equal, (after.params, after.optimiser), (state.params, state.optimiser))


@pytest.mark.parametrize("metric", [Kinked(alpha=0.0), MICo(alpha=0.0, error="squared")])
def test_with_no_weight_a_metric_loss_that_is_not_finite_changes_nothing(metric):
    """Representations of lengths about 10⁸⁰, whose fourth powers overflow; values and their gradients do not."""
    found = []
    for loss in (metric, None):
        run, state = learnt(loss, sampling="prioritised")
        far = eqx.tree_at(
            lambda params: (params.encoder, params.head.hidden.weight),
            state.params,
            (jax.tree.map(lambda x: 1e80 * x, state.params.encoder), 1e-80 * state.params.head.hidden.weight),
        )
        after, losses = jax.jit(updates.update)(run, state._replace(params=far), jnp.int32(TIME))
        assert losses.applied
        assert int(after.bad_step) == -1
        found.append((after.params, after.optimiser, after.memory.priorities, losses.loss, losses.td_loss))
        assert np.isfinite(losses.metric_loss) == (type(loss) is not MICo)
    zero, alone = (jax.tree.leaves(each) for each in found)
    for one, other in zip(zero, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("metric", "beta"), [(MICo(beta=0.7), 0.7), (KSMe(), 0.1), (None, 0.1)])
def test_what_a_look_sees_against_numpy(metric, beta):
    run, state = learnt(metric)
    key = jax.random.split(stream(run, "look"))[0]
    batch, _ = batch_of(run, state, key=key)
    phi = encode(state.params, batch.observation)
    pairs = [(x, y) for i, x in enumerate(phi) for j, y in enumerate(phi) if i != j]
    theta = np.mean([np.arccos(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1)) for x, y in pairs])
    worth = values(state.params, phi).max(axis=1)
    gaps = [abs(a - b) for i, a in enumerate(worth) for j, b in enumerate(worth) if i != j]
    distances = [x @ y if type(metric) is KSMe else mico_distance(x, y, beta) for x, y in pairs]
    sigma = np.linalg.svd(phi, compute_uv=False)
    expected = {
        "q": worth.mean(),
        "distance": np.mean(distances),
        "reduced_distance": beta * theta,
        "norm": np.sqrt((phi**2).sum(axis=1)).mean(),
        "angle": theta,
        "effective_rank": np.exp(stats.entropy(sigma[sigma > 1e-9])),
        "dead_units": np.mean([not unit.any() for unit in phi.T]),
        "agreement": stats.spearmanr(np.round(distances, 9), np.round(gaps, 9)).statistic,  # ties are ties
    }
    found = jax.jit(diagnostics.diagnose)(run, state, jnp.int32(TIME))
    assert set(found) == set(expected)
    for name, number in expected.items():
        np.testing.assert_allclose(found[name], number, rtol=1e-6, err_msg=name)


def test_parameters_follow_from_the_seed():
    runs = [small_run(seed=seed) for seed in (0, 0, 1)]
    one, same, other = (jax.tree.leaves(init_params(run, run.env.spec)) for run in runs)
    assert isinstance(init_params(runs[0], runs[0].env.spec), Params)
    for a, b, c in zip(one, same, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.ndim == 1 or np.abs(a - c).max() > 1e-2
