"""What a run of a sweep is like; of environments and agents that this version lacks, what can be said without them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, NoReturn, final

import equinox as eqx
import jax

from mico.deep import learner
from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS, AbstractHostEnv, environment
from mico.deep.options import METRICS, Choice, Option
from mico.deep.settings import Run
from mico.deep.types import Spec

WORKING = 1.2  # what a program takes in all, in units of replay and parameters: as measured on an H200 (docs/speed.md)
_FRAMES = {"atari": Spec((84, 84), "uint8", 18), "control": Spec((84, 84, 3), "uint8", 6)}
_LATER = {"agent": ("sac",), "metric": ("dbc", "dbc-det", "dbc-mico")}
_USUAL = {"env": "minatar/breakout", "agent": "dqn", "metric": "none"}  # stand in for what is missing
_STATED_BYTES = {"control": 2_300_000_000}  # of a run: 100,000 frames, and 12 M parameters four times over


class Shape(NamedTuple):
    """A choice of parts with all fields that its runs have, by dotted names; `missing` says what this version lacks."""

    choice: Choice
    options: Mapping[str, Option]
    missing: str | None

    def run(self, fields: Mapping[str, Any], seed: int) -> Run | None:
        """The run, on an environment that cannot be stepped if that is what is missing; None where more is."""
        choice, family = self.choice, self.choice.env.partition("/")[0]
        if self.missing is None:
            return choice.run(fields, seed)
        if choice.agent not in AGENTS or choice.metric not in METRICS:
            return None
        known = choice._replace(env=_USUAL["env"])
        return replace(known.run(fields, seed), env=Absent(choice.env, _FRAMES[family]))

    def size(self, run: Run | None) -> int:
        """Bytes that one run takes on the device."""
        if run is None:
            return int(WORKING * _STATED_BYTES[self.choice.env.partition("/")[0]])
        spec = run.env.spec

        def state() -> Any:
            params = learner.fresh_params(run, spec)
            return params, params, run.agent.optimiser().init(params), run.replay.init(spec)

        leaves = jax.tree.leaves(jax.eval_shape(state))
        return int(WORKING * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))


@final
class Absent(AbstractHostEnv):
    """An environment of a family that this version does not have: it can be counted, but not stepped."""

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
        raise ValueError(f"env {self.member!r} cannot be run: this version has no such family")


@cache
def shape_of(env: str, agent: str, metric: str, preset: str | None) -> Shape:
    """What runs with parts of these names are like; unknown names are refused."""
    lacking = _lacking(env, agent, metric)
    choice = Choice(env, agent, metric, preset or ("atari" if "env" in lacking else None))
    known = choice._replace(**{part: _USUAL[part] for part in lacking})
    known.check()
    parts = {part: own for part, own in known.options().items() if part not in lacking}
    options = {f"{part}.{option.name}": option for part, own in parts.items() for option in own}
    return Shape(choice, options, "; ".join(lacking.values()) or None)


def _lacking(env: str, agent: str, metric: str) -> dict[str, str]:
    """The parts that are not here, and why; names that nobody knows are not among them."""
    family = env.partition("/")[0]
    found = {}
    if family in _FRAMES and family not in ENVS:
        found["env"] = f"this version has no environments of the family {family}"
    elif family in _FRAMES:
        try:
            environment(env)
        except ModuleNotFoundError as error:
            found["env"] = str(error)
    if agent in _LATER["agent"] and agent not in AGENTS:
        found["agent"] = f"this version has no agent {agent}"
    if metric in _LATER["metric"] and metric not in METRICS:
        found["metric"] = f"this version has no metric loss {metric}"
    return found
