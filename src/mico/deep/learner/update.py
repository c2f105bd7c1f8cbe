"""What a run learns from a replayed batch: one gradient step, shared by every agent."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from mico.deep.config.run import Run
from mico.deep.learner.batching import each_in_turn, in_turn, quickest
from mico.deep.learner.state import LEARN, Losses, State, key
from mico.deep.metric_losses.pair_loss import AbstractPairLoss
from mico.deep.replay.replay import Memory
from mico.deep.types import Batch, Features, FirstStep, Params, Sink, Views


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
    new, losses, priorities = each_in_turn(lambda one: _improve(one[0], one[1], one[2], time), each)
    memory = jax.vmap(_reprioritised)(fleet, state.memory, drawn.ids, priorities)
    return new._replace(memory=memory), losses


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
    counts = jnp.asarray(of_loss) != 0
    target = quickest(run, state.target)

    def objective(params: Params) -> tuple[Float[Array, ""], tuple[Float[Array, "..."], ...]]:
        params = quickest(run, params)
        seen = views(run, params, target, batch)
        td, other = run.agent.losses(params, target, seen, batch, of_td)
        own, shown = _learnt_if(counts, (params.metric, seen))
        metric = jnp.zeros(()) if run.metric is None else run.metric.loss(own, shown, batch, of_metric)
        share = jnp.where(counts, of_loss * metric, 0.0)
        return of_agent * ((weight * td).mean() + other) + share, (td, metric, share)

    (loss, (td, metric, share)), gradients = jax.value_and_grad(objective, has_aux=True)(state.params)
    changes, optimiser = run.agent.optimiser().update(gradients, state.optimiser)
    finite = jnp.isfinite(loss) & _finite(gradients)
    sound = finite & there & (state.bad_step < 0)
    params = optax.apply_updates(state.params, changes)
    new = state._replace(params=params, target=run.agent.followed(state.target, params), optimiser=optimiser)
    moved = ("params", "optimiser") if run.agent.targets == "copied" else ("params", "target", "optimiser")
    kept = {name: _select(sound, getattr(new, name), getattr(state, name)) for name in moved}
    first_bad = jnp.where(finite | ~there | (state.bad_step >= 0), state.bad_step, time).astype(jnp.int32)
    losses = (jnp.where(sound, number, 0.0) for number in (loss, td.mean(), metric))
    of_all = share if isinstance(run.metric, AbstractPairLoss) else 0.0  # those of models may be negative
    priorities = run.agent.priority_losses(td, of_agent * weight * td + of_all)
    return state._replace(**kept, bad_step=first_bad), Losses(sound, *losses), priorities


def _update_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "3"]:
    """For the batch, the agent and the metric loss."""
    return jax.random.split(key(run, LEARN, time), 3)


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


def _learnt_if(counts: Bool[Array, ""], tree: Any) -> Any:
    """As it is, without gradients where a loss has no share: 0 times one that is not finite would not be 0."""
    return jax.tree.map(lambda leaf: jnp.where(counts, leaf, jax.lax.stop_gradient(leaf)), tree)


def _finite(gradients: Any) -> Bool[Array, ""]:
    """Judged by biases, which sum up whatever comes back through their layers; matrices would take long to read.

    What overflows only as it is multiplied into a matrix shows in the next loss.
    """
    vectors = [leaf for leaf in jax.tree.leaves(gradients) if leaf.ndim < 2]
    return jnp.isfinite(sum((0 * leaf).sum() for leaf in vectors))


def _select(new_is_sound: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda one, other: jnp.where(new_is_sound, one, other), new, old)
