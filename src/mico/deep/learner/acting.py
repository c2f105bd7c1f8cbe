"""One run's steps in its environment: choose an action, follow the episode, add steps to the replay."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.learner.state import EnvCarry, EpisodeEnd
from mico.deep.replay import frame_stack
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Params, Timestep


def act(
    run: Run,
    params: Params,
    stack: Shaped[Array, "S ..."],
    epsilon: Float[Array, ""],
    keys: Key[Array, "3"],
    *,
    explore: bool = True,
) -> Shaped[Array, "..."]:
    """Choose an action as in training, or without `explore` the best one; with probability ε any, either way."""
    return run.agent.act(params, frame_stack.stack_frames(stack), epsilon, keys[:2], explore=explore)


def advance_episode(episode: EnvCarry, step: Timestep, env: object) -> tuple[EnvCarry, EpisodeEnd]:
    """Follow an episode over a step that left the environment in state `env`."""
    ended, frame, count = step.ended, step.reset_frame, episode.stack.shape[0]
    stack = jnp.where(ended, frame_stack.start_stack(frame, count), frame_stack.push(episode.stack, frame))
    returned, length = episode.returned + step.reward, episode.length + 1
    going = EnvCarry(env, stack, jnp.where(ended, 0.0, returned), jnp.where(ended, 0, length))
    return going, EpisodeEnd(ended, returned, length)


def add_to_replay(run: Run, replay: ReplayState, steps: Timestep, time: Int[Array, ""]) -> ReplayState:
    """Add steps [k], the first of which was taken at `time`, with their rewards clipped as the agent wants them."""
    clip = run.agent.reward_clip
    if clip is not None:
        steps = steps._replace(reward=jnp.clip(steps.reward, -clip, clip))
    return run.replay.add(replay, steps, time, run.window)
