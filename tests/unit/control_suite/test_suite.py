"""Tasks against plain environments of the suite, one new for each episode, to the last bit."""

import numpy as np
import pytest

from mico.control_suite.settings import TaskSettings
from plain_control import Naive, plain_suite

HALVES = np.float32([-1.0, -0.5, 0.0, 0.5, 1.0])  # so that scaling them is exact
OTHERS = [("point_mass", "hard"), ("quadruped", "escape"), ("swimmer", "swimmer15"), ("manipulator", "insert_peg")]


def task(domain, name, observation="state", repeat=4, size=84, camera=0, max_steps=None):
    plain_suite()
    from mico.control_suite.suite import Task

    return Task(TaskSettings(domain, name, observation, repeat, size, camera, max_steps))


def actions(number, size, seed=0):
    return np.random.default_rng(seed).choice(HALVES, size=(number, size))


def spread():
    """A task of each domain but one that is slow to load, and some that change their model with each episode."""
    firsts = {domain: (domain, name) for domain, name in reversed(plain_suite().ALL_TASKS) if domain != "dog"}
    return [*firsts.values(), *OTHERS]


def episode(task, seed, taken):
    """All that is seen and paid, as bytes."""
    task.reset(seed)
    found = [task.frame().tobytes()]
    for action in taken:
        found += [repr(task.step(action)), task.frame().tobytes()]
    return found


@pytest.mark.parametrize("domain", ["cheetah", "finger"])
def test_frames_are_those_of_the_first_camera_and_rewards_are_added_up(opengl, domain):
    name, size = {"cheetah": ("run", 6), "finger": ("spin", 2)}[domain]
    ours, naive = task(domain, name, "pixels"), Naive(domain, name, 3)
    ours.reset(3)
    np.testing.assert_array_equal(ours.frame(), naive.pixels())
    assert (ours.frame().shape, ours.frame().dtype) == ((84, 84, 3), np.uint8)
    for action in actions(5, size):
        outcome = ours.step(action)
        assert outcome == (naive.step(action), False, False)
        np.testing.assert_array_equal(ours.frame(), naive.pixels())


def test_size_and_camera_are_those_of_the_frame(opengl):
    ours, naive = task("walker", "walk", "pixels", size=20, camera=1), Naive("walker", "walk", 0)
    ours.reset(0)
    np.testing.assert_array_equal(ours.frame(), naive.pixels(20, 1))
    assert (naive.pixels(20, 0) != naive.pixels(20, 1)).any()


@pytest.mark.parametrize(("domain", "name", "size"), [("fish", "swim", 5), ("stacker", "stack_2", 5)])
def test_states_are_all_numbers_of_the_observation_in_order(domain, name, size):
    ours, naive = task(domain, name), Naive(domain, name, 5)
    ours.reset(5)
    for action in actions(3, size):
        np.testing.assert_array_equal(ours.frame(), naive.state(), strict=True)
        assert ours.step(action)[0] == naive.step(action)


