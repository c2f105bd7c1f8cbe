"""Training state and its moves for one run, shared by every agent: start, act, absorb a step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.replay import frame_stack
from mico.deep.replay.replay import Memory
from mico.deep.types import Params, Spec, Step

INIT, RESET, PLAY, LEARN, LOOK = range(5)  # streams of randomness of a run


class Episode(NamedTuple):
    """Where a run is in its environment: the environment's state, the last frames, and the episode's return so far."""

    env: Any
    stack: Shaped[Array, "S ..."]
    returned: Float[Array, ""]
    length: Int[Array, ""]


class State(NamedTuple):
    """All of a run that changes while it trains; `bad_step` is −1 until a loss or gradient is not finite."""

    params: Params
    target: Params
    optimiser: Any
    memory: Memory
    episode: Episode
    bad_step: Int[Array, ""]


class Ended(NamedTuple):
    """Whether a step ended an episode, and the return and length of the episode up to it."""

    ended: Bool[Array, "..."]
    returned: Float[Array, "..."]
    length: Int[Array, "..."]


class Losses(NamedTuple):
    """Of one update: whether it was made, and the losses it saw."""

    updated: Bool[Array, "..."]
    loss: Float[Array, "..."]
    td_loss: Float[Array, "..."]
    metric_loss: Float[Array, "..."]


def fresh_params(run: Run, spec: Spec) -> Params:
    """What learning starts from."""
    of_encoder, of_head, of_metric = jax.random.split(key(run, INIT, 0), 3)
    shape = run.replay.observation_shape(spec)
    encoder, sizes = run.network.make(shape, key=of_encoder), run.network.sizes(shape)
    head = run.agent.init(sizes, spec, run.network, key=of_head)
    return Params(encoder, head, None if run.metric is None else run.metric.init(of_metric, sizes.phi, spec))


def start(run: Run, spec: Spec, env: Any, frame: Shaped[Array, "..."]) -> State:
    """Before the first step, which sees `frame`."""
    params = fresh_params(run, spec)
    stack = frame_stack.fresh(frame, run.replay.stack)
    return State(
        params,
        jax.tree.map(jnp.copy, params),  # donated apart from the parameters
        run.agent.optimiser().init(params),
        run.replay.init(spec),
        Episode(env, stack, returned=jnp.zeros(()), length=jnp.zeros((), dtype=jnp.int32)),
        bad_step=jnp.full((), -1, dtype=jnp.int32),
    )


def reset_key(run: Run) -> Key[Array, ""]:
    """For the first episode."""
    return key(run, RESET, 0)


def play_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "3"]:
    """For the values, the choice and the environment of the step at this time."""
    return jax.random.split(key(run, PLAY, time), 3)


def act(
    run: Run, params: Params, stack: Shaped[Array, "S ..."], epsilon: Float[Array, ""], keys: Key[Array, "3"]
) -> Shaped[Array, "..."]:
    """By the online network, as the agent explores."""
    return run.agent.act(params, frame_stack.stacked(stack), epsilon, keys[:2])


def perform(
    run: Run, params: Params, stack: Shaped[Array, "S ..."], epsilon: Float[Array, ""], keys: Key[Array, "3"]
) -> Shaped[Array, "..."]:
    """The best action, or with probability ε any."""
    return run.agent.perform(params, frame_stack.stacked(stack), epsilon, keys[:2])


def advance(episode: Episode, step: Step, env: Any, frame: Shaped[Array, "..."]) -> tuple[Episode, Ended]:
    """After a step that left the environment at `env`, with `frame` to act on."""
    ended = step.terminal | step.timeout
    count = episode.stack.shape[0]
    stack = jnp.where(ended, frame_stack.fresh(frame, count), frame_stack.pushed(episode.stack, frame))
    returned, length = episode.returned + step.reward, episode.length + 1
    going = Episode(env, stack, jnp.where(ended, 0.0, returned), jnp.where(ended, 0, length))
    return going, Ended(ended, returned, length)


def remembered(run: Run, memory: Memory, steps: Step, time: Int[Array, ""]) -> Memory:
    """The replay with steps [k] added, the first of which was taken at `time`."""
    clip = run.agent.reward_clip
    if clip is not None:
        steps = steps._replace(reward=jnp.clip(steps.reward, -clip, clip))
    return run.replay.add(memory, steps, time, run.window)


def key(run: Run, stream: int, time: Int[Array, ""] | int) -> Key[Array, ""]:
    """Every draw of a run follows from its seed, what it is for, and when."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), stream), time)
