"""Gymnasium environments against a plain loop."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mico.deep.envs import Gym
from mico.deep.types import Spec

EVERY = np.ones(2, dtype=bool)


class Shifted(gymnasium.Env):
    """Bytes to see, actions that count from 3, and an end that is terminal and truncated at once."""

    observation_space = Box(0, 255, (4, 4, 1), np.uint8)
    action_space = Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        return np.full((4, 4, 1), seed % 256, np.uint8), {}

    def step(self, action):
        return np.full((4, 4, 1), action, np.uint8), float(action), action == 4, action == 4, {}


class Doubles(Shifted):
    observation_space = Box(-1, 1, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        return np.array([0.1, 0.2]), {}


class Unseeable(Shifted):
    observation_space = gymnasium.spaces.Tuple([Discrete(2)])


class Endless(Shifted):
    action_space = Box(-np.inf, 1, (2,))


class Gridded(Shifted):
    action_space = Box(-1, 1, (2, 3))


class Lopsided(Shifted):
    """Shows the action that it was given."""

    observation_space = Box(-9, 9, (2,), np.float32)
    action_space = Box(np.float32([-1, 2]), np.float32([3, 2.5]))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return action, 0.0, False, False, {}


@pytest.fixture(autouse=True)
def registered():
    made = {"Shifted-v0": Shifted, "Doubles-v0": Doubles, "Unseeable-v0": Unseeable}
    made |= {"Endless-v0": Endless, "Gridded-v0": Gridded, "Lopsided-v0": Lopsided}
    for name, cls in made.items():
        gymnasium.register(name, cls)
    yield
    for name in made:
        del gymnasium.registry[name]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1", "Acrobot-v1"])
def test_steps_as_a_plain_loop_does(env_id):
    env = Gym(env_id, max_steps=12)
    envs, seeds = env.make(2), np.array([5, 8])
    plain = [gymnasium.make(env_id, max_episode_steps=12) for _ in seeds]

    def shown(observation):
        return np.eye(16)[observation] if env_id == "FrozenLake-v1" else np.float32(observation)

    frames = envs.reset(EVERY, seeds)
    np.testing.assert_array_equal(frames, [shown(one.reset(seed=int(s))[0]) for one, s in zip(plain, seeds)])
    ends = 0
    for time, actions in enumerate(np.random.default_rng(0).integers(env.spec.num_actions, size=(40, 2))):
        found = envs.step(actions)
        expected = [one.step(action) for one, action in zip(plain, actions, strict=True)]
        np.testing.assert_array_equal(found.next_frame, [shown(step[0]) for step in expected])
        np.testing.assert_array_equal(found.reward, np.float32([step[1] for step in expected]))
        np.testing.assert_array_equal(found.terminal, [step[2] for step in expected])
        np.testing.assert_array_equal(found.truncated, [step[3] and not step[2] for step in expected])
        over = found.ended
        if over.any():
            ends += 1
            fresh = envs.reset(over, seeds + time)
            for index in np.flatnonzero(over):
                first = plain[index].reset(seed=int(seeds[index] + time))[0]
                np.testing.assert_array_equal(fresh[index], shown(first))
    assert ends > 2
    envs.close()


def test_numbers_of_an_action_stand_for_the_bounds_of_each():
    env = Gym("Lopsided-v0")
    assert env.spec == Spec((2,), "float32", 0, 2)
    envs = env.make(2)
    envs.reset(EVERY, np.array([0, 1]))
    found = envs.step(np.float32([[-1, -1], [1, 1]])).next_frame
    np.testing.assert_array_equal(found, [[-1, 2], [3, 2.5]])
    found = envs.step(np.float32([[0, 0], [-0.5, 0.5]])).next_frame
    np.testing.assert_array_equal(found, [[1, 2.25], [0, 2.375]])
    found = envs.step(
        np.float32([[1 + 1e-6, 0], [-7, 7]])
    ).next_frame  # what rounding may leave, and what nobody may ask
    np.testing.assert_array_equal(found, [[3, 2.25], [-1, 2.5]])


def test_a_pendulum_as_a_plain_loop_does():
    """Its torques reach from −2 to 2."""
    envs, plain = Gym("Pendulum-v1", max_steps=30).make(1), gymnasium.make("Pendulum-v1", max_episode_steps=30)
    np.testing.assert_array_equal(envs.reset(EVERY[:1], np.array([5]))[0], plain.reset(seed=5)[0])
    for action in np.random.default_rng(0).uniform(-1, 1, size=(30, 1)).astype(np.float32):
        found = envs.step(action[None])
        frame, reward, _, timeout, _ = plain.step(2 * action)
        np.testing.assert_allclose(found.next_frame[0], frame, rtol=1e-6)
        np.testing.assert_allclose(found.reward[0], reward, rtol=1e-6)
        assert (found.terminal[0], found.truncated[0]) == (False, timeout)
    assert found.truncated[0]


def test_the_registered_limit_holds_unless_told_otherwise():
    def length(**fields):
        envs = Gym("MountainCar-v0", **fields).make(1)
        envs.reset(EVERY[:1], np.array([0]))
        for step in range(1, 1_000):
            result = envs.step(np.array([1]))
            if result.truncated[0]:
                return step
        return None

    assert length() == 200
    assert length(max_steps=7) == 7
    assert length(max_steps=300) == 300


def test_spec_says_what_is_shown():
    assert Gym("CartPole-v1").spec == Spec((4,), "float32", 2)
    assert Gym("FrozenLake-v1").spec == Spec((16,), "bool", 4)
    assert Gym("Shifted-v0").spec == Spec((4, 4, 1), "uint8", 2)
    assert Gym("Doubles-v0").spec == Spec((2,), "float32", 2)


def test_actions_may_count_from_another_number_and_a_terminal_wins():
    envs = Gym("Shifted-v0").make(2)
    frames = envs.reset(EVERY, np.array([7, 8]))
    assert (frames.dtype, frames[:, 0, 0, 0].tolist()) == (np.uint8, [7, 8])
    step = envs.step(np.array([0, 1]))
    assert step.next_frame[:, 0, 0, 0].tolist() == step.reward.tolist() == [3, 4]
    assert step.terminal.tolist() == [False, True]
    assert step.truncated.tolist() == [False, False]


def test_close_closes_every_environment(monkeypatch):
    closed = []
    envs = Gym("Shifted-v0").make(2)
    monkeypatch.setattr(Shifted, "close", lambda env: closed.append(env))
    envs.close()
    assert len(closed) == 2


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("CartPol-v1", "'CartPol-v1' is no Gymnasium environment: did you mean CartPole-v1"),
        ("CartPole-v9", "did you mean CartPole-v1"),
        ("", "'' cannot be made"),
        ("no_such_module:CartPole-v1", "would import the module 'no_such_module', .*: --import no_such_module"),
        ("Endless-v0", "'Endless-v0' needs actions that are discrete or bounded vectors, but has Box"),
        ("Gridded-v0", r"needs actions that are discrete or bounded vectors, but has Box.*\(2, 3\)"),
        ("Unseeable-v0", "'Unseeable-v0' needs observations of Box or Discrete, but has Tuple"),
    ],
)
def test_what_cannot_be_played_is_refused(env_id, message):
    with pytest.raises(ValueError, match=message):
        Gym(env_id)
