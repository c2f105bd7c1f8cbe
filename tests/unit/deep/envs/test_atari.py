"""Atari games against the plain emulator, frame by frame, by the protocol as the paper's agents were trained."""

from functools import cache

import numpy as np
import pytest
from ale_py import ALEInterface, roms

from mico.deep.envs import Episodes, environment
from mico.deep.envs.host.atari import Atari
from mico.deep.envs.host.episodes import episode_seed
from mico.evidence.atari_scores import PAPER_GAMES

SKIP, CUT = 4, 60


class Reference:
    """One game on the plain interface: four frames an action, the brighter of the last two, grey, shrunk by area.

    As Dopamine has it, two screens are kept, of the third and the fourth frame, and the one in which the game ends is
    not looked at, so that what was kept before stays.
    """

    def __init__(self, game, sticky=0.25, actions="minimal"):
        self.ale, self.game, self.sticky, self.actions = ALEInterface(), game.replace("-", "_"), sticky, actions

    def reset(self, seed=None):
        if seed is not None:
            self.ale.setFloat("repeat_action_probability", self.sticky)
            self.ale.setInt("random_seed", int(seed))
            self.ale.loadROM(roms.get_rom_path(self.game))
        self.ale.reset_game()
        self.screens = [self.ale.getScreenGrayscale(), np.zeros((210, 160))]
        return self.seen()

    def step(self, action):
        legal = self.ale.getMinimalActionSet() if self.actions == "minimal" else self.ale.getLegalActionSet()
        reward = 0
        for frame in range(SKIP):
            reward += self.ale.act(legal[action])
            if self.ale.game_over(with_truncation=False):
                break
            if frame >= SKIP - 2:
                self.screens[frame - (SKIP - 2)] = self.ale.getScreenGrayscale()
        return self.seen(), reward, self.ale.game_over(with_truncation=False)

    def seen(self):
        return shrunk(self.screen())

    def screen(self):
        return np.maximum(*self.screens).astype(np.uint8)


@cache
def shares(size, small=84):
    """How much of each pixel lies in each of fewer, larger ones."""
    edges = np.arange(small + 1) * size / small
    low, high = edges[:-1, None], edges[1:, None]
    pixel = np.arange(size)
    overlap = np.minimum(high, pixel + 1) - np.maximum(low, pixel)
    return np.clip(overlap, 0, None) * small / size


def shrunk(screen):
    return shares(210) @ screen.astype(float) @ shares(160).T


@pytest.mark.parametrize("game", ["pong", "ms-pacman", "seaquest", "freeway", "breakout", "qbert"])
def test_every_frame_reward_and_end_is_that_of_the_plain_emulator(game):
    env, seeds = environment(f"atari/{game}"), np.array([3, 44])
    envs, references = env.make(2), [Reference(game) for _ in seeds]
    assert_same_frames(envs.reset(np.ones(2, bool), seeds), [one.reset(seed) for one, seed in zip(references, seeds)])
    rng, playing, rewards = np.random.default_rng(0), np.ones(2, bool), 0
    for _ in range(300):
        actions = rng.integers(env.spec.num_actions, size=2)
        step = envs.step(actions)
        for index in np.flatnonzero(playing):
            frame, reward, over = references[index].step(actions[index])
            assert_same_frames(step.next_frame[index], frame)
            assert (step.reward[index], step.terminal[index], step.truncated[index]) == (reward, over, False)
            rewards += abs(reward)
            playing[index] = not over
    assert rewards > 0 or game == "freeway"


@pytest.mark.parametrize(("game", "seed"), [("pong", 11), ("pong", 13), ("qbert", 12), ("qbert", 13)])
def test_where_a_fourth_frame_ends_the_game_the_last_picture_has_more_of_the_one_before(game, seed):
    """There the vector form still has both screens of the step before, pooled, where Dopamine has the later one."""
    env, reference = environment(f"atari/{game}"), Reference(game)
    envs, rng, over = env.make(1), np.random.default_rng(seed), False
    envs.reset(np.ones(1, bool), np.array([seed]))
    reference.reset(seed)
    while not over:
        before, third, action = reference.screen(), reference.screens[0], rng.integers(env.spec.num_actions)
        step = envs.step(np.array([action]))
        frame, _, over = reference.step(action)
    assert step.terminal[0]
    assert reference.screens[0] is not third  # the third frame was still seen
    assert_same_frames(step.next_frame[0], shrunk(np.maximum(before, reference.screens[0])))
    assert np.abs(step.next_frame[0] - frame).max() > 10


@pytest.mark.parametrize("game", ["pong", "ms-pacman", "seaquest", "breakout"])
def test_frames_are_those_of_opencv(game):
    """By which Dopamine shrinks screens: byte for byte."""
    cv2 = pytest.importorskip("cv2")
    env, reference = environment(f"atari/{game}"), Reference(game)
    envs = env.make(1)
    frame = envs.reset(np.ones(1, bool), np.array([7]))[0]
    reference.reset(7)
    for action in np.random.default_rng(1).integers(env.spec.num_actions, size=100):
        np.testing.assert_array_equal(frame, cv2.resize(reference.screen(), (84, 84), interpolation=cv2.INTER_AREA))
        reference.step(action)
        frame = envs.step(np.array([action])).next_frame[0]


