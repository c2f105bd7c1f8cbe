"""Fields and sizes of a sweep's runs, also for environments whose packages are not installed."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn, final

import equinox as eqx
import jax

from mico.deep.config.choices import Choice, Option
from mico.deep.config.run import Run
from mico.deep.envs import AbstractHostEnv, environment
from mico.deep.learner.state import init_params
from mico.deep.types import Spec

WORKING = 1.2  # what a program takes in all, in units of replay and parameters: as measured on an H200 (docs/speed.md)
_OF_PICTURES = 1.5  # the same for SAC, whose updates from 256 pictures take 0.8 GB for a while: as compiled for a CPU
_OF_PACKAGES = {"atari": Spec((84, 84), "uint8", 18), "control": Spec((84, 84, 3), "uint8", 0, 6)}


class Shape(NamedTuple):
    """A choice of parts with all fields that its runs have, by dotted names; `missing` says what its runs lack here."""

    choice: Choice
    options: Mapping[str, Option]
    missing: str | None

    def run(self, fields: Mapping[str, Any], seed: int, steps: int | None = None) -> Run:
        """The run, on an environment that cannot be stepped if that is what is missing."""
        family = self.choice.env.partition("/")[0]
        env = None if self.missing is None else Absent(self.choice.env, _OF_PACKAGES[family])
        return self.choice.run(fields, seed, steps=steps, env=env)

    def size(self, run: Run) -> int:
        """Bytes that one run takes on the device."""
        spec = run.env.spec

        def state() -> Any:
            params = init_params(run, spec)
            return params, params, run.agent.optimiser().init(params), run.replay.init(spec)

        leaves = jax.tree.leaves(jax.eval_shape(state))
        family = self.choice.env.partition("/")[0]
        working = _OF_PICTURES if family == "control" and spec.dtype == "uint8" else WORKING
        return int(working * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))


@final
class Absent(AbstractHostEnv):
    """An environment whose packages are not here: it can be counted, but not stepped."""

    member: str = eqx.field(static=True)
    shown: Spec = eqx.field(static=True)

    @property
    def name(self) -> str:
        return self.member

    def settings(self) -> dict[str, Any]:
        return {}

    @property
    def spec(self) -> Spec:
        return self.shown

    def make(self, num_envs: int) -> NoReturn:
        raise ValueError(f"env {self.member!r} cannot be run: its packages are not here")


@cache
def shape_of(env: str, agent: str, metric: str, preset: str | None) -> Shape:
    """The shape of runs with parts of these names; unknown names are refused."""
    choice = Choice(env, agent, metric, preset)
    choice.check()
    options = {f"{part}.{option.name}": option for part, own in choice.options().items() for option in own}
    return Shape(choice, options, _missing(env))


def _missing(env: str) -> str | None:
    """The error about a package that an environment lacks here, or None."""
    if env.partition("/")[0] in _OF_PACKAGES:
        try:
            environment(env)
        except ModuleNotFoundError as error:
            return str(error)
    return None
