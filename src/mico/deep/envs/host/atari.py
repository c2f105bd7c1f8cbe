"""Atari 2600 games (Bellemare et al., 2013), stepped in C++ threads outside JAX, as the paper plays them."""

import os
from functools import cache
from typing import Any, Literal, final

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Int, Shaped

from mico._checks import install_hint
from mico._suggestions import near
from mico.deep.envs.host.episodes import AbstractHostEnv, AbstractHostEnvs
from mico.deep.fields import check_choices, check_minimum, check_range, static_field
from mico.deep.types import Spec, Timestep

_SHAPE = (84, 84)


@final
class Atari(AbstractHostEnv):
    """A game by the protocol of Machado et al. (2018), with Dopamine's frames.

    An action lasts `frame_skip` frames, in each of which the one before it is repeated with probability `sticky`. What
    is seen is the brighter of the last two frames, grey, shrunk to 84×84 by area; of the frame in which a game ends,
    nothing. Lives do not end episodes, which start without no-ops and are cut off by a time-out after `max_steps`.
    """

    preset = "atari"

    game: str = eqx.field(static=True)
    sticky: float = static_field(
        0.25, "Probability of a sticky action in each frame: the last action is repeated instead."
    )
    frame_skip: int = static_field(4, "Frames that an action is repeated for.")
    actions: Literal["minimal", "all"] = static_field(
        "minimal", "Actions: those that have an effect in the game, or all 18."
    )
    max_steps: int = static_field(27_000, "Steps after which an episode is truncated.")

    def __check_init__(self) -> None:
        check_choices(self)
        check_range(self, sticky=(0.0, 1.0))
        check_minimum(self, frame_skip=1, max_steps=1)
        if self.frame_skip * (self.max_steps + 1) >= 2**31:  # frames, which the emulator counts in 32 bits
            limits = f"{self.frame_skip} and {self.max_steps}"
            raise ValueError(f"frame_skip × (max_steps + 1) must be below 2³¹, but they are {limits}")
        games = _games()
        if self.game not in games:
            raise ValueError(f"game {self.game!r} is not in the ALE: did you mean {near(self.game, games)}?")

    @property
    def name(self) -> str:
        return f"atari/{self.game}"

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("sticky", "frame_skip", "actions", "max_steps")}

    @property
    def spec(self) -> Spec:
        return Spec(_SHAPE, "uint8", len(self.action_names))

    @property
    def action_names(self) -> tuple[str, ...]:
        return _action_names(self.game, self.actions)

    @property
    def threads(self) -> int:
        """How many the games step in at most."""
        return len(os.sched_getaffinity(0))

    @property
    def min_runs_to_split(self) -> int:
        return max(8, self.threads // 2)  # measured with 8, 16 and 32 on 16 cores: docs/speed.md

    def make(self, num_envs: int) -> "AtariEnvs":
        from ale_py.vector_env import AtariVectorEnv

        envs = AtariVectorEnv(
            _rom(self.game),
            num_envs,
            num_threads=min(num_envs, self.threads),
            max_num_frames_per_episode=self.frame_skip * (self.max_steps + 1),  # its own cut would spoil the last frame
            repeat_action_probability=self.sticky,
            full_action_space=self.actions == "all",
            img_height=_SHAPE[0],
            img_width=_SHAPE[1],
            stack_num=1,
            frameskip=self.frame_skip,
            noop_max=0,
            reward_clipping=False,
            use_fire_reset=False,
        )
        return AtariEnvs(envs, self)


@final
class AtariEnvs(AbstractHostEnvs):
    """Games side by side, in as many threads as there are cores.

    A seed has the emulator load its game anew, as long a time as hundreds of steps take.
    """

    reseed_period = 50_000

    def __init__(self, envs: Any, settings: Atari):
        self._envs, self._max_steps = envs, settings.max_steps
        self.spec, self.num_envs = settings.spec, envs.num_envs
        self._steps, self._begun = np.zeros(self.num_envs, dtype=np.int64), False

    def reset(self, which: Bool[np.ndarray, " N"], seeds: Int[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        if not self._begun:  # at first all have to
            which, self._begun = np.ones(self.num_envs, dtype=bool), True
        self._steps[which] = 0
        frames, _ = self._envs.reset(seed=seeds[which], options={"reset_mask": which})
        return frames[:, 0]

    def send(self, actions: Int[np.ndarray, " N"]) -> None:
        self._envs.send(np.asarray(actions, np.int32))

    def receive(self) -> Timestep:
        frames, rewards, over, _, _ = self._envs.recv()
        self._steps += 1
        truncated = (self._steps >= self._max_steps) & ~over
        return Timestep(rewards.astype(np.float32), frames[:, 0], over, truncated)

    def close(self) -> None:
        self._envs.close()


def _games() -> list[str]:
    """All that the ALE brings, as this project writes them: ms-pacman."""
    try:
        from ale_py import ALEInterface, LoggerMode, roms
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Atari games need: {install_hint('atari')}") from error
    ALEInterface.setLoggerMode(LoggerMode.Error)  # or it greets on stderr
    return sorted(name.replace("_", "-") for name in roms.get_all_rom_ids())


@cache
def _action_names(game: str, actions: str) -> tuple[str, ...]:
    from ale_py import ALEInterface, roms

    ale = ALEInterface()
    ale.loadROM(str(roms.get_rom_path(_rom(game))))
    chosen = ale.getMinimalActionSet() if actions == "minimal" else ale.getLegalActionSet()
    return tuple(action.name.lower() for action in chosen)


def _rom(game: str) -> str:
    return game.replace("-", "_")
