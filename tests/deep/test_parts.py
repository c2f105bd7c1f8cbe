"""A fleet in two parts that take turns is the same fleet."""

import json

import jax
import numpy as np
import pytest

from mico.deep.envs import environment
from mico.deep.hosted import in_turn
from mico.deep.metric_losses import MICo
from mico.deep.networks import Network
from mico.deep.parts import Parts, usual_sizes
from mico.deep.train import Manner, train
from small_runs import assert_close, small_agent, small_run
from trainings import Crash, crashing, left

pytestmark = pytest.mark.usefixtures("quick_compilation")
ATARI = environment("atari/breakout", max_steps=25)


def runs(count=3, env=ATARI):
    network = Network("mlp", width=8, hidden=8)
    agents = [small_agent(learning_rate=0.01 * (1 + seed)) for seed in range(count)]
    return [small_run(agent, MICo(0.3), seed=seed, env=env, network=network) for seed, agent in enumerate(agents)]


def test_two_parts_are_one_fleet():
    with jax.enable_x64(True):
        found = []
        for sizes in ([3], [2, 1]):
            parts = Parts(runs(), sizes)
            states, happened = parts.begin(), []
            for time, learns in ((0, False), (40, True), (80, True)):
                states, one = parts.play(states, time, 40, learns)
                states = parts.copy_targets(states)
                happened.append(jax.tree.map(np.asarray, one))
            whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *states)
            looked = parts.look(states, jax.numpy.int32(120))
            found.append((whole, happened, looked, parts.params(states), parts.bad_steps(states)))
            parts.close()
    assert_close(*found)
    assert found[0][1][1].losses.updated.shape == (10, 3)


def test_turns_are_taken_one_after_the_other():
    order = []

    def turns(name, count):
        for index in range(count):
            order.append((name, index))
            yield
        return name

    assert in_turn([turns("a", 2), turns("b", 4), turns("c", 0)]) == ["a", "b", "c"]
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 2), ("b", 3)]


def test_there_are_two_where_each_keeps_all_threads_busy():
    threads = ATARI.threads
    assert ATARI.takes_turns_from == 2 * threads
    assert usual_sizes(runs(2 * threads)) == [threads, threads]
    assert usual_sizes(runs(2 * threads + 1)) == [threads + 1, threads]
    assert usual_sizes(runs(2 * threads - 1)) == [2 * threads - 1]
    assert usual_sizes(runs(9, environment("gym/CartPole-v1"))) == [9]
    assert usual_sizes(runs(9, environment("mdp/four-rooms"))) == [9]


def test_sizes_that_do_not_add_up_are_refused(unchecked):
    for sizes in ([2], [3, 0], [2, 2]):
        with pytest.raises(ValueError, match=r"sizes must add up to 3 runs, but are \["):
            Parts(runs(), sizes)


def test_what_has_two_parts_keeps_them_wherever_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("mico.deep.train.usual_sizes", lambda runs: [2, 1])
    train(runs(), tmp_path / "whole", steps=240)
    with pytest.raises(Crash):
        train(runs(), tmp_path / "parts", steps=240, manner=Manner(checkpoint_seconds=0), report=crashing(160))
    monkeypatch.setattr("mico.deep.train.usual_sizes", lambda runs: [3])
    train(runs(), tmp_path / "parts", steps=240, resume=True)
    assert json.loads((tmp_path / "parts/fleet.json").read_bytes())["parts"] == [2, 1]
    assert left(tmp_path / "parts") == left(tmp_path / "whole")
