"""The fleet on environments outside JAX: the same learner and the same state, one step of every run at a time."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from mico.deep import learner
from mico.deep.envs import AbstractHostEnv, Episodes
from mico.deep.fleet import COMPILER_OPTIONS, Happened
from mico.deep.learner import Ended, Losses, Params, State
from mico.deep.settings import Run
from mico.deep.types import Step


class Hosted:
    """Environments of all runs, stepped together, and the programs that act and learn between their steps."""

    def __init__(self, runs: Sequence[Run], fleet: Run):
        self._fleet = fleet
        self._spec = runs[0].env.spec
        self._episodes = Episodes(
            cast(AbstractHostEnv, runs[0].env).make(len(runs)), np.array([run.seed for run in runs])
        )

    def begin(self) -> State:
        return _begin(self._fleet, self._episodes.start(), spec=self._spec)

    def play(self, state: State, time: int, length: int, learns: bool) -> tuple[State, Happened]:
        """A chunk of steps of every run, with an update every period if the chunk `learns`."""
        period = self._fleet.schedule.update_period
        ended, losses = [], []
        for now in range(time, time + length):
            actions = _actions(self._fleet, state.params, state.episode.stack, jnp.int32(now))
            outcome = self._episodes.step(np.asarray(actions))
            state, end = _absorb(self._fleet, state, actions, outcome, jnp.int32(now))
            ended.append(end)
            if learns and (now + 1) % period == 0:
                state, loss = _improve(self._fleet, state, jnp.int32(now + 1))
                losses.append(loss)
        return state, Happened(_rows(ended), _rows(losses) if losses else None)

    def snapshot(self) -> dict[str, Any]:
        return self._episodes.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._episodes.restore(snapshot)

    def close(self) -> None:
        self._episodes.close()


@partial(jax.jit, static_argnames="spec")
def _begin(fleet: Run, frame: Shaped[Array, "N ..."], *, spec: Any) -> State:
    return jax.vmap(lambda run, frame: learner.start(run, spec, None, frame))(fleet, frame)


@jax.jit
def _actions(fleet: Run, params: Params, stack: Shaped[Array, "N S ..."], time: Int[Array, ""]) -> Int[Array, " N"]:
    def one(run: Run, params: Params, stack: Shaped[Array, "S ..."]) -> Int[Array, ""]:
        return learner.act(run, params, stack, run.schedule.exploration(time), learner.play_keys(run, time))

    return jax.vmap(one)(fleet, params, stack)


@partial(jax.jit, donate_argnums=1)
def _absorb(
    fleet: Run, state: State, action: Int[Array, " N"], outcome: Any, time: Int[Array, ""]
) -> tuple[State, Ended]:
    def one(run: Run, state: State, action: Int[Array, ""], outcome: Any) -> tuple[State, Ended]:
        seen = state.episode.stack[-1]
        step = Step(seen, action, outcome.reward, outcome.next_frame, outcome.terminal, outcome.timeout)
        episode, ended = learner.advance(state.episode, step, None, outcome.frame)
        steps = jax.tree.map(lambda leaf: leaf[None], step)
        return learner.remember(run, state._replace(episode=episode), steps, time), ended

    return jax.vmap(one)(fleet, state, action, outcome)


@partial(jax.jit, donate_argnums=1, compiler_options=COMPILER_OPTIONS)
def _improve(fleet: Run, state: State, time: Int[Array, ""]) -> tuple[State, Losses]:
    return jax.vmap(learner.update, in_axes=(0, 0, None))(fleet, state, time)


def _rows(each: Sequence[Any]) -> Any:
    """One row after the other, in host memory; the environments wait for the device in every step as it is."""
    return jax.tree.map(lambda *rows: np.stack(rows), *jax.device_get(each))
