"""An environment inside JAX: RiverSwim (Strehl and Littman, 2008), where the large reward is upstream."""

import jax
import jax.numpy as jnp

from mico.deep.envs import AbstractEnv
from mico.deep.types import Spec, Timestep


class RiverSwim(AbstractEnv):
    """RiverSwim: swim against the current to a large reward, or stay downstream at a small one."""

    length: int = 6
    """Cells of the river."""
    max_steps: int = 60
    """Steps after which an episode is truncated."""
    current: float = 0.05
    """Probability of being carried back by a stroke upstream."""
    preset = "table"  # what trainings in it take for all that is not given

    @property
    def spec(self):
        return Spec(shape=(self.length,), dtype="bool", num_actions=2)

    def reset(self, key):
        cell = jax.random.randint(key, (), 1, 3, jnp.int32)
        return (cell, jnp.int32(0)), jnp.arange(self.length) == cell

    def step(self, state, action, key):
        of_move, of_reset = jax.random.split(key)
        cell, time = state
        chance = jax.random.uniform(of_move)
        stroke = jnp.where(chance < self.current, -1, jnp.where(chance < 0.65, 0, 1))
        moved = jnp.clip(cell + jnp.where(action == 1, stroke, -1), 0, self.length - 1).astype(jnp.int32)
        reward = jnp.where(
            (cell == self.length - 1) & (action == 1), 1.0, jnp.where((cell == 0) & (action == 0), 0.005, 0)
        )
        frame, truncated = jnp.arange(self.length) == moved, time + 1 >= self.max_steps
        new, first = self.reset(of_reset)
        state = jax.tree.map(lambda one, other: jnp.where(truncated, one, other), new, (moved, time + 1))
        return state, Timestep(reward, frame, jnp.array(False), truncated, jnp.where(truncated, first, frame))
