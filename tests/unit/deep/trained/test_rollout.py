"""Episodes with all that there is to see, against `evaluate`, the run's own answers and plain loops."""

import gymnasium
import jax
import numpy as np
import pytest

from mico.deep import Trained
from mico.deep.envs import environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.learner.state import init_params
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.trained.evaluate import evaluate
from mico.deep.trained.rollout import play, return_so_far, unique_observations
from small_runs import small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

BREAKOUT = environment("minatar/breakout")
IMAGES = NetworkConfig("minatar", hidden=8)


def untrained(seed=0, **parts):
    run = small_run(seed=seed, **parts)
    return Trained(run, 0, init_params(run, run.env.spec))


def breakout(stack=1, **parts):
    return untrained(env=BREAKOUT, network=IMAGES, replay=Replay(capacity=200, batch_size=8, stack=stack), **parts)


def coins():
    """Each step pays 1 by one of two actions: a return counts the random actions."""
    return untrained(env=environment("mdp/action-reward", max_steps=700))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_episode_is_that_of_evaluate(seed):
    run = coins()
    seen = play(run, steps=1000, episodes=1, seed=seed, epsilon=0.7)
    assert len(seen.reward) == 700
    assert 100 < seen.reward.sum() < 600
    (expected,) = evaluate(run, episodes=1, seed=seed, epsilon=0.7)
    assert return_so_far(seen)[-1] == expected
    (cut,) = evaluate(run, episodes=1, seed=seed, epsilon=0.7, max_steps=330)
    assert return_so_far(play(run, steps=330, episodes=1, seed=seed, epsilon=0.7))[-1] == cut


def test_the_first_game_is_that_of_evaluate():
    run = breakout()
    for seed in range(6):
        seen = play(run, steps=500, episodes=1, seed=seed, epsilon=0.5)
        assert return_so_far(seen)[-1] == evaluate(run, episodes=1, seed=seed, epsilon=0.5, max_steps=500)


def test_the_first_episode_outside_jax_is_that_of_evaluate_and_of_gymnasium():
    run = untrained(env=environment("gym/CartPole-v1"), network=NetworkConfig("mlp", width=8, hidden=8))
    seen = play(run, steps=500, episodes=1, seed=5, epsilon=0.5)
    assert return_so_far(seen)[-1] == evaluate(run, episodes=1, seed=5, epsilon=0.5)[0]
    seed = int(jax.random.randint(jax.random.split(jax.random.key(5))[0], (1,), 0, 2**31 - 1)[0])
    plain = gymnasium.make("CartPole-v1")
    observation, _ = plain.reset(seed=episode_seed(seed, 0))
    for frame, action in zip(seen.frame, seen.action, strict=True):
        np.testing.assert_array_equal(frame, observation)
        observation, _, over, _, _ = plain.step(int(action))
    assert over


def test_atari_games_are_those_of_evaluate():
    pytest.importorskip("ale_py")
    env = environment("atari/pong", max_steps=150)
    replay = Replay(capacity=200, batch_size=8, stack=4)
    run = untrained(env=env, network=NetworkConfig("nature", hidden=8), replay=replay)
    seen = play(run, steps=200, episodes=1, seed=1, epsilon=0.9)
    assert seen.observation.shape == (150, 84, 84, 4)
    assert (seen.observation[..., 3] == seen.frame).all()
    assert return_so_far(seen)[-1] == evaluate(run, episodes=1, seed=1, epsilon=0.9)[0] < 0


def test_values_and_representations_are_the_networks_and_actions_the_best():
    run = breakout(seed=3)
    seen = play(run, steps=30, episodes=None, seed=0, epsilon=0.0)
    np.testing.assert_allclose(seen.values, run.predict(seen.observation), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen.representation, run.represent(seen.observation), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(seen.action, seen.values.argmax(axis=1))


def test_epsilon_is_the_share_of_random_actions():
    seen = play(coins(), steps=600, episodes=None, seed=0, epsilon=0.6)
    other = (seen.action != seen.values.argmax(axis=1)).mean()
    assert abs(other - 0.3) < 5 * (0.3 * 0.7 / 600) ** 0.5


def test_frames_are_stacked_anew_in_each_episode():
    seen = play(breakout(stack=3), steps=60, episodes=None, seed=0, epsilon=0.0)
    assert seen.ended.sum() >= 2
    blank, past = np.zeros((10, 10, 4), dtype=bool), []
    for frame, observation, ended in zip(seen.frame, seen.observation, seen.ended, strict=True):
        past.append(frame)
        last = [blank, blank, *past][-3:]
        np.testing.assert_array_equal(observation, np.concatenate(last, axis=-1))
        past = [] if ended else past


def test_steps_and_episodes_end_it():
    run = breakout()
    for episodes in (1, 2):
        seen = play(run, steps=500, episodes=episodes, seed=0, epsilon=0.0)
        assert (seen.ended.sum(), seen.ended[-1]) == (episodes, True)
    assert len(play(run, steps=7, episodes=9, seed=0, epsilon=0.0).frame) == 7
    long = play(run, steps=60, episodes=None, seed=0, epsilon=0.0)
    assert (len(long.frame), long.ended.sum() > 2) == (60, True)


def test_the_seed_decides_everything():
    first, again, other = (play(coins(), steps=40, episodes=None, seed=seed, epsilon=0.5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.action, again.action)
    assert not np.array_equal(first.action, other.action)


def test_returns_start_anew_with_each_episode():
    seen = play(untrained(env=environment("mdp/five-state")), steps=50, episodes=None, seed=0, epsilon=1.0)
    total, expected = 0.0, []
    for reward, ended in zip(seen.reward, seen.ended, strict=True):
        total += reward
        expected.append(total)
        total = 0.0 if ended else total
    assert seen.ended.sum() > 5
    np.testing.assert_allclose(return_so_far(seen), expected, atol=1e-6)


def test_distinct_observations_keep_their_first_steps():
    seen = play(breakout(stack=2), steps=80, episodes=None, seed=0, epsilon=0.2)
    kept = unique_observations(seen)
    expected = [
        index
        for index, one in enumerate(seen.observation)
        if not any(np.array_equal(one, before) for before in seen.observation[:index])
    ]
    assert 10 < len(expected) < 80
    np.testing.assert_array_equal(kept.observation, seen.observation[expected])
    np.testing.assert_array_equal(kept.representation, seen.representation[expected])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, but is 0"),
        ({"episodes": 0}, "episodes must be at least 1, but is 0"),
        ({"seed": -1}, r"seed must lie in \[0, 2³¹\), but is -1"),
        ({"epsilon": 1.5}, r"epsilon must lie in \[0, 1\], but is 1\.5"),
    ],
)
def test_what_cannot_be_played_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        play(coins(), **({"steps": 3, "episodes": 1, "seed": 0, "epsilon": 0.0} | given))
