"""Runs small enough to be trained whole in a test, and the loop that trains them."""

from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mico.deep.agents import AGENTS
from mico.deep.config.run import Run, Schedule
from mico.deep.envs import environment
from mico.deep.fleet import jax_engine as fleets
from mico.deep.fleet.jax_engine import JaxEngine
from mico.deep.learner.state import init_params
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.training.chunking import Chunks
from mico.deep.training.metrics import added, nothing
from mico.deep.types import Batch, FirstTransition
from point_mass import PointMass

_FRACTIONS = {"num_quantiles": 4, "num_target_quantiles": 3, "num_policy_quantiles": 5, "num_cosines": 4}
SMALL = {
    "dqn": {},
    "rainbow": {"num_atoms": 5, "support": 2.0},
    "qr-dqn": {"num_quantiles": 4},
    "iqn": _FRACTIONS,
    "m-iqn": _FRACTIONS,
    "sac": {"target_rate": 0.2},
}
PRIORITISED = ("rainbow", "qr-dqn")
NETWORK = NetworkConfig("table", width=8, hidden=8)
SCHEDULE = Schedule(
    learning_starts=40, update_period=4, target_period=40, epsilon=0.1, epsilon_decay=200, log_period=40
)
CONTINUOUS = {
    "env": PointMass(),
    "network": NetworkConfig("mlp", width=8, latent=5, hidden=8),
    "schedule": replace(SCHEDULE, target_period=None, epsilon=0.0, epsilon_decay=0),
}


def small_agent(name="dqn", **fields):
    return AGENTS[name](**({"learning_rate": 0.01, "discount": 0.9} | SMALL[name] | fields))


@cache
def lake():
    """Sixteen states, holes that end an episode, and a time-out."""
    return environment("mdp/frozen-lake", max_steps=20)


def small_run(agent="dqn", metric=None, *, seed, **parts):
    """On the lake, or on the point mass if the agent's actions are vectors."""
    name = agent if isinstance(agent, str) else next(key for key, kind in AGENTS.items() if type(agent) is kind)
    agent = small_agent(agent) if isinstance(agent, str) else agent
    usual = {
        "env": lake(),
        "network": NETWORK,
        "replay": Replay(capacity=200, batch_size=8, sampling="prioritised" if name in PRIORITISED else "uniform"),
        "schedule": SCHEDULE,
    }
    others = CONTINUOUS if agent.actions == "continuous" else {}
    return Run(agent, metric, **(usual | others | parts), seed=seed)


@partial(jax.jit, static_argnums=1)
def _fresh(run, spec):
    return init_params(run, spec)


def two_networks(run):
    """Parameters, and those of another seed for the target network."""
    return tuple(_fresh(replace(run, seed=run.seed + more), run.env.spec) for more in (0, 1))


def small_batch(spec, count=4):
    """Windows of one step, the last of which is terminal."""
    rng = np.random.default_rng(2)
    frames = rng.normal(size=(2, count, *spec.shape)).astype(np.float32)
    if spec.dtype == "bool":
        frames = np.eye(*spec.shape, dtype=bool)[rng.integers(*spec.shape, size=(2, count))]
    action = rng.uniform(-1, 1, size=(count, *spec.action_shape)).astype(np.float32)
    if spec.num_actions:
        action = np.arange(count, dtype=np.int32) % spec.num_actions
    terminal = np.arange(count) == count - 1
    reward = rng.normal(size=count)
    found = Batch(
        frames[0],
        action,
        reward,
        frames[1],
        terminal,
        np.where(terminal, 0.0, 0.9),
        np.array(0.9),
        np.ones(count),
        FirstTransition(reward, frames[1], terminal),
    )
    return jax.tree.map(jnp.asarray, found)


def trained(runs, steps, *, engine=JaxEngine, learns_from=None):
    """The state after so many steps of each run, and the sums of each chunk."""
    fleet = fleets.stack(runs)
    schedule, length = fleet.schedule, Chunks(fleet.schedule).lengths[-1]
    starts = schedule.learning_starts if learns_from is None else learns_from
    engine = engine(runs, fleet)
    state, tallies = engine.begin(), []
    try:
        for time in range(0, steps, length):
            state, happened = engine.play(state, time, length, time >= starts)
            tallies.append(tally(happened))
            if fleet.target_rule.copies_at(time + length):
                state = fleets.copy_targets(state)
    finally:
        engine.close()
    return jax.device_get(state), jax.tree.map(lambda *rows: np.stack(rows), *tallies)


class Tally(NamedTuple):
    """Sums over the episodes that ended and the updates that were made in a chunk, for each run."""

    episodes: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    least: np.ndarray
    most: np.ndarray
    updates: np.ndarray
    loss: np.ndarray
    td_loss: np.ndarray
    metric_loss: np.ndarray


def tally(happened):
    return Tally(**added(nothing(happened.ended.ended.shape[1]), happened))


def of_run(fleet, index):
    """One run's part of what has a leading axis over runs."""
    return jax.tree.map(lambda rows: rows[index], fleet)


def by_run(tallies):
    """With the axis over runs first, that over chunks last."""
    return jax.tree.map(np.transpose, tallies)


def assert_close(one, other, rtol=1e-9):
    """Numbers within a tolerance; counts, actions and frames to the bit."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if np.asarray(a).dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(a, b)
