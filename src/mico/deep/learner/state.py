"""The training state of one run: what changes while it trains, and how it starts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from mico.deep.config.run import Run
from mico.deep.learner.keys import INIT, stream_key
from mico.deep.replay import frame_stack
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params, Spec


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
