"""Random play in environments inside JAX."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mico.deep.types import Timestep


class Rollout(NamedTuple):
    first_frame: jax.Array
    actions: jax.Array
    states: Any  # after each step
    steps: Timestep


@partial(jax.jit, static_argnames="steps")
def rollout(env, key, steps):
    """One trajectory of uniformly random actions, episode after episode."""
    reset_key, action_key, key = jax.random.split(key, 3)
    actions = jax.random.randint(action_key, (steps,), 0, env.spec.num_actions, dtype=jnp.int32)

    def step(state, at):
        state, timestep = env.step(state, *at)
        return state, (state, timestep)

    state, first_frame = env.reset(reset_key)
    states, timesteps = jax.lax.scan(step, state, (actions, jax.random.split(key, steps)))[1]
    return Rollout(first_frame, actions, states, timesteps)


@partial(jax.jit, static_argnames="steps")
def rollouts(env, keys, steps):
    """Many of them, side by side."""
    return jax.vmap(partial(rollout, steps=steps), in_axes=(None, 0))(env, keys)
