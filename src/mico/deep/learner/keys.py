"""Random keys of a run: every draw follows from its seed, a stream and a step."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Int, Key

from mico.deep.config.run import Run

INIT, RESET, PLAY, LEARN, DIAGNOSTICS = range(5)  # streams; their numbers are part of every result


class UpdateKeys(NamedTuple):
    """Keys of one update: for the batch, the agent's loss and the metric loss."""

    batch: Key[Array, ""]
    agent: Key[Array, ""]
    metric: Key[Array, ""]


def stream_key(run: Run, stream: int, step: Int[Array, ""] | int) -> Key[Array, ""]:
    """Derive the key of a stream at a step from the run's seed."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), stream), step)


def reset_key(run: Run) -> Key[Array, ""]:
    """Derive the key of the first episode."""
    return stream_key(run, RESET, 0)


def play_keys(run: Run, step: Int[Array, ""]) -> Key[Array, "3"]:
    """Derive the keys of a step in the environment: for action values, exploration and the environment."""
    return jax.random.split(stream_key(run, PLAY, step), 3)


def update_keys(run: Run, step: Int[Array, ""]) -> UpdateKeys:
    """Derive the keys of an update."""
    keys = jax.random.split(stream_key(run, LEARN, step), 3)
    return UpdateKeys(keys[0], keys[1], keys[2])
