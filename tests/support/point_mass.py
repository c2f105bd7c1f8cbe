"""A point on a line that two forces push: actions are vectors, and episodes end in both ways."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mico.deep.envs import AbstractEnv
from mico.deep.types import Spec, Timestep

LIMIT = 9


class State(NamedTuple):
    place: Float[Array, ""]
    speed: Float[Array, ""]
    time: Int[Array, ""]


class PointMass(AbstractEnv):
    """It pays to be near 0 at little cost; beyond ±1 is a terminal, after `max_steps` a time-out.

    Products are by powers of 2, so that every program rounds alike. Without a `start` it is anywhere.
    """

    max_steps: int = eqx.field(static=True, default=LIMIT)
    start: float | None = eqx.field(static=True, default=None)
    name = "test/point-mass"

    def settings(self):
        return {"max_steps": self.max_steps, "start": self.start}

    @property
    def spec(self):
        return Spec((2,), "float32", 0, 2)

    def reset(self, key):
        place = jax.random.uniform(key, (), jnp.float32, -0.8, 0.8) if self.start is None else jnp.float32(self.start)
        state = State(place, jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))
        return state, _frame(state)

    def step(self, state, action, key):
        action = action.astype(jnp.float32)
        speed = state.speed / 2 + action[0] / 4 + action[1] / 8
        after = State(state.place + speed, speed, state.time + 1)
        terminal = jnp.abs(after.place) > 1
        truncated = (after.time >= self.max_steps) & ~terminal
        reward = 1 - jnp.abs(after.place) - jnp.abs(action).sum() / 8
        begun, first = self.reset(key)
        going = jax.tree.map(lambda new, old: jnp.where(terminal | truncated, new, old), begun, after)
        frame = jnp.where(terminal | truncated, first, _frame(after))
        return going, Timestep(reward, _frame(after), terminal, truncated, frame)


def _frame(state):
    return jnp.stack([state.place, state.speed])
