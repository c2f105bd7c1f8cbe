"""Training state and its moves for one run, shared by every agent: start, act, absorb a step, update."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from mico.deep import frames, geometry
from mico.deep.layers import by_library
from mico.deep.metric_losses.mico import MICo, angle
from mico.deep.metric_losses.pairing import AbstractPairLoss
from mico.deep.replay import Memory
from mico.deep.settings import Run
from mico.deep.types import Batch, Features, FirstStep, Params, Sink, Spec, Step, Views

_INIT, _RESET, _PLAY, _LEARN, _LOOK = range(5)  # streams of randomness of a run
_BETA = 0.1  # of the distances in the log of runs whose metric loss has no β of its own


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
    of_encoder, of_head, of_metric = jax.random.split(_key(run, _INIT, 0), 3)
    shape = run.replay.observation_shape(spec)
    encoder, sizes = run.network.make(shape, key=of_encoder), run.network.sizes(shape)
    head = run.agent.init(sizes, spec, run.network, key=of_head)
    return Params(encoder, head, None if run.metric is None else run.metric.init(of_metric, sizes.phi, spec))


def start(run: Run, spec: Spec, env: Any, frame: Shaped[Array, "..."]) -> State:
    """Before the first step, which sees `frame`."""
    params = fresh_params(run, spec)
    stack = frames.fresh(frame, run.replay.stack)
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
    return _key(run, _RESET, 0)


def play_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "3"]:
    """For the values, the choice and the environment of the step at this time."""
    return jax.random.split(_key(run, _PLAY, time), 3)


def act(
    run: Run, params: Params, stack: Shaped[Array, "S ..."], epsilon: Float[Array, ""], keys: Key[Array, "3"]
) -> Shaped[Array, "..."]:
    """By the online network, as the agent explores."""
    return run.agent.act(params, frames.stacked(stack), epsilon, keys[:2])


def perform(
    run: Run, params: Params, stack: Shaped[Array, "S ..."], epsilon: Float[Array, ""], keys: Key[Array, "3"]
) -> Shaped[Array, "..."]:
    """The best action, or with probability ε any."""
    return run.agent.perform(params, frames.stacked(stack), epsilon, keys[:2])


def advance(episode: Episode, step: Step, env: Any, frame: Shaped[Array, "..."]) -> tuple[Episode, Ended]:
    """After a step that left the environment at `env`, with `frame` to act on."""
    ended = step.terminal | step.timeout
    count = episode.stack.shape[0]
    stack = jnp.where(ended, frames.fresh(frame, count), frames.pushed(episode.stack, frame))
    returned, length = episode.returned + step.reward, episode.length + 1
    going = Episode(env, stack, jnp.where(ended, 0.0, returned), jnp.where(ended, 0, length))
    return going, Ended(ended, returned, length)


def remembered(run: Run, memory: Memory, steps: Step, time: Int[Array, ""]) -> Memory:
    """The replay with steps [k] added, the first of which was taken at `time`."""
    clip = run.agent.reward_clip
    if clip is not None:
        steps = steps._replace(reward=jnp.clip(steps.reward, -clip, clip))
    return run.replay.add(memory, steps, time, run.window)


def update(run: Run, state: State, time: Int[Array, ""]) -> tuple[State, Losses]:
    """One gradient step on a replayed batch; a run that is not finite keeps the parameters it had, for good."""
    drawn = _draw(run, state.memory, time)
    new, losses, priorities = _improve(run, state._replace(memory=None), drawn, time)
    return new._replace(memory=_reprioritised(run, state.memory, drawn.ids, priorities)), losses


def update_each(fleet: Run, state: State, time: Int[Array, ""]) -> tuple[State, Losses]:
    """The same of all runs of a fleet, side by side; or in turn, where the batch of one fills the device.

    Drawing is always side by side: a run's own part of the replay would be copied.
    """
    if not in_turn(fleet):
        return jax.vmap(update, in_axes=(0, 0, None))(fleet, state, time)
    drawn = jax.vmap(_draw, in_axes=(0, 0, None))(fleet, state.memory, time)
    each = fleet, state._replace(memory=None), drawn
    new, losses, priorities = _in_turn(lambda one: _improve(one[0], one[1], one[2], time), each)
    memory = jax.vmap(_reprioritised)(fleet, state.memory, drawn.ids, priorities)
    return new._replace(memory=memory), losses


def _in_turn(function: Callable[[Any], Any], trees: Any) -> Any:
    """What a function makes of each; in a loop, a CPU takes far longer for gradients of JAX's own convolutions."""
    count = jax.tree.leaves(trees)[0].shape[0]
    if count > 1 and jax.default_backend() != "cpu":
        return jax.lax.map(function, trees)
    found = [function(jax.tree.map(lambda leaf, index=index: leaf[index], trees)) for index in range(count)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)


