"""SAC on tasks of the control suite, small: training, crashes, deaths of processes, watching; and that it learns."""

import os
import re
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest

from mico import cli
from mico.control_suite.workers import Workers
from mico.deep import load
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Run
from mico.deep.envs import environment
from mico.deep.fleet.shards import default_shard_sizes
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.training.train import Manner, train
from mico.runs.folder import read_runs
from trainings import Crash, crashing, left, reference

STEPS = 40


def fleet(**fields):
    """Two runs that see pictures of 12×12, three at a time, and learn at every step from the twentieth on."""
    preset = PRESETS["control"]["sac"]
    env = environment("control/cartpole-balance", size=12, max_steps=9, **fields)
    return [
        Run(
            preset.agent,
            MICo(alpha=0.1, second="frozen"),
            env,
            replace(preset.network, latent=6, hidden=8, width=8),
            replace(preset.replay, capacity=100, batch_size=8),
            replace(preset.schedule, learning_starts=20, log_period=10),
            seed,
        )
        for seed in (0, 1)
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, opengl, quick_compilation):
    """An undisturbed training, and what it left."""
    out = tmp_path_factory.mktemp("whole")
    return out, reference(fleet(), out, STEPS)


def test_pictures_come_in_two_parts_and_states_in_one():
    assert default_shard_sizes(fleet()) == [1, 1]
    assert default_shard_sizes(fleet(observation="state")) == [2]


def test_crashes_and_dead_processes_leave_no_trace(tmp_path, whole, monkeypatch):
    """A checkpoint in the middle of episodes; then an environment's process is killed while it goes on."""
    with pytest.raises(Crash):
        train(fleet(), tmp_path, steps=STEPS, manner=Manner(checkpoint_seconds=0.0), report=crashing(30))
    send, killed = Workers.send, []

    def deadly(self, actions):
        send(self, actions)
        if len(killed) < 2:
            os.kill(self.pids[0], signal.SIGKILL)
            killed.append(self.pids[0])

    monkeypatch.setattr(Workers, "send", deadly)
    with pytest.warns(RuntimeWarning, match=r"\(cartpole-balance, process \d+\) was killed by signal 9") as told:
        train(fleet(), tmp_path, steps=STEPS, resume=True)
    assert len(killed) == 2
    assert all(re.search(r"the environment of seed [01] ", str(one.message)) for one in told)
    assert left(tmp_path) == whole[1]


def test_a_log_has_returns_losses_and_what_the_actor_is_like(whole):
    log = read_runs(whole[0]).pivot_table(index=["seed", "step"], columns="name", values="value")
    assert (log["length"] == 9).all()
    assert (log["return"] > 0).all()
    learnt = log.xs(STEPS, level="step")
    assert np.isfinite(learnt[["loss", "td_loss", "metric_loss", "q", "entropy", "temperature", "norm"]]).all(axis=None)
    assert (learnt["norm"] < 6**0.5).all()  # six numbers below 1
    assert (learnt["temperature"] != 1).all()


def test_a_trained_run_can_be_loaded_evaluated_and_watched(whole, tmp_path, capsys):
    folder = whole[0] / "sac-mico-seed0"
    run = load(folder)
    seen = np.random.default_rng(0).integers(0, 256, (5, 12, 12, 9), dtype=np.uint8)
    assert run.act(seen[0]).shape == (1,)
    assert run.act(seen).shape == (5, 1)
    assert np.abs(run.act(seen)).max() <= 1
    assert run.represent(seen).shape == (5, 6)
    assert run.distance(seen, seen).shape == (5, 5)
    with pytest.raises(ValueError, match="predict needs an agent with a value for each action"):
        run.predict(seen)
    cli.main(["evaluate", str(folder), "--episodes", "2"])
    assert "sac-mico-seed0" in capsys.readouterr().out
    cli.main(["watch", str(folder), "--out", str(tmp_path / "x.gif"), "--steps", "12", "--memory", "20"])
    assert (tmp_path / "x.gif").stat().st_size > 10_000


@pytest.mark.slow
def test_it_learns_to_swing_up_from_states(tmp_path):
    """A random policy's return is below 200 of 1,000; the mean of the last episodes is that of a pole held up."""
    preset = PRESETS["vector"]["sac"]
    env = environment("control/cartpole-swingup", observation="state")
    parts = preset.agent, None, env, preset.network, preset.replay, preset.schedule
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train([Run(*parts, seed) for seed in range(3)], tmp_path, steps=10_000)
    returns = read_runs(tmp_path).query("name == 'return'").pivot_table(index="step", columns="seed", values="value")
    assert (returns.iloc[0] < 200).all()
    assert (returns.iloc[-1] > 500).all()


def test_states_are_seen_by_layers_of_the_networks_width():
    assert NetworkConfig("control", width=7).sizes((5,)).phi == 7
    assert NetworkConfig("control", width=7, latent=3).sizes((5,)) == (7, 3)