def test_an_episode_after_an_episode_is_as_on_a_plain_emulator():
    """Now and then with a seed that follows from the run's and the episode's number; a cut is a time-out."""
    env = environment("atari/breakout", max_steps=CUT)
    envs = env.make(2)
    envs.reseed_period = 2 * CUT - 1
    episodes, actions = Episodes(envs, np.array([0, 1])), np.random.default_rng(1).integers(4, size=(5 * CUT, 2))
    references, numbers, since = [Reference("breakout"), Reference("breakout")], [0, 0], [0, 0]
    assert_same_frames(episodes.start(), [one.reset(episode_seed(run, 0)) for run, one in enumerate(references)])
    ends, age = [], [0, 0]
    for now in actions:
        outcome = episodes.step(now)
        for run, one in enumerate(references):
            frame, _, over = one.step(now[run])
            age[run], since[run] = age[run] + 1, since[run] + 1
            assert_same_frames(outcome.next_frame[run], frame)
            assert (outcome.terminal[run], outcome.truncated[run]) == (over, age[run] == CUT and not over)
            if over or age[run] == CUT:
                ends.append(over)
                numbers[run], age[run] = numbers[run] + 1, 0
                seed = episode_seed(run, numbers[run]) if since[run] >= envs.reseed_period else None
                since[run] = since[run] if seed is None else 0
                assert_same_frames(outcome.reset_frame[run], one.reset(seed))
            else:
                np.testing.assert_array_equal(outcome.reset_frame[run], outcome.next_frame[run])
    assert ends.count(False) >= 2
    assert max(numbers) >= 4


def test_a_terminal_at_the_cut_is_a_terminal():
    """Breakout with no ball lost lasts; Freeway's clock does not end it here: so a game known to end is cut there."""
    env, seed = environment("atari/breakout"), np.array([5])
    length = played(env.make(1), seed)
    assert length[1] == (True, False)
    again = environment("atari/breakout", max_steps=length[0])
    assert played(again.make(1), seed) == length
    assert played(environment("atari/breakout", max_steps=length[0] - 1).make(1), seed)[1] == (False, True)


def played(envs, seed):
    """The length of an episode of firing and moving at random, and how it ended."""
    envs.reset(np.ones(1, bool), seed)
    rng = np.random.default_rng(0)
    for length in range(1, 2_000):
        step = envs.step(rng.integers(4, size=1))
        if step.terminal[0] or step.truncated[0]:
            return length, (bool(step.terminal[0]), bool(step.truncated[0]))
    raise AssertionError("no end")


def test_sticky_actions_and_the_frame_skip_do_what_they_say():
    actions = np.random.default_rng(2).integers(6, size=100)
    plain, usual = (frames("pong", actions, sticky=sticky) for sticky in (0.0, 0.25))
    reference = Reference("pong", sticky=0.0)
    reference.reset(0)
    assert_same_frames(plain, [reference.step(action)[0] for action in actions])
    assert (plain != usual).any()
    assert (frames("pong", actions, frame_skip=2) != usual).any()


def test_all_actions_are_those_of_the_joystick():
    assert environment("atari/pong").spec.num_actions == 6
    env = environment("atari/pong", actions="all")
    assert env.spec.num_actions == 18
    actions = np.random.default_rng(3).integers(18, size=50)
    reference = Reference("pong", actions="all")
    reference.reset(0)
    assert_same_frames(frames("pong", actions, actions="all"), [reference.step(action)[0] for action in actions])


def frames(game, taken, **settings):
    envs = environment(f"atari/{game}", **settings).make(1)
    envs.reset(np.ones(1, bool), np.zeros(1, int))
    return np.stack([envs.step(np.array([action])).next_frame[0].copy() for action in taken])


def test_all_games_of_the_paper_are_there():
    assert len(PAPER_GAMES) == 60
    for game in PAPER_GAMES:
        assert Atari(game).spec.num_actions in range(3, 19)


def test_games_are_played_as_the_paper_says():
    assert Atari("pong").settings() == {"sticky": 0.25, "frame_skip": 4, "actions": "minimal", "max_steps": 27_000}


PACMEN = ("mspacman", "MsPacman", "ms_pacman")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *[({"game": name}, rf"game '{name}' is not in the ALE: did you mean ms-pacman") for name in PACMEN],
        ({"game": "pong", "sticky": 1.5}, r"sticky must .* but is 1.5"),
        ({"game": "pong", "frame_skip": 0}, r"frame_skip must .* but is 0"),
        ({"game": "pong", "max_steps": 2**29}, r"frame_skip × \(max_steps \+ 1\) must .* are 4 and 536870912"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Atari(**settings)


def assert_same_frames(found, exact):
    """Bytes, of numbers that the emulator's own arithmetic may round either way at one half."""
    assert np.abs(np.asarray(found, float) - np.asarray(exact)).max() <= 0.5 + 1e-6
