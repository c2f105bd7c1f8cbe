"""One gradient step of one run on a replayed batch, shared by every agent."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from mico.deep.config.run import Run
from mico.deep.learner.state import TrainState, UpdateKeys, UpdateMetrics, update_keys
from mico.deep.networks.kernels.select import with_fast_convolutions
from mico.deep.replay.replay import ReplayState
from mico.deep.types import Batch, Params, Views, stop_gradients_unless


class Sample(NamedTuple):
    """A batch, the replay's numbers of its transitions, and whether the replay had any to draw."""

    batch: Batch
    ids: Int[Array, " B"]
    available: Bool[Array, ""]


class LossTerms(NamedTuple):
    """The terms of the total loss: the TD loss of each transition, and the metric loss without and with its weight."""

    td: Float[Array, " B"]
    metric: Float[Array, ""]
    weighted_metric: Float[Array, ""]


def update(run: Run, state: TrainState, step: Int[Array, ""]) -> tuple[TrainState, UpdateMetrics]:
    """Take one gradient step on a replayed batch; a run whose loss is not finite keeps its parameters for good."""
    sample = sample_batch(run, state.memory, step)
    new, metrics, priorities = learn(run, state._replace(memory=None), sample, step)
    return new._replace(memory=run.replay.update_priorities(state.memory, sample.ids, priorities)), metrics


def sample_batch(run: Run, replay: ReplayState, step: Int[Array, ""]) -> Sample:
    """Draw a batch from the replay."""
    batch, ids = run.replay.sample(replay, step, run.window, update_keys(run, step).batch)
    return Sample(batch, ids, run.replay.can_sample(replay, step, run.window))


def learn(
    run: Run, state: TrainState, sample: Sample, step: Int[Array, ""]
) -> tuple[TrainState, UpdateMetrics, Float[Array, " B"]]:
    """Take a gradient step on a sample, in a state without its replay; also the losses that make new priorities."""
    value_and_gradients = jax.value_and_grad(total_loss, has_aux=True)
    (loss, terms), gradients = value_and_gradients(
        state.params, state.target, run, sample.batch, update_keys(run, step)
    )
    new = apply_gradients(run, state, gradients)  # the optimiser, then the target rule
    new, applied = freeze_if_not_finite(state, new, loss, gradients, sample.available, step)
    reported = (jnp.where(applied, value, 0.0) for value in (loss, terms.td.mean(), terms.metric))
    return new, UpdateMetrics(applied, *reported), priority_losses(run, sample.batch, terms)


def total_loss(
    params: Params, target: Params, run: Run, batch: Batch, keys: UpdateKeys
) -> tuple[Float[Array, ""], LossTerms]:
    r"""Compute $w_a\,(\mathbb E_i[c_i\,\ell^{TD}_i] + \ell^{other}) + w_m\,\ell^{metric}$ and its terms.

    $c_i$ are importance weights, $w_a$ and $w_m$ the weights that the metric loss gives to the agent and to itself.
    """
    shape = run.env.spec.shape
    params, target = (
        each._replace(encoder=with_fast_convolutions(run.network, shape, each.encoder)) for each in (params, target)
    )
    views = Views(run.agent, params, target, batch)
    td, other = run.agent.loss(params, target, views, batch, keys.agent)
    agent_weight, metric_weight = loss_weights(run)
    counts = jnp.asarray(metric_weight) != 0
    metric = jnp.zeros(())
    if run.metric is not None:  # if its weight is 0, no gradients: 0·NaN is NaN
        own, gated = stop_gradients_unless(counts, params.metric), views.stop_gradients_unless(counts)
        metric = run.metric.loss(own, gated, batch, keys.metric)
    weighted_metric = jnp.where(counts, metric_weight * metric, 0.0)
    loss = agent_weight * ((importance_weights(run, batch) * td).mean() + other) + weighted_metric
    return loss, LossTerms(td, metric, weighted_metric)


def loss_weights(run: Run) -> tuple[float | Float[Array, ""], float | Float[Array, ""]]:
    """Weights of the agent's loss and of the metric loss."""
    return (1.0, 0.0) if run.metric is None else run.metric.loss_weights


def importance_weights(run: Run, batch: Batch) -> Float[Array, " B"]:
    """Weights of the TD losses that correct for prioritised sampling, or ones if the agent uses none."""
    return batch.weight if run.agent.importance == "weighted" else jnp.ones_like(batch.weight)


def priority_losses(run: Run, batch: Batch, terms: LossTerms) -> Float[Array, " B"]:
    """Losses that priorities are made of: TD alone, or as minimised together with the metric loss."""
    if run.agent.priorities == "td":
        return terms.td
    agent_weight, _ = loss_weights(run)
    metric = 0.0 if run.metric is None else run.metric.priority_term(terms.weighted_metric)
    return agent_weight * importance_weights(run, batch) * terms.td + metric


def apply_gradients(run: Run, state: TrainState, gradients: Params) -> TrainState:
    """Let the optimiser change the parameters, and then the target rule the target network."""
    changes, optimiser = run.agent.optimiser().update(gradients, state.optimiser)
    params = optax.apply_updates(state.params, changes)
    return state._replace(params=params, target=run.target_rule.follow(state.target, params), optimiser=optimiser)


def freeze_if_not_finite(
    old: TrainState,
    new: TrainState,
    loss: Float[Array, ""],
    gradients: Params,
    available: Bool[Array, ""],
    step: Int[Array, ""],
) -> tuple[TrainState, Bool[Array, ""]]:
    """Keep the old state where the replay was empty or anything was not finite, now or before; note the first bad step.

    Also says whether the new state was taken.
    """
    finite = jnp.isfinite(loss) & are_finite(gradients)
    frozen = old.bad_step >= 0
    applied = finite & available & ~frozen

    def choose(new: Any, old: Any) -> Any:
        return old if new is old else jnp.where(applied, new, old)

    kept = {name: jax.tree.map(choose, getattr(new, name), getattr(old, name)) for name in _LEARNT}
    bad_step = jnp.where(finite | ~available | frozen, old.bad_step, step).astype(jnp.int32)
    return new._replace(**kept, bad_step=bad_step), applied


_LEARNT = ("params", "target", "optimiser")


def are_finite(gradients: Params) -> Bool[Array, ""]:
    """Whether gradients of rank 0 and 1 are finite: matrices would take long to read.

    A value that is not finite in any layer reaches the gradient of that layer's bias. Overflow inside the gradient of
    a matrix alone is caught by the next loss.
    """
    vectors = [leaf for leaf in jax.tree.leaves(gradients) if leaf.ndim < 2]
    return jnp.isfinite(sum((0 * leaf).sum() for leaf in vectors))
