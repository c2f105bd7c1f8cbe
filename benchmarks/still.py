"""An environment that takes no time: what training takes with it, it takes beside any other."""

from typing import Any

import equinox as eqx
import numpy as np

from mico.deep.envs import AbstractHostEnv, AbstractHostEnvs
from mico.deep.types import Spec, Timestep


class Still(AbstractHostEnv):
    """The same picture for ever, at once."""

    shown: Spec = eqx.field(static=True)
    from_runs: int | None = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "still"

    @property
    def spec(self) -> Spec:
        return self.shown

    @property
    def min_runs_to_split(self) -> int | None:
        return self.from_runs

    def settings(self) -> dict[str, Any]:
        return {}

    def make(self, num_envs: int) -> "StillEnvs":
        return StillEnvs(self.spec, num_envs)


class StillEnvs(AbstractHostEnvs):
    def __init__(self, spec: Spec, num_envs: int):
        self.spec, self.num_envs = spec, num_envs
        self._picture = np.zeros((num_envs, *spec.shape), spec.dtype)

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return self._picture

    def send(self, actions: np.ndarray) -> None: ...

    def receive(self) -> Timestep:
        never = np.zeros(self.num_envs, dtype=bool)
        return Timestep(np.zeros(self.num_envs, np.float32), self._picture, never, never)

    def close(self) -> None: ...