def in_turn(run: Run) -> bool:
    return run.network.fills_device(run.env.spec.shape)


def _quickest(run: Run, params: Params) -> Params:
    """The same networks: where one is at work alone, with JAX's own convolutions."""
    return by_library(params) if in_turn(run) else params


class _Drawn(NamedTuple):
    """A batch, where in the replay it is from, and whether there was anything to draw."""

    batch: Batch
    ids: Any
    there: Bool[Array, ""]


def _draw(run: Run, memory: Memory, time: Int[Array, ""]) -> _Drawn:
    of_batch, _, _ = _update_keys(run, time)
    batch, ids = run.replay.sample(memory, time, run.window, of_batch)
    return _Drawn(batch, ids, run.replay.can_sample(memory, time, run.window))


def _reprioritised(run: Run, memory: Memory, ids: Any, losses: Float[Array, " B"]) -> Memory:
    return run.replay.reprioritise(memory, ids, losses)


def _improve(run: Run, state: State, drawn: _Drawn, time: Int[Array, ""]) -> tuple[State, Losses, Float[Array, " B"]]:
    """A gradient step, without the replay; and the losses by which samples will be drawn again."""
    _, of_td, of_metric = _update_keys(run, time)
    batch, there = drawn.batch, drawn.there
    weight = batch.weight if run.agent.importance == "weighted" else jnp.ones_like(batch.weight)
    of_agent, of_loss = (1.0, 0.0) if run.metric is None else run.metric.shares
    target = _quickest(run, state.target)

    def objective(params: Params) -> tuple[Float[Array, ""], tuple[Float[Array, " B"], Float[Array, ""]]]:
        params = _quickest(run, params)
        seen = views(run, params, target, batch)
        td, other = run.agent.losses(params, target, seen, batch, of_td)
        metric = jnp.zeros(()) if run.metric is None else run.metric.loss(params.metric, seen, batch, of_metric)
        return of_agent * ((weight * td).mean() + other) + of_loss * metric, (td, metric)

    (loss, (td, metric)), gradients = jax.value_and_grad(objective, has_aux=True)(state.params)
    changes, optimiser = run.agent.optimiser().update(gradients, state.optimiser)
    finite = jnp.isfinite(loss) & _finite(gradients)
    sound = finite & there & (state.bad_step < 0)
    params = optax.apply_updates(state.params, changes)
    new = state._replace(params=params, target=run.agent.followed(state.target, params), optimiser=optimiser)
    moved = ("params", "optimiser") if run.agent.targets == "copied" else ("params", "target", "optimiser")
    kept = {name: _select(sound, getattr(new, name), getattr(state, name)) for name in moved}
    first_bad = jnp.where(finite | ~there | (state.bad_step >= 0), state.bad_step, time).astype(jnp.int32)
    losses = (jnp.where(sound, number, 0.0) for number in (loss, td.mean(), metric))
    of_all = of_loss * metric if isinstance(run.metric, AbstractPairLoss) else 0.0  # those of models may be negative
    priorities = run.agent.priority_losses(td, of_agent * weight * td + of_all)
    return state._replace(**kept, bad_step=first_bad), Losses(sound, *losses), priorities


def _update_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "3"]:
    """For the batch, the agent and the metric loss."""
    return jax.random.split(_key(run, _LEARN, time), 3)


