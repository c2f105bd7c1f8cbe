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
from mico.deep.fleet import Tally, tally
from mico.deep.learner import Ended, Params, State
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

    def play(self, state: State, time: int, length: int, learns: bool) -> tuple[State, Tally]:
        """A chunk of steps of every run, with an update every period if the chunk `learns`."""
        period = self._fleet.schedule.update_period
        sums = _nothing(state.bad_step.size)
        for now in range(time, time + length):
            actions = _actions(self._fleet, state.params, state.episode.stack, jnp.int32(now))
            outcome = self._episodes.step(np.asarray(actions))
            state, sums = _absorb(self._fleet, state, sums, actions, outcome, jnp.int32(now))
            if learns and (now + 1) % period == 0:
                state, sums = _improve(self._fleet, state, sums, jnp.int32(now + 1))
        return state, sums

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


@partial(jax.jit, donate_argnums=(1, 2))
def _absorb(
    fleet: Run, state: State, sums: Tally, action: Int[Array, " N"], outcome: Any, time: Int[Array, ""]
) -> tuple[State, Tally]:
    def one(run: Run, state: State, action: Int[Array, ""], outcome: Any) -> tuple[State, Ended]:
        seen = state.episode.stack[-1]
        step = Step(seen, action, outcome.reward, outcome.next_frame, outcome.terminal, outcome.timeout)
        episode, ended = learner.advance(state.episode, step, None, outcome.frame)
        steps = jax.tree.map(lambda leaf: leaf[None], step)
        return learner.remember(run, state._replace(episode=episode), steps, time), ended

    state, ended = jax.vmap(one)(fleet, state, action, outcome)
    return state, _joined(sums, tally(jax.tree.map(lambda leaf: leaf[None, :, None], ended), None))


@partial(jax.jit, donate_argnums=(1, 2))
def _improve(fleet: Run, state: State, sums: Tally, time: Int[Array, ""]) -> tuple[State, Tally]:
    state, losses = jax.vmap(learner.update, in_axes=(0, 0, None))(fleet, state, time)
    return state, sums._replace(
        updates=sums.updates + losses.updated,
        loss=sums.loss + losses.loss,
        td_loss=sums.td_loss + losses.td_loss,
        metric_loss=sums.metric_loss + losses.metric_loss,
    )


@partial(jax.jit, static_argnums=0)
def _nothing(count: int) -> Tally:
    """Sums over nothing."""
    zeros = Tally(*(jnp.zeros(count) for _ in Tally._fields))
    return zeros._replace(least=jnp.full(count, jnp.inf), most=jnp.full(count, -jnp.inf))


def _joined(one: Tally, other: Tally) -> Tally:
    least, most = jnp.minimum(one.least, other.least), jnp.maximum(one.most, other.most)
    return Tally(*(a + b for a, b in zip(one, other)))._replace(least=least, most=most)
