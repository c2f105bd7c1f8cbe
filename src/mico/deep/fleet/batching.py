"""Updates and diagnostics of many runs: side by side by `vmap`, or one after another where one fills the device."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mico.deep.config.run import Run
from mico.deep.learner.diagnostics import diagnose, diagnose_batch, sample_observations
from mico.deep.learner.state import TrainState, UpdateMetrics
from mico.deep.learner.update import learn, sample_batch, update


def updates_sequentially(run: Run) -> bool:
    """Whether runs are updated one after another because the batch of one keeps the device busy."""
    return run.network.fills_device(run.env.spec.shape)


def map_sequentially(function: Callable[[Any], Any], trees: Any) -> Any:
    """Apply a function to each tree of a stack in turn; the results are stacked.

    On a CPU without a loop in the program, in which gradients of JAX's own convolutions take far longer.
    """
    count = jax.tree.leaves(trees)[0].shape[0]
    if count > 1 and jax.default_backend() != "cpu":
        return jax.lax.map(function, trees)
    found = [function(jax.tree.map(lambda leaf, index=index: leaf[index], trees)) for index in range(count)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


def update_fleet(fleet: Run, state: TrainState, step: Int[Array, ""]) -> tuple[TrainState, UpdateMetrics]:
    """Take one gradient step of every run.

    Batches are always drawn side by side: in a loop, XLA would copy each run's part of the replay.
    """
    if not updates_sequentially(fleet):
        return jax.vmap(update, in_axes=(0, 0, None))(fleet, state, step)
    sample = jax.vmap(sample_batch, in_axes=(0, 0, None))(fleet, state.memory, step)
    stacked = fleet, state._replace(memory=None), sample
    new, metrics, priorities = map_sequentially(lambda one: learn(one[0], one[1], one[2], step), stacked)
    write = jax.vmap(lambda run, *args: run.replay.update_priorities(*args))
    return new._replace(memory=write(fleet, state.memory, sample.ids, priorities)), metrics


def diagnose_fleet(fleet: Run, state: TrainState, step: Int[Array, ""]) -> dict[str, Float[Array, " N"]]:
    """Measure the representations of every run."""
    if not updates_sequentially(fleet):
        return jax.vmap(diagnose, in_axes=(0, 0, None))(fleet, state, step)
    observations = jax.vmap(sample_observations, in_axes=(0, 0, None))(fleet, state.memory, step)
    stacked = fleet, state.params, observations
    return map_sequentially(lambda one: diagnose_batch(one[0], one[1], one[2], step), stacked)
