"""What the representation of a run is like, by a replayed batch: what its log says of it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from mico.deep.config.run import Run
from mico.deep.learner import representation_metrics
from mico.deep.learner.batching import each_in_turn, in_turn, quickest
from mico.deep.learner.state import LOOK, State, key
from mico.deep.metric_losses.mico import MICo, angle
from mico.deep.replay.replay import Memory
from mico.deep.types import Params

_BETA = 0.1  # of the distances in the log of runs whose metric loss has no β of its own


def look(run: Run, state: State, time: Int[Array, ""]) -> dict[str, Float[Array, ""]]:
    """What the representation of a replayed batch is like: values, norms, angles, learnt distances and their sense."""
    return _looked(run, state.params, _shown(run, state.memory, time), time)


def look_each(fleet: Run, state: State, time: Int[Array, ""]) -> dict[str, Float[Array, " N"]]:
    """The same of all runs of a fleet, side by side or in turn, as they are updated."""
    if not in_turn(fleet):
        return jax.vmap(look, in_axes=(0, 0, None))(fleet, state, time)
    shown = jax.vmap(_shown, in_axes=(0, 0, None))(fleet, state.memory, time)
    return each_in_turn(lambda one: _looked(one[0], one[1], one[2], time), (fleet, state.params, shown))


def _shown(run: Run, memory: Memory, time: Int[Array, ""]) -> Shaped[Array, "B ..."]:
    """The observations of a replayed batch."""
    of_batch, _ = _look_keys(run, time)
    batch, _ = run.replay.sample(memory, time, run.window, of_batch)
    return batch.observation


def _looked(
    run: Run, params: Params, observations: Shaped[Array, "B ..."], time: Int[Array, ""]
) -> dict[str, Float[Array, ""]]:
    _, of_values = _look_keys(run, time)
    params = quickest(run, params)
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
        "effective_rank": representation_metrics.effective_rank(phi),
        "dead_units": representation_metrics.dead_units(phi),
        "agreement": representation_metrics.agreement(distance, worth),
    }


def _look_keys(run: Run, time: Int[Array, ""]) -> Key[Array, "2"]:
    """For the batch, and for the values."""
    return jax.random.split(key(run, LOOK, time))
