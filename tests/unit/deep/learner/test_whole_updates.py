"""Three updates of every agent against NumPy: every number of every parameter, losses, targets and priorities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import plain_updates as plain
from mico.deep.agents import AGENTS
from mico.deep.learner import acting, update
from mico.deep.learner.state import init_state
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.types import Timestep
from small_runs import small_agent, small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")
TIME, UPDATES = 24, 3
LEARN = 3  # the stream of an update's keys
ALPHA = 0.3
DISCRETE = NetworkConfig("mlp", width=5, hidden=4)
CONTINUOUS = NetworkConfig("mlp", width=4, latent=3, hidden=4)
READINGS = {
    "one step of three": ("dqn", MICo(alpha=ALPHA, horizon="one-step"), {}),
    "a sink": ("dqn", MICo(alpha=ALPHA, terminals="absorbing"), {}),
    "priorities of the TD loss": ("dqn", MICo(alpha=ALPHA), {"priorities": "td"}),
    "no weights": ("dqn", MICo(alpha=ALPHA), {"importance": "none"}),
    "Huber's error": ("dqn", None, {"error": "huber"}),
}
CASES = READINGS | {
    f"{name}, {'mico' if metric else 'none'}": (name, metric, {"temperature": 0.3} if name == "m-iqn" else {})
    for name in AGENTS
    for metric in (None, MICo(alpha=ALPHA))
}


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def experience(spec):
    """Steps some of which end an episode, by a terminal or a time-out."""
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(TIME + 1, *spec.shape)).astype(np.float32)
    if spec.dtype == "bool":
        frames = np.eye(*spec.shape, dtype=bool)[rng.integers(spec.shape[0] - 1, size=TIME + 1)]
    action = rng.uniform(-0.9, 0.9, size=(TIME, *spec.action_shape)).astype(np.float32)
    if spec.num_actions:
        action = rng.integers(spec.num_actions, size=TIME, dtype=np.int32)
    end = rng.integers(5, size=TIME)
    ends = end == 0, end == 1
    steps = Timestep(rng.normal(size=TIME), frames[1:], *ends, observation_frame=frames[:-1], action=action)
    return jax.tree.map(jnp.asarray, steps)


def situation(name, metric, fields):
    """A run whose networks differ and have no bias at 0, and whose replay has priorities that differ."""
    horizon = 1 if name == "sac" else 3
    agent = small_agent(name, learning_rate=0.1, adam_epsilon=1e-3, horizon=horizon, **fields)
    network = CONTINUOUS if name == "sac" else DISCRETE
    replay = Replay(capacity=60, batch_size=6, sampling="prioritised")
    run = small_run(agent, metric, replay=replay, network=network, seed=5)
    spec, rng = run.env.spec, np.random.default_rng(1)

    @jax.jit
    def begin(run):
        state = init_state(run, spec, None, jnp.zeros(spec.shape, spec.dtype))
        steps = experience(spec)
        memory = acting.add_to_replay(run, state.memory, steps, jnp.int32(0))
        ids, losses = jnp.arange(TIME, dtype=jnp.int32), jnp.where(steps.terminal, 9.0, jnp.geomspace(5.0, 0.01, TIME))
        return state._replace(memory=run.replay.update_priorities(memory, ids, losses))

    state = begin(run)
    noisy = lambda tree: jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape), tree)  # noqa: E731
    return run, state._replace(params=noisy(state.params), target=noisy(state.target))


def keys_of(run, time):
    """Of the batch, and of the agent's loss."""
    root = jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), LEARN), time)
    return jax.random.split(root, 3)[:2]


def draws_of(agent, key, count):
    """An implicit agent's fractions, or an actor's noise for next actions and its own, for each sample."""
    if agent.actions == "continuous":
        return [np.asarray(jax.random.normal(own, (count, 2))) for own in jax.random.split(key)]
    if not hasattr(agent, "num_cosines"):
        return {}
    online, target, policy = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)(jax.random.split(key, count))
    now, then = jax.vmap(jax.random.split, out_axes=1)(policy)
    counts = {
        "online": (online, agent.num_quantiles),
        "target": (target, agent.num_target_quantiles),
        "policy": (policy, agent.num_policy_quantiles),
        "policy now": (now, agent.num_policy_quantiles),
        "policy then": (then, agent.num_policy_quantiles),
    }
    return {
        name: np.asarray(jax.vmap(lambda key, many=many: jax.random.uniform(key, (many,)))(keys))
        for name, (keys, many) in counts.items()
    }


def named(params):
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf) for path, leaf in leaves}


@pytest.mark.parametrize("case", CASES)
def test_updates_against_numpy(case):
    name, metric, fields = CASES[case]
    run, state = situation(name, metric, fields)
    learner = plain.start(named(state.params), named(state.target))
    learn = jax.jit(update.update)
    sample = jax.jit(lambda memory, time, key: run.replay.sample(memory, time, run.window, key))
    exact = {"rtol": 1e-5, "atol": 1e-6} if name == "sac" else {"rtol": 1e-7, "atol": 1e-9}
    ended, spread = False, 0.0
    for _ in range(UPDATES):
        of_batch, of_agent = keys_of(run, TIME)
        batch, ids = jax.device_get(sample(state.memory, jnp.int32(TIME), of_batch))
        ended |= batch.terminal.any()
        spread = max(spread, np.ptp(batch.weight))
        before = learner
        learner, expected = plain.update(name, run.agent, metric, learner, batch, draws_of(run.agent, of_agent, 6))
        state, losses = learn(run, state, jnp.int32(TIME))
        assert losses.applied
        found = losses.loss, losses.td_loss, losses.metric_loss
        np.testing.assert_allclose(found, [expected.total, expected.td, expected.metric], **exact)
        for ours, theirs in ((state.params, learner.params), (state.target, learner.target)):
            for leaf, array in named(ours).items():
                np.testing.assert_allclose(array, theirs[leaf], **exact, err_msg=leaf)
        written = dict(zip(ids, expected.priorities, strict=True))  # of a step that was drawn twice the last one
        held = np.asarray(state.memory.priorities.leaves).ravel()[list(written)]
        np.testing.assert_allclose(held, list(written.values()), **exact)
        assert all(np.abs(learner.params[leaf] - array).max() > 1e-3 for leaf, array in before.params.items())
    assert ended
    assert spread > 0.1


def test_every_agent_has_a_port():
    assert set(plain.LOSSES) == set(AGENTS) == {name for name, _, _ in CASES.values()}
