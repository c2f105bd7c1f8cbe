"""A fleet in two parts side by side is the same fleet."""

import json
import os
import shutil
import signal
import threading
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

from mico.deep import load
from mico.deep.envs import Atari, environment
from mico.deep.fleet.shards import ShardedFleet, default_shard_sizes, run_threads, split_evenly
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.training.train import Manner, train
from small_runs import SCHEDULE, assert_close, small_agent, small_run
from trainings import Crash, crashing, left

pytestmark = pytest.mark.usefixtures("quick_compilation")
ATARI = environment("atari/breakout", max_steps=25)
ROOMS = environment("mdp/four-rooms", max_steps=25)


def runs(count=3, env=ATARI, **schedule):
    network = NetworkConfig("mlp", width=8, hidden=8)
    agents = [small_agent(learning_rate=0.01 * (1 + seed)) for seed in range(count)]
    parts = {"env": env, "network": network, "schedule": replace(SCHEDULE, **schedule)}
    return [small_run(agent, MICo(0.3), seed=seed, **parts) for seed, agent in enumerate(agents)]


OUTSIDE = [(ATARI, "after-learning"), (ATARI, "while-learning")]


@pytest.mark.parametrize(("env", "acting"), [*OUTSIDE, (ROOMS, "after-learning")])
def test_two_parts_are_one_fleet(env, acting):
    with jax.enable_x64(True):
        found = []
        for sizes in ([3], [2, 1]):
            parts = ShardedFleet(runs(env=env, acting=acting), sizes)
            states, happened = parts.begin(), []
            for time, learns in ((0, False), (40, True), (80, True)):
                states, one = parts.play(states, time, 40, learns)
                states = parts.copy_targets(states)
                happened.append(jax.tree.map(np.asarray, one))
            whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *states)
            looked = parts.diagnose(states, jax.numpy.int32(120))
            found.append((whole, happened, looked, parts.params(states), parts.bad_steps(states)))
            parts.close()
    assert_close(*found)
    assert found[0][1][1].losses.applied.shape == (10, 3)


def test_jobs_wait_for_each_other_in_threads_of_their_own():
    meeting = threading.Barrier(3, timeout=30)
    assert run_threads([lambda stopped, index=index: (meeting.wait(), index)[1] for index in range(3)], 3) == [0, 1, 2]


def test_no_more_jobs_are_under_way_at_once_than_there_may_be():
    pairs, active, most = threading.Barrier(2, timeout=30), [], []

    def job(stopped):
        active.append(None)
        pairs.wait()  # so that two are under way
        most.append(len(active))
        pairs.wait()
        active.pop()

    run_threads([job] * 6, 2)
    assert most == [2] * 6


def until_stopped(stopped):
    start = time.monotonic()
    while not stopped():
        if time.monotonic() - start > 30:
            raise TimeoutError
        time.sleep(0.001)
    raise InterruptedError


def test_if_a_job_fails_the_others_stop_and_its_error_is_told():
    def fails(stopped):
        raise OSError("the emulator is gone")

    for jobs in ([fails, until_stopped], [until_stopped, fails]):
        with pytest.raises(OSError, match="the emulator is gone"):
            run_threads(jobs, 2)


def test_if_the_wait_is_interrupted_all_jobs_stop():
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        run_threads([until_stopped, until_stopped], 2)


def interrupt(number, frame):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("threads", "least"), [(2, 8), (16, 8), (40, 20)])
def test_there_are_two_where_that_pays(threads, least, monkeypatch):
    monkeypatch.setattr(Atari, "threads", threads)
    assert default_shard_sizes(runs(least - 1)) == [least - 1]
    assert default_shard_sizes(runs(least)) == [least // 2, least // 2]


def test_parts_are_even_and_of_environments_outside_jax_only_of_games(monkeypatch):
    monkeypatch.setattr(Atari, "threads", 2)
    assert default_shard_sizes(runs(9)) == [5, 4]
    assert default_shard_sizes(runs(9, environment("gym/CartPole-v1"))) == [9]


def test_inside_jax_every_run_is_a_part_on_a_cpu_and_all_are_one_elsewhere(monkeypatch):
    inside = runs(3, ROOMS)
    assert default_shard_sizes(inside) == [1, 1, 1]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert default_shard_sizes(inside) == [3]


@pytest.mark.parametrize(("given", "most"), [("3", 3), ("1", 1), ("0", None), ("", None), ("all", None)])
def test_as_many_are_computed_at_once_as_xla_has_threads(monkeypatch, given, most):
    """NPROC says how many; what XLA cannot read counts for nothing."""
    together = []
    monkeypatch.setenv("NPROC", given)
    monkeypatch.setattr(
        "mico.deep.fleet.shards.run_threads", lambda jobs, at_once: together.append(at_once) or [None] * len(jobs)
    )
    ShardedFleet(runs(2, ROOMS), [1, 1]).restore([{}, {}])
    assert together == [most or len(os.sched_getaffinity(0))]


def test_sizes_are_even():
    assert [split_evenly(9, parts) for parts in (1, 2, 4)] == [[9], [5, 4], [3, 2, 2, 2]]


def test_sizes_that_do_not_add_up_are_refused(unchecked):
    for sizes in ([2], [3, 0], [2, 2]):
        with pytest.raises(ValueError, match=r"sizes must add up to 3 runs, but are \["):
            ShardedFleet(runs(), sizes)


def test_inside_jax_on_a_cpu_runs_of_a_fleet_are_single_runs_to_the_last_bit(tmp_path):
    train(runs(3, ROOMS), tmp_path / "fleet", steps=2_000)
    for run in runs(3, ROOMS):
        train([run], tmp_path / "alone", steps=2_000)
        (name,) = (path.name for path in (tmp_path / "alone").iterdir() if (path / "log.jsonl").exists())
        (same,) = (tmp_path / "fleet").glob(f"*seed{run.seed}")
        assert (tmp_path / "alone" / name / "log.jsonl").read_bytes() == (same / "log.jsonl").read_bytes()
        jax.tree.map(np.testing.assert_array_equal, load(tmp_path / "alone" / name).params, load(same).params)
        shutil.rmtree(tmp_path / "alone")


@pytest.mark.parametrize("acting", ["after-learning", "while-learning"])
def test_what_has_two_parts_keeps_them_wherever_it_goes_on(acting, tmp_path, monkeypatch):
    monkeypatch.setattr("mico.deep.training.train.default_shard_sizes", lambda runs: [2, 1])
    train(runs(acting=acting), tmp_path / "whole", steps=240)
    with pytest.raises(Crash):
        train(
            runs(acting=acting),
            tmp_path / "parts",
            steps=240,
            manner=Manner(checkpoint_seconds=0),
            report=crashing(160),
        )
    monkeypatch.setattr("mico.deep.training.train.default_shard_sizes", lambda runs: [3])
    train(runs(acting=acting), tmp_path / "parts", steps=240, resume=True)
    assert json.loads((tmp_path / "parts/fleet.json").read_bytes())["parts"] == [2, 1]
    assert left(tmp_path / "parts") == left(tmp_path / "whole")


def test_what_has_one_part_keeps_it_on_a_smaller_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("mico.deep.training.train.default_shard_sizes", lambda runs: [3])
    train(runs(), tmp_path / "parts", steps=80)
    monkeypatch.setattr("mico.deep.training.train.default_shard_sizes", lambda runs: [2, 1])
    train(runs(), tmp_path / "parts", steps=160, resume=True)
    assert "parts" not in json.loads((tmp_path / "parts/fleet.json").read_bytes())
    assert load(sorted(tmp_path.glob("parts/*seed0"))[0]).step == 160
