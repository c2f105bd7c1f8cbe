"""A trained run in Python: what it would do, how it represents states, and how far apart it takes them to be."""

import json
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from mico.deep import compilation_cache, learner
from mico.deep.agents import AbstractAgent, AbstractValueAgent
from mico.deep.metric_losses import AbstractMetricLoss, MICo
from mico.deep.parameters import load_parameters
from mico.deep.settings import Run, revive
from mico.deep.types import Params

Observations = Shaped[Array, "..."] | Shaped[np.ndarray, "..."]


@final
class Trained:
    """A run with the parameters it had at `step`. Observations are single ones or batches of them."""

    def __init__(self, settings: Run, step: int, params: Params):
        self.settings, self.step, self.params = settings, step, params

    def values(self, observation: Observations) -> Float[np.ndarray, "*B A"]:
        """The value of each action; sampled fractions (IQN) are the same in every call."""
        agent = self.settings.agent
        if not isinstance(agent, AbstractValueAgent):
            raise ValueError(f"values are of one of several actions, but those of {self.settings.env.name} are vectors")
        batch, single = self._batch(observation)
        found = np.asarray(_values(agent, self.params, self.settings.seed, batch))
        return found[0] if single else found

    def act(self, observation: Observations) -> int | Shaped[np.ndarray, "..."]:
        """What it takes for the best action."""
        batch, single = self._batch(observation)
        found = np.asarray(_best(self.settings.agent, self.params, self.settings.seed, batch))
        if found.ndim == 1 and single:
            return int(found[0])
        return found[0] if single else found

    def represent(self, observation: Observations) -> Float[np.ndarray, "*B D"]:
        r"""$\phi_\omega$."""
        batch, single = self._batch(observation)
        found = np.asarray(_represented(self.params, batch))
        return found[0] if single else found

    def distance(self, one: Observations, other: Observations) -> float | Float[np.ndarray, "..."]:
        """What the run's metric loss learns of a pair, or without one MICo's U_ω.

        Two observations give a number, two batches that of every one with every other.
        """
        metric = MICo() if self.settings.metric is None else self.settings.metric
        (x, x_single), (y, y_single) = self._batch(one), self._batch(other)
        found = np.asarray(_measured(metric, self.params, x, y))
        found = found[0] if x_single else found
        found = found[..., 0] if y_single else found
        return float(found) if found.ndim == 0 else found

    def _batch(self, observation: Observations) -> tuple[Shaped[np.ndarray, "B ..."], bool]:
        """Observations as a batch, and whether there was but one; bytes stay bytes, which the networks rely on."""
        shape, dtype = self.settings.observation_shape, self.settings.env.spec.dtype
        given = np.asarray(observation)
        if given.ndim - len(shape) not in (0, 1) or given.shape[given.ndim - len(shape) :] != shape:
            raise ValueError(f"observation must have shape {list(shape)}, or be a batch of such, not {[*given.shape]}")
        if dtype == "uint8" and given.dtype.kind not in "iu":
            raise ValueError(f"observation must hold bytes, as the environment shows them, not {given.dtype}")
        single = given.ndim == len(shape)
        return (given[None] if single else given).astype(dtype), single


@jax.jit
def _values(
    agent: AbstractValueAgent, params: Params, seed: int | Int[Array, ""], batch: Shaped[Array, "B ..."]
) -> Float[Array, "B A"]:
    key, _ = jax.random.split(jax.random.key(seed))  # as acting does
    return jax.vmap(lambda one: agent.q_values(params.head, params.encoder(one), key))(batch)


@jax.jit
def _best(
    agent: AbstractAgent, params: Params, seed: int | Int[Array, ""], batch: Shaped[Array, "B ..."]
) -> Shaped[Array, "B ..."]:
    keys, never = jax.random.split(jax.random.key(seed)), jnp.zeros(())
    return jax.vmap(lambda one: agent.perform(params, one, never, keys))(batch)


@jax.jit
def _represented(params: Params, batch: Shaped[Array, "B ..."]) -> Float[Array, "B D"]:
    return jax.vmap(params.encoder)(batch)


@jax.jit
def _measured(
    metric: AbstractMetricLoss, params: Params, x: Shaped[Array, "B ..."], y: Shaped[Array, "C ..."]
) -> Float[Array, "B C"]:
    return metric.measures(jax.vmap(params.encoder)(x), jax.vmap(params.encoder)(y))


def load(folder: str | Path) -> Trained:
    """The run in a folder, with its newest parameters; it may still be training."""
    path = Path(folder)
    compilation_cache.enable()
    described = _described(path)
    try:
        settings = revive(described)
        blank = jax.eval_shape(lambda: learner.fresh_params(settings, settings.env.spec))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / 'config.json'} describes no run that can be made here: {error!r}") from error
    step, params = load_parameters(path, blank)
    return Trained(settings, min(step, _frozen_at(path) or step), params)


def _frozen_at(path: Path) -> int | None:
    """Where a run that was not finite stopped learning, by the last row of its log, as older parameters do not."""
    log = path / "log.jsonl"
    rows = log.read_bytes().split(b"\n") if log.is_file() else []
    try:
        return json.loads(next(filter(None, reversed(rows)), b"{}")).get("not_finite_at")
    except (ValueError, AttributeError):  # it is still being written, or damaged, which whoever needs the log will say
        return None


def _described(path: Path) -> Any:
    """The settings in config.json, whatever they are."""
    file = path / "config.json"
    if not file.is_file():
        inside = sorted(entry.parent.name for entry in path.glob("*/config.json"))
        hint = f"; the runs in it are {', '.join(inside)}" if inside else ""
        raise ValueError(f"{path} is no run: it has no config.json{hint}")
    try:
        return json.loads(file.read_bytes())["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not the configuration of a run: {error!r}") from error
