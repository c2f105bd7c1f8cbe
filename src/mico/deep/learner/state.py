"""The training state of one run: what changes while it trains, how it starts, and the keys of its random draws.

Every draw follows from the run's seed, a stream and a step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.replay import frame_stack
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params, Spec

INIT, RESET, PLAY, LEARN, DIAGNOSTICS = range(5)  # streams; their numbers are part of every result


class EnvCarry(NamedTuple):
    """A run's place in its environment: the environment's state, the last frames, return and length so far."""

    env: Any
    stack: Shaped[Array, "S ..."]
    returned: Float[Array, ""]
    length: Int[Array, ""]


class TrainState(NamedTuple):
    """Everything of a run that changes while it trains; `bad_step` is −1 until a loss or gradient is not finite."""

    params: Params
    target: Params
    optimiser: Any
    memory: ReplayState
    episode: EnvCarry
    bad_step: Int[Array, ""]


class EpisodeEnd(NamedTuple):
    """Whether a step ended an episode, and the return and length of the episode up to that step."""

    ended: Bool[Array, "..."]
    returned: Float[Array, "..."]
    length: Int[Array, "..."]


class UpdateMetrics(NamedTuple):
    """Whether an update was applied, and the losses of its batch."""

    applied: Bool[Array, "..."]
    loss: Float[Array, "..."]
    td_loss: Float[Array, "..."]
    metric_loss: Float[Array, "..."]


def init_params(run: Run, spec: Spec) -> Params:
    """Draw the parameters that training starts from."""
    of_encoder, of_head, of_metric = jax.random.split(stream_key(run, INIT, 0), 3)
    shape = run.replay.observation_shape(spec)
    encoder, sizes = run.network.make(shape, key=of_encoder), run.network.sizes(shape)
    head = run.agent.init(sizes, spec, run.network, key=of_head)
    return Params(encoder, head, None if run.metric is None else run.metric.init(of_metric, sizes.phi, spec))


def init_state(run: Run, spec: Spec, env: Any, frame: Shaped[Array, "..."]) -> TrainState:
    """Make the state before the first step, the environment being in state `env` and showing `frame`."""
    params = init_params(run, spec)
    stack = frame_stack.start_stack(frame, run.replay.stack)
    return TrainState(
        params,
        jax.tree.map(jnp.copy, params),  # its own buffers: parameters and target are donated separately
        run.agent.optimiser().init(params),
        run.replay.init(spec),
        EnvCarry(env, stack, returned=jnp.zeros(()), length=jnp.zeros((), dtype=jnp.int32)),
        bad_step=jnp.full((), -1, dtype=jnp.int32),
    )


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
