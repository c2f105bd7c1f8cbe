"""Runs small enough to be trained whole in a test, and the loop that trains them."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import numpy as np

from mico.deep import fleet as fleets
from mico.deep.agents import AGENTS
from mico.deep.chunks import Chunks
from mico.deep.envs import environment
from mico.deep.fleet import Simulated
from mico.deep.networks import Network
from mico.deep.replay import Replay
from mico.deep.rows import added, nothing
from mico.deep.settings import Run, Schedule

_FRACTIONS = {"num_quantiles": 4, "num_target_quantiles": 3, "num_policy_quantiles": 5, "num_cosines": 4}
SMALL = {
    "dqn": {},
    "rainbow": {"num_atoms": 5, "support": 2.0},
    "qr-dqn": {"num_quantiles": 4},
    "iqn": _FRACTIONS,
    "m-iqn": _FRACTIONS,
}
PRIORITISED = ("rainbow", "qr-dqn")
NETWORK = Network("table", width=8, hidden=8)
SCHEDULE = Schedule(
    learning_starts=40, update_period=4, target_period=40, epsilon=0.1, epsilon_decay=200, log_period=40
)


def small_agent(name="dqn", **fields):
    return AGENTS[name](**({"learning_rate": 0.01, "discount": 0.9} | SMALL[name] | fields))


@cache
def lake():
    """Sixteen states, holes that end an episode, and a time-out."""
    return environment("mdp/frozen-lake", max_steps=20)


def small_run(agent="dqn", metric=None, *, seed, env=None, **parts):
    name = agent if isinstance(agent, str) else next(key for key, kind in AGENTS.items() if type(agent) is kind)
    sampling = "prioritised" if name in PRIORITISED else "uniform"
    run = Run(
        small_agent(agent) if isinstance(agent, str) else agent,
        metric,
        lake() if env is None else env,
        NETWORK,
        Replay(capacity=200, batch_size=8, sampling=sampling),
        SCHEDULE,
        seed,
    )
    return replace(run, **parts)


def trained(runs, steps, *, engine=Simulated, learns_from=None):
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
            if (time + length) % schedule.target_period == 0:
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