def views(run: Run, params: Params, target: Params, batch: Batch) -> Views:
    """How the batch looks to both networks; what nobody asks for is not computed."""
    needs = run.agent.needs | (frozenset() if run.metric is None else run.metric.needs)
    features = jax.vmap(lambda encoder, observation: encoder.features(observation), in_axes=(None, 0))
    projected = jax.vmap(lambda encoder, features: encoder.projected(features), in_axes=(None, 0))
    now, target_later = features(params.encoder, batch.observation), features(target.encoder, batch.next_observation)
    target_now = projected(target.encoder, features(target.encoder, batch.observation))
    seen = Views(projected(params.encoder, now), target_now, projected(target.encoder, target_later))
    if "first-step" in needs and batch.first is not None:
        after = seen.target_next
        if run.agent.horizon > 1:
            after = projected(target.encoder, features(target.encoder, batch.first.next_observation))
        gamma = jnp.asarray(run.agent.discount, dtype=batch.reward.dtype)
        seen = seen._replace(first_step=FirstStep(batch.first.reward, after, batch.first.terminal, gamma))
    if "sink" in needs:
        nothing = jnp.zeros_like(batch.observation[0])
        seen = seen._replace(sink=Sink(params.encoder(nothing), target.encoder(nothing)))
    if needs & {"features", "online-next", "actor"}:
        later = jax.lax.stop_gradient(features(params.encoder, batch.next_observation))
        online_next = jax.lax.stop_gradient(projected(params.encoder, later))
        both = Features(now, later, target_later)
        seen = seen._replace(features=both, online_next=online_next)
        if "actor" in needs:
            seen = seen._replace(actor=run.agent.latents(params, target, both))
    return seen


def look(run: Run, state: State, time: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
    """What the representation of a replayed batch is like: values, norms, angles, learnt distances and their sense."""
    return _looked(run, state.params, _shown(run, state.memory, time), time)


def look_each(fleet: Run, state: State, time: Int[Array, ""]) -> dict[str, Float[Array, " N"]]:
    """The same of all runs of a fleet, side by side or in turn, as they are updated."""
    if not in_turn(fleet):
        return jax.vmap(look, in_axes=(0, 0, None))(fleet, state, time)
    shown = jax.vmap(_shown, in_axes=(0, 0, None))(fleet, state.memory, time)
    return _in_turn(lambda one: _looked(one[0], one[1], one[2], time), (fleet, state.params, shown))


def _shown(run: Run, memory: Memory, time: Int[Array, ""]) -> Shaped[Array, "B ..."]:
    """The observations of a replayed batch."""
    of_batch, _ = _look_keys(run, time)
    batch, _ = run.replay.sample(memory, time, run.window, of_batch)
    return batch.observation


def _looked(
    run: Run, params: Params, observations: Shaped[Array, "B ..."], time: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    _, of_values = _look_keys(run, time)
    params = _quickest(run, params)
    phi = jax.vmap(params.encoder)(observations)
    worth = jax.vmap(lambda one: run.agent.outlook(params, one, of_values).worth)(observations)
    beta = getattr(run.metric, "beta", _BETA)
    apart = ~jnp.eye(phi.shape[0], dtype=bool)
    measure = MICo(beta=_BETA) if run.metric is None else run.metric
    distance = measure.measures(phi, phi)
    theta = jnp.mean(jax.vmap(jax.vmap(angle, (None, 0)), (0, None))(phi, phi), where=apart)
    return run.agent.look(params, observations, of_values) | {
        "q": worth.mean(),
        "distance": jnp.mean(distance, where=apart),
        "reduced_distance": beta * theta,
        "norm": jnp.linalg.norm(phi, axis=-1).mean(),
        "angle": theta,
        "effective_rank": geometry.effective_rank(phi),
        "dead_units": geometry.dead_units(phi),
        "agreement": geometry.agreement(distance, worth),
    }


def _look_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "2"]:
    """For the batch, and for the values."""
    return jax.random.split(_key(run, _LOOK, time))


def _key(run: Run, stream: int, time: Int[Array, ""] | int) -> Key[Array, ""]:
    """Every draw of a run follows from its seed, what it is for, and when."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.seed), stream), time)


def _finite(gradients: Any) -> Bool[Array, ""]:
    """Judged by biases, which sum up whatever comes back through their layers; matrices would take long to read.

    What overflows only as it is multiplied into a matrix shows in the next loss.
    """
    vectors = [leaf for leaf in jax.tree.leaves(gradients) if leaf.ndim < 2]
    return jnp.isfinite(sum((0 * leaf).sum() for leaf in vectors))


def _select(new_is_sound: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda one, other: jnp.where(new_is_sound, one, other), new, old)
