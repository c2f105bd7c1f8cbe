"""An update of a fleet, and a look at it, are those of each of its runs, be it side by side or in turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.envs import AbstractHostEnv
from mico.deep.fleet import jax_engine as fleets
from mico.deep.fleet.batching import diagnose_fleet, update_fleet, updates_sequentially
from mico.deep.learner import acting, diagnostics
from mico.deep.learner import update as updates
from mico.deep.learner.state import init_state
from mico.deep.metric_losses import METRIC_LOSSES, MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.types import Spec, Timestep
from small_runs import assert_close, small_agent, small_run

TIME = 40
CONVOLUTIONS = 4 * 3 + 4 + 3  # of x, and of x' by either network; backwards to all weights, and to inputs but the first
LOOKS = 4 * 3  # convolutions for φ, values and entropy
ALONE = "batch_group_count = 1 : i64, feature_group_count = 1 :"  # a convolution by the weights of one network
pytestmark = pytest.mark.usefixtures("quick_compilation")


class Pictures(AbstractHostEnv):
    """Of which only the spec is asked for."""

    @property
    def name(self):
        return "pictures"

    @property
    def spec(self):
        return Spec((7, 6, 2), "uint8", 0, action_size=2)

    def settings(self):
        return {}

    def make(self, num_envs):
        raise NotImplementedError


def situation(metric, sampling):
    """Three runs, each with a replay of its own."""
    network = NetworkConfig("control", latent=5, hidden=8)
    replay = Replay(capacity=100, batch_size=8, stack=2, sampling=sampling)
    runs = [
        small_run(small_agent("sac", learning_rate=0.01 * (1 + seed)), metric, seed=seed, env=Pictures(),
                  network=network, replay=replay)
        for seed in range(3)
    ]  # fmt: skip
    return runs, [state_of(run) for run in runs]


@jax.jit
def filled(run, frame, steps):
    state = init_state(run, run.env.spec, None, frame)
    return state._replace(memory=acting.add_to_replay(run, state.memory, steps, jnp.int32(0)))


def state_of(run):
    rng, spec = np.random.default_rng(run.seed), run.env.spec
    frames = jnp.asarray(rng.integers(0, 256, (41, *spec.shape)), "uint8")
    action, reward = jnp.asarray(rng.uniform(-1, 1, (40, 2))), jnp.asarray(rng.normal(size=40))
    end = np.arange(40) % 7
    ends = jnp.asarray(end == 0), jnp.asarray(end == 3)
    steps = Timestep(reward, frames[1:], *ends, observation_frame=frames[:-1], action=action)
    return filled(jax.tree.map(jnp.asarray, run), frames[0], steps)


CASES = {
    "none": ("cpu", None, "prioritised"),
    "mico": ("gpu", MICo(0.3, second="frozen"), "uniform"),
    "dbc": ("gpu", METRIC_LOSSES["dbc"](), "prioritised"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_of_a_fleet_is_that_of_each_run(case, monkeypatch):
    """In turn: one after the other, or in a loop, as for a GPU."""
    device, *setting = CASES[case]
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    with jax.enable_x64(True):
        runs, states = situation(*setting)
        fleet, state = fleets.stack(runs), jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        assert updates_sequentially(runs[0])
        turns = jax.jit(lambda *args: update_fleet(*args)).lower(fleet, state, jnp.int32(TIME))
        written = turns.as_text().count("stablehlo.convolution")
        assert written == CONVOLUTIONS * (len(runs) if device == "cpu" else 1)
        found = turns.compile()(fleet, state, jnp.int32(TIME))
        monkeypatch.setattr(NetworkConfig, "fills_device", lambda self, shape: False)
        together = jax.jit(lambda *args: update_fleet(*args))(fleet, state, jnp.int32(TIME))
        update = jax.jit(lambda *args: updates.update(*args))
        alone = [update(*jax.tree.map(jnp.asarray, pair), jnp.int32(TIME)) for pair in zip(runs, states)]
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *alone)
    assert_close(found, expected)
    assert_close(together, expected)
    assert np.asarray(found[1].applied).all()
    for before, after in zip(jax.tree.leaves(state.params.encoder), jax.tree.leaves(found[0].params.encoder)):
        assert (np.asarray(before) != np.asarray(after)).any(axis=tuple(range(1, before.ndim))).all()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_look_at_a_fleet_is_that_at_each_run(device, monkeypatch):
    """Alone, and with convolutions as slices and products."""
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    with jax.enable_x64(True):
        runs, states = situation(METRIC_LOSSES["dbc"](), "uniform")
        fleet, state = fleets.stack(runs), jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        turns = jax.jit(lambda *args: diagnose_fleet(*args)).lower(fleet, state, jnp.int32(TIME))
        written = turns.as_text().count(ALONE)
        assert written == LOOKS * (len(runs) if device == "cpu" else 1)
        found = turns.compile()(fleet, state, jnp.int32(TIME))
        monkeypatch.setattr(NetworkConfig, "fills_device", lambda self, shape: False)
        look = jax.jit(lambda *args: diagnostics.diagnose(*args))
        alone = [look(*jax.tree.map(jnp.asarray, pair), jnp.int32(TIME)) for pair in zip(runs, states)]
    assert_close(found, jax.tree.map(lambda *numbers: np.stack(numbers), *alone))
    assert len(np.unique(found["q"])) == len(runs)


def test_only_pictures_of_control_are_learnt_from_in_turn():
    assert NetworkConfig("control").fills_device((84, 84, 3))
    assert not NetworkConfig("control").fills_device((4,))
    assert not NetworkConfig("nature").fills_device((84, 84))
