"""Episodes outside JAX: automatic reset, seeds, and going on from a snapshot."""

import json

import numpy as np
import pytest

from mico.deep.envs import AbstractHostEnvs, Episodes, environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.types import Spec, Timestep


class Counters(AbstractHostEnvs):
    """Each shows its seed, the time and the sum of its actions, and ends after some 1 to 9 steps."""

    spec = Spec((3,), "float32", 5)

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.frames = np.zeros((num_envs, 3), np.float32)
        self.left = np.zeros(num_envs, dtype=int)

    def reset(self, which, seeds):
        small = seeds[which] % 1_000
        self.frames[which] = np.stack([small, 0 * small, 0 * small], axis=1)
        self.left[which] = 1 + small % 9
        return np.where(which[:, None], self.frames, np.nan).astype(np.float32)

    def send(self, actions):
        self.sent = actions

    def receive(self):
        actions = self.sent
        if np.any(self.left == 0):
            raise RuntimeError("stepped after its end")
        self.frames = self.frames + np.stack([0 * actions, 1 + 0 * actions, actions], axis=1).astype(np.float32)
        self.left -= 1
        over, long = self.left == 0, self.frames[:, 1] > 5
        return Timestep(self.frames[:, 2], self.frames, over & ~long, over & long)

    def close(self):
        self.left[:] = 0


def counters(seeds):
    return Episodes(Counters(len(seeds)), np.array(seeds))


def cartpoles(seeds):
    return Episodes(environment("gym/CartPole-v1", max_steps=15).make(len(seeds)), np.array(seeds))


def reseeded(seeds):
    return Episodes(with_reseed_period(environment("gym/CartPole-v1", max_steps=15).make(len(seeds))), np.array(seeds))


def ataris(seeds):
    return Episodes(with_reseed_period(environment("atari/breakout", max_steps=15).make(len(seeds))), np.array(seeds))


def with_reseed_period(envs):
    envs.reseed_period = 40
    return envs


def test_episodes_are_reset_with_seeds_of_ours():
    episodes = counters([4, 4, 9])
    frame = episodes.start()
    number = np.zeros(3, dtype=int)
    for time in range(40):
        expected = [episode_seed(seed, episode) % 1_000 for seed, episode in zip([4, 4, 9], number.tolist())]
        assert frame[:, 0].tolist() == expected
        outcome = episodes.step(np.full(3, time % 5))
        over = outcome.ended
        assert np.array_equal(outcome.next_frame[:, 0], frame[:, 0])
        assert np.array_equal(outcome.next_frame[:, 1], frame[:, 1] + 1)
        assert np.array_equal(outcome.reset_frame[~over], outcome.next_frame[~over])
        assert np.all(outcome.reset_frame[over, 1:] == 0)
        number, frame = number + over, outcome.reset_frame
    assert number.min() > 2


def test_seeds_differ_between_runs_and_episodes():
    seeds = {episode_seed(run, episode) for run in range(50) for episode in range(50)}
    assert len(seeds) == 2_500
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert episode_seed(1, 2) != episode_seed(2, 1)
    words = np.random.SeedSequence((7, 3)).generate_state(1)
    assert episode_seed(7, 3) == int(words[0]) // 2


def test_only_the_first_episode_of_a_reseed_period_is_seeded():
    class Seen(Counters):
        reseed_period, seeds = 25, []

        def reset(self, which, seeds):
            self.seeds.append((self.steps, seeds[which].tolist()))
            return super().reset(which, np.where(seeds < 0, 7, seeds))  # episodes of 8 steps where there is no seed

        def receive(self):
            self.steps += 1
            return super().receive()

        steps = 0

    envs = Seen(1)
    episodes = Episodes(envs, np.array([3]))
    episodes.start()
    for _ in range(70):
        episodes.step(np.array([0]))
    first = 1 + episode_seed(3, 0) % 1_000 % 9
    ends = [0, *range(first, 70, 8)]
    fourth = next(number for number, end in enumerate(ends) if end >= 25)
    assert envs.seeds[:fourth] == [
        (end, [-1 if number else episode_seed(3, 0)]) for number, end in enumerate(ends[:fourth])
    ]
    assert envs.seeds[fourth] == (ends[fourth], [episode_seed(3, fourth)])
    assert envs.seeds[fourth + 1][1] == [-1]


@pytest.mark.parametrize("make", [counters, cartpoles, reseeded, ataris])
@pytest.mark.parametrize("pause", [0, 1, 6, 23, 24, 50])
def test_goes_on_from_a_snapshot_as_if_undisturbed(make, pause):
    seeds = [0, 1, 2, 3]
    actions = np.random.default_rng(0).integers(2, size=(pause + 30, len(seeds)))
    undisturbed = make(seeds)
    frame = undisturbed.start()
    for now in actions[:pause]:
        frame = undisturbed.step(now).reset_frame
    saved = json.loads(json.dumps(undisturbed.snapshot()))

    resumed = make(seeds)
    resumed.start()
    resumed.step(actions[-1])  # what was played before is of no matter
    np.testing.assert_array_equal(resumed.restore(saved), frame)
    assert resumed.snapshot() == saved
    for now in actions[pause:]:
        for found, expected in zip(resumed.step(now), undisturbed.step(now), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert resumed.snapshot() == undisturbed.snapshot()


def test_going_back_can_be_stopped():
    looks, sent = iter([False, False, True]), []

    class Watched(Counters):
        def send(self, actions):
            sent.append(actions.tolist())
            super().send(actions)

    Episodes(Watched(1), np.array([0])).restore({"episodes": [0], "actions": [[1] * 100]}, lambda: next(looks))
    assert sent == [[1], [1]]


def test_a_snapshot_holds_the_episode_and_its_actions_so_far():
    episodes = cartpoles([0, 1])
    episodes.start()
    assert episodes.snapshot() == {"episodes": [0, 0], "actions": [[], []]}
    episodes.step(np.array([1, 0]))
    saved = episodes.snapshot()
    episodes.step(np.array([0, 0]))
    assert saved == {"episodes": [0, 0], "actions": [[1], [0]]}
    assert episodes.snapshot() == {"episodes": [0, 0], "actions": [[1, 0], [0, 0]]}


def test_what_does_not_fit_is_refused(unchecked):
    with pytest.raises(ValueError, match=r"seeds must be 2 numbers .* but are \[1\]"):
        Episodes(Counters(2), np.array([1]))
    with pytest.raises(ValueError, match=r"seeds must be 2 numbers .* but are \[1, -1\]"):
        Episodes(Counters(2), np.array([1, -1]))
    with pytest.raises(ValueError, match="snapshot has 1 episodes, but there are 2 environments"):
        counters([0, 1]).restore({"episodes": [0], "actions": [[]]})
