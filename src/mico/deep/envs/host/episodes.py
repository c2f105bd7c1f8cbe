"""Environments that are stepped outside JAX, those of all runs together, in episodes that can be played again."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Bool, Int, Shaped, UInt8

from mico.deep.envs import naming
from mico.deep.extensions import ConfigModule
from mico.deep.types import Spec, Timestep


class AbstractHostEnvs(abc.ABC):
    """N environments side by side without automatic reset; what follows a reset depends on its seed alone.

    Where seeding takes long, episodes may go on with the randomness of those before them: a new seed comes with the
    first episode that begins at least `stretch` steps after the last one.
    """

    spec: Spec
    num_envs: int
    stretch: int = 1

    def belong_to(self, seeds: Int[np.ndarray, " N"]) -> None:
        """Told of which runs they are, to name them in messages; those that send none need not know."""
        return

    @abc.abstractmethod
    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        """New episodes in the environments that `which` marks, seeded or, by -1, not; other rows mean nothing."""

    @abc.abstractmethod
    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        """Have each take a step, while others work if it can."""

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
        """Frees what the environments hold."""


class AbstractHostEnv(ConfigModule):
    """The settings of an environment outside JAX; see `AbstractEnv` for `preset` and families."""

    preset: ClassVar[str] = "vector"
    members: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """The name that `environment` takes, such as "gym/CartPole-v1"; by default the registered name."""
        return naming.registered_name(self)

    @property
    @abc.abstractmethod
    def spec(self) -> Spec:
        """What it shows and what actions it takes."""

    def settings(self) -> dict[str, Any]:
        """What `environment` takes beside the name to make it again; by default all fields."""
        return naming.settings(self)

    @property
    def action_names(self) -> tuple[str, ...]:
        """A name for each action, or for each number of an action that is a vector."""
        return naming.numbered_actions(self.spec)

    def draw(self, frames: Shaped[np.ndarray, "T ..."]) -> UInt8[np.ndarray, "T H W 3"] | None:
        """Draw frames as images for `mico watch`, or return None: planes, bytes and bits are then drawn as such."""
        return None

    @property
    def is_rendered(self) -> bool:
        """Whether the environment can draw itself; `make_rendered` then makes one that has `render`."""
        return False

    def make_rendered(self) -> Any:
        """Make one environment that can draw itself: `AbstractHostEnvs` with a method `render`."""
        raise ValueError(f"{self.name} cannot draw itself")

    @property
    def splits_from(self) -> int | None:
        """So many runs make two parts, of which one plays while the device learns for the other; None: never."""
        return None

    @property
    def most_at_once(self) -> int | None:
        """How many side by side are worth having; None: any number."""
        return None

    @abc.abstractmethod
    def make(self, num_envs: int) -> AbstractHostEnvs:
        """So many of it, side by side."""


@final
class Episodes:
    """Environments with automatic reset. All chance in them follows from the run's seed and the episode's number."""

    def __init__(self, envs: AbstractHostEnvs, seeds: Int[np.ndarray, " N"]):
        if seeds.shape != (envs.num_envs,) or seeds.min() < 0:
            raise ValueError(f"seeds must be {envs.num_envs} numbers of at least 0, but are {seeds.tolist()}")
        envs.belong_to(seeds)
        self._envs, self._seeds = envs, seeds
        self._numbers = np.zeros(envs.num_envs, dtype=int)
        self._seeded = self._numbers.copy()  # the episode that had the last seed
        self._actions: list[list[Any]] = [[] for _ in range(envs.num_envs)]  # since then
        self._frame = self._sent = np.zeros(0)  # the frames to act on, and the actions that were sent last

    def start(self) -> Shaped[np.ndarray, "N ..."]:
        """The first frames of everything."""
        nothing = {"episodes": [0] * self._envs.num_envs, "actions": [[]] * self._envs.num_envs}
        return self.restore(nothing)

    def step(self, actions: Shaped[np.ndarray, "N ..."]) -> Timestep:
        """Take one step in each environment; where an episode ends the next one begins."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Shaped[np.ndarray, "N ..."]) -> None:
        """Have each take a step: `receive` waits for it."""
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
                if len(self._actions[index]) >= self._envs.stretch:
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
        """Plays the episodes of a snapshot up to where they were, or till it is stopped; gives back the frames then."""
        numbers, actions = list(snapshot["episodes"]), [list(past) for past in snapshot["actions"]]
        if not len(numbers) == len(actions) == self._envs.num_envs:
            raise ValueError(f"snapshot has {len(numbers)} episodes, but there are {self._envs.num_envs} environments")
        self._numbers, self._seeded, self._actions = np.array(numbers), np.array(numbers), actions
        self._frame = self._replay(stopped)
        return self._frame

    def _replay(self, stopped: Callable[[], bool]) -> Shaped[np.ndarray, "N ..."]:
        """All arrive together: shorter pasts begin later, and until then their environments play for nothing."""
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
        """Starts episodes and writes their first frames into their places."""
        if not which.any():
            return
        seeds = np.full(which.size, -1)
        for index in np.flatnonzero(which):
            if self._seeded[index] == self._numbers[index]:
                seeds[index] = episode_seed(int(self._seeds[index]), int(self._numbers[index]))
        frame[which] = self._envs.reset(which, seeds)[which]


def episode_seed(run_seed: int, episode: int) -> int:
    """A number below 2³¹, which every environment takes for a seed."""
    return int(np.random.SeedSequence((run_seed, episode)).generate_state(1)[0] >> 1)