def test_actions_are_scaled_to_the_bounds_of_the_task():
    yaw, lift, extend = (-1.0, 1.0), (-1.0, 1.1), (-0.8, 0.8)
    bounds = np.array([yaw, lift, extend] * 4).T
    ours, naive = task("quadruped", "walk"), Naive("quadruped", "walk", 1, bounds)
    own = naive.env.action_spec()
    np.testing.assert_array_equal([own.minimum, own.maximum], bounds)
    ours.reset(1)
    for action in actions(3, 12):
        assert ours.step(action)[0] == pytest.approx(naive.step(action), rel=1e-6)
        np.testing.assert_allclose(ours.frame(), naive.state(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours._env.physics.control(), naive.env.physics.control(), atol=1e-12)


def test_an_action_that_is_not_finite_is_taken_for_the_nearest_that_is():
    broken, sound = np.float32([np.nan, 0.5, np.inf, -np.inf, np.nan]), np.float32([0.0, 0.5, 1.0, -1.0, 0.0])
    found, expected = (episode(task("fish", "swim"), 5, [action] * 3) for action in (broken, sound))
    assert found == expected
    assert found != episode(task("fish", "swim"), 5, [np.zeros(5, np.float32)] * 3)


@pytest.mark.parametrize(("repeat", "length"), [(4, 250), (3, 334), (2, 500)])
def test_episodes_of_a_thousand_control_steps_end_with_a_time_out(repeat, length):
    ours, naive = task("cartpole", "balance", repeat=repeat), Naive("cartpole", "balance", 2, repeat=repeat)
    ours.reset(2)
    for index in range(length):
        outcome = ours.step(np.zeros(1, np.float32))
        assert outcome == (naive.step(np.zeros(1)), False, index == length - 1)
    assert naive.last.last()
    with pytest.raises(RuntimeError, match="episode is over"):
        ours.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("max_steps", [7, 260])
def test_steps_may_be_fewer_or_more_than_the_suite_has(max_steps):
    ours = task("cartpole", "balance", max_steps=max_steps)
    for seed in (0, 1):
        ours.reset(seed)
        assert [ours.step(np.zeros(1, np.float32))[2] for _ in range(max_steps)].index(True) == max_steps - 1


@pytest.mark.parametrize("max_steps", [None, 3])
def test_a_discount_of_zero_is_terminal_and_cuts_the_sum_short(monkeypatch, max_steps):
    """The one domain with an end of its own ends when all is still, which takes skill; here at the tenth step."""
    level = plain_suite().lqr.LQRLevel
    ours, naive = task("lqr", "lqr_2_1", max_steps=max_steps), Naive("lqr", "lqr_2_1", 4)
    calls = []
    monkeypatch.setattr(level, "get_termination", lambda *_: calls.append(1) or (0.0 if len(calls) == 10 else None))
    ours.reset(4)
    found = [ours.step(HALVES[3:4]) for _ in range(3)]
    calls.clear()
    assert found == [(naive.step(HALVES[3:4]), end, False) for end in (False, False, True)]


def test_tasks_without_a_limit_have_that_of_all_others():
    ours = task("lqr", "lqr_2_1")
    ours.reset(0)
    ends = [ours.step(np.zeros(1, np.float32))[1:] for _ in range(250)]
    assert ends == [(False, False)] * 249 + [(False, True)]


def assert_seeds_are_all(domain, name, observation):
    """An episode after others, with actions of their own, is that of a new environment."""
    ours, other = task(domain, name, observation), task(domain, name, observation)
    size = ours._env.action_spec().shape[0]
    before, taken = actions(2, size, seed=1), actions(2, size)
    for seed in (8, 9):
        episode(ours, seed, before)
    found = episode(ours, 7, taken)
    assert found == episode(other, 7, taken)
    assert found != episode(other, 8, taken)


def test_an_episode_depends_on_its_seed_alone():
    for domain, name in spread():
        assert_seeds_are_all(domain, name, "state")


@pytest.mark.slow
def test_episodes_of_every_task_depend_on_their_seeds_alone(opengl):
    for domain, name in plain_suite().ALL_TASKS:
        for observation in ("state", "pixels"):
            assert_seeds_are_all(domain, name, observation)


@pytest.mark.parametrize(("domain", "name"), [("quadruped", "escape"), ("reacher", "easy"), ("lqr", "lqr_2_1")])
def test_frames_of_an_episode_depend_on_its_seed_alone(opengl, domain, name):
    assert_seeds_are_all(domain, name, "pixels")


def test_looking_changes_nothing(opengl):
    often, once = task("hopper", "hop", "pixels"), task("hopper", "hop", "pixels")
    taken = actions(6, 4)
    seen = episode(often, 1, taken)[-1]
    once.reset(1)
    for action in taken:
        once.step(action)
    assert once.frame().tobytes() == seen
