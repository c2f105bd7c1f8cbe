"""Environments that are stepped outside JAX, those of all runs together, in episodes that can be played again."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Int, Shaped

from mico.deep.envs.api import AbstractEnvSettings
from mico.deep.types import Spec, Timestep


class AbstractHostEnvs(abc.ABC):
    """N environments side by side without automatic reset; what follows a reset depends on its seed alone.

    `reseed_period` is the least number of steps between seeds: episodes before that continue the random numbers of the
    one before, for where seeding takes long.
    """

    spec: Spec
    num_envs: int
    reseed_period: int = 1

    def name_runs(self, seeds: Int[np.ndarray, " N"]) -> None:
        """Take the seeds of the runs that the environments belong to, to name them in messages."""
        return

    @abc.abstractmethod
    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        """Begin new episodes in the environments that `which` marks, seeded or, by -1, not; other rows mean nothing."""

    @abc.abstractmethod
    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        """Have each environment take a step, in the background if it can."""

    @abc.abstractmethod
    def receive(self) -> Timestep:
        """Return what came of the actions that were sent, without automatic reset: `reset_frame` is left out."""

    @final
    def step(self, actions: Shaped[np.ndarray, "N ..."]) -> Timestep:
        """Take one step in each environment."""
        self.send(actions)
        return self.receive()

    @abc.abstractmethod
    def close(self) -> None:
        """Free what the environments hold."""


class AbstractHostEnv(AbstractEnvSettings):
    """The settings of an environment outside JAX."""

    in_jax = False

    @abc.abstractmethod
    def make(self, num_envs: int) -> AbstractHostEnvs:
        """Make environments side by side."""


@final
class Episodes:
    """Environments with automatic reset. All chance in them follows from the run's seed and the episode's number."""

    def __init__(self, envs: AbstractHostEnvs, seeds: Int[np.ndarray, " N"]):
        if seeds.shape != (envs.num_envs,) or seeds.min() < 0:
            raise ValueError(f"seeds must be {envs.num_envs} numbers of at least 0, but are {seeds.tolist()}")
        envs.name_runs(seeds)
        self._envs, self._seeds = envs, seeds
        self._numbers = np.zeros(envs.num_envs, dtype=int)
        self._seeded = self._numbers.copy()  # the episode that had the last seed
        self._actions: list[list[Any]] = [[] for _ in range(envs.num_envs)]  # since then
        self._frame = self._sent = np.zeros(0)  # the frames to act on, and the actions that were sent last

    def start(self) -> Shaped[np.ndarray, "N ..."]:
        """Begin the first episodes, and return their first frames."""
        nothing = {"episodes": [0] * self._envs.num_envs, "actions": [[]] * self._envs.num_envs}
        return self.restore(nothing)

    def step(self, actions: Shaped[np.ndarray, "N ..."]) -> Timestep:
        """Take one step in each environment; where an episode ends the next one begins."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        """Have each environment take a step: `receive` waits for it."""
        self._envs.send(actions)
        self._sent = actions
        for past, action in zip(self._actions, actions.tolist(), strict=True):
            past.append(action)

    def receive(self) -> Timestep:
        """Wait for the step that was sent."""
        step = self._envs.receive()
        reset_frame = next_frame = step.next_frame.copy()  # a reset, or the next step, may write where this one did
        ended = step.ended
        if ended.any():
            self._numbers += ended
            for index in np.flatnonzero(ended):
                if len(self._actions[index]) >= self._envs.reseed_period:
                    self._seeded[index], self._actions[index] = self._numbers[index], []
            reset_frame = next_frame.copy()
            self._begin(ended, reset_frame)
        before, self._frame = self._frame, reset_frame
        return Timestep(step.reward, next_frame, step.terminal, step.truncated, reset_frame, before, self._sent)

    def close(self) -> None:
        self._envs.close()

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint needs, ready for JSON: the episode that was seeded last, and the actions since then."""
        return {"episodes": self._seeded.tolist(), "actions": [list(past) for past in self._actions]}

    def restore(
        self, snapshot: Mapping[str, Any], stopped: Callable[[], bool] = lambda: False
    ) -> Shaped[np.ndarray, "N ..."]:
        """Play the episodes of a snapshot up to where they were, or until stopped, and return the frames then."""
        numbers, actions = list(snapshot["episodes"]), [list(past) for past in snapshot["actions"]]
        if not len(numbers) == len(actions) == self._envs.num_envs:
            raise ValueError(f"snapshot has {len(numbers)} episodes, but there are {self._envs.num_envs} environments")
        self._numbers, self._seeded, self._actions = np.array(numbers), np.array(numbers), actions
        self._frame = self._replay(stopped)
        return self._frame

    def _replay(self, stopped: Callable[[], bool]) -> Shaped[np.ndarray, "N ..."]:
        """Play all pasts so that they end together: shorter ones begin later; until then what they play is void."""
        length = np.array([len(past) for past in self._actions])
        longest, wait = length.max(), length.max() - length
        spec = self._envs.spec
        frame = np.zeros((length.size, *spec.shape), spec.dtype)
        self._begin(np.ones(length.size, dtype=bool), frame)
        for time in range(longest):
            if stopped():
                break
            now = np.zeros((length.size, *spec.action_shape), spec.action_dtype)
            for index in np.flatnonzero(wait <= time):
                now[index] = self._actions[index][time - wait[index]]
            step = self._envs.step(now)
            frame, ended = step.next_frame.copy(), step.ended
            self._numbers += ended & (wait <= time)
            self._begin(ended | (wait == time + 1), frame)
        return frame

    def _begin(self, which: Bool[np.ndarray, " N"], frame: Shaped[np.ndarray, "N ..."]) -> None:
        """Begin episodes, and write their first frames into `frame`."""
        if not which.any():
            return
        seeds = np.full(which.size, -1)
        for index in np.flatnonzero(which):
            if self._seeded[index] == self._numbers[index]:
                seeds[index] = episode_seed(int(self._seeds[index]), int(self._numbers[index]))
        frame[which] = self._envs.reset(which, seeds)[which]


def episode_seed(run_seed: int, episode: int) -> int:
    """Derive the seed of an episode: a number below 2³¹, which every environment takes."""
    return int(np.random.SeedSequence((run_seed, episode)).generate_state(1)[0] >> 1)
