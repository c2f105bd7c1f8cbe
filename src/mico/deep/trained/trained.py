"""A trained run in Python: how it acts, what it predicts, and how it represents states and how far apart."""

import json
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from mico.deep.agents import AbstractAgent
from mico.deep.config.run import Run, describe, revive
from mico.deep.fleet import compilation_cache
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import AbstractMetricLoss
from mico.deep.trained.evaluate import evaluate
from mico.deep.training.run_folder import PROBLEM_FOLDER
from mico.deep.training.weights import load_parameters
from mico.deep.types import Params

Observations = Shaped[Array, "..."] | Shaped[np.ndarray, "..."]


@final
class Trained:
    """A run with the parameters that it had at one step of its training; `load` reads one from its folder.

    Observations are what the network sees: with `replay.stack` of 4, four frames. One observation gives one answer,
    and a batch (a leading axis) a batch of answers.

    Args:
        settings: The run: its agent, metric loss, environment, network and seed.
        step: The step of the training that the parameters are from.
        params: The parameters of the agent.

    Attributes:
        settings: The run.
        step: The step of the training.
        params: The parameters.

    Examples:
        >>> import numpy as np
        >>> from mico.deep import load
        >>> trained = load("runs/demo/dqn-mico-seed0")  # of mdp/frozen-lake, whose 17 states are rows of np.eye(17)
        >>> trained.predict(np.eye(17)).shape
        (17, 4)
        >>> trained.distance(np.eye(17), np.eye(17)).shape
        (17, 17)
    """

    def __init__(self, settings: Run, step: int, params: Params):
        self.settings, self.step, self.params = settings, step, params

    def __repr__(self) -> str:
        described = describe(self.settings)
        metric = "none" if described["metric"] is None else described["metric"]["name"]
        names = f"env={described['env']['name']!r}, agent={described['agent']['name']!r}, metric={metric!r}"
        return f"Trained({names}, seed={described['seed']}, step={self.step})"

    def act(self, observation: Observations) -> int | Shaped[np.ndarray, "..."]:
        """Choose the action that the run takes for the best, without exploration.

        Args:
            observation: One observation, or a batch.

        Returns:
            The action with the largest value; of agents for vectors of actions (SAC) the mean of their policy.

        Raises:
            ValueError: If the observation has another shape or type than those of the environment.

        Examples:
            >>> import numpy as np
            >>> from mico.deep import load
            >>> trained = load("runs/demo/dqn-mico-seed0")
            >>> trained.act(np.eye(17)[0]) in range(4)
            True
            >>> trained.act(np.eye(17)).shape
            (17,)
        """
        batch, single = self._batch(observation)
        found = np.asarray(_best(self.settings.agent, self.params, self.settings.seed, batch))
        if found.ndim == 1 and single:
            return int(found[0])
        return found[0] if single else found

    def predict(self, observation: Observations) -> Float[np.ndarray, "*B A"]:
        """Predict the value of each action. Agents with sampled fractions (IQN) sample the same ones in every call.

        Args:
            observation: One observation, or a batch.

        Returns:
            The values, with the actions on the last axis.

        Raises:
            ValueError: If the actions are vectors, which have no value each (`act` gives the mean action), or the
                observation has another shape or type than those of the environment.

        Examples:
            >>> import numpy as np
            >>> from mico.deep import load
            >>> trained = load("runs/demo/dqn-mico-seed0")
            >>> trained.predict(np.eye(17)[0]).shape
            (4,)
        """
        agent = self.settings.agent
        if agent.actions == "continuous":
            raise ValueError(
                f"predict needs an agent with a value for each action, but the actions of {self.settings.env.name} are"
                " vectors: act gives the mean action"
            )
        batch, single = self._batch(observation)
        found = np.asarray(_values(agent, self.params, self.settings.seed, batch))
        return found[0] if single else found

    def represent(self, observation: Observations) -> Float[np.ndarray, "*B D"]:
        r"""Compute the representation $\phi_\omega$, the output of the encoder that the metric loss shapes.

        Args:
            observation: One observation, or a batch.

        Returns:
            The representation, on the last axis.

        Raises:
            ValueError: If the observation has another shape or type than those of the environment.

        Examples:
            >>> import numpy as np
            >>> from mico.deep import load
            >>> trained = load("runs/demo/dqn-mico-seed0")
            >>> len(trained.represent(np.eye(17)))
            17
        """
        batch, single = self._batch(observation)
        found = np.asarray(_represented(self.params, batch))
        return found[0] if single else found

    def distance(self, one: Observations, other: Observations) -> float | Float[np.ndarray, "..."]:
        r"""Compute the distance that the run's metric loss learns, or MICo's $U_\omega$ in a run without one.

        Args:
            one: One observation, or a batch.
            other: One observation, or a batch.

        Returns:
            A number for two observations; for batches the distances of every pair, a row for each of the first.

        Raises:
            ValueError: If an observation has another shape or type than those of the environment.

        Examples:
            >>> import numpy as np
            >>> from mico.deep import load
            >>> trained = load("runs/demo/dqn-mico-seed0")
            >>> trained.distance(np.eye(17)[0], np.eye(17)[1]) >= 0
            True
            >>> trained.distance(np.eye(17)[0], np.eye(17)).shape
            (17,)
        """
        (x, x_single), (y, y_single) = self._batch(one), self._batch(other)
        found = np.asarray(_measured(self.settings.measure, self.params, x, y))
        found = found[0] if x_single else found
        found = found[..., 0] if y_single else found
        return float(found) if found.ndim == 0 else found

    def evaluate(
        self, *, episodes: int, seed: int, epsilon: float = 0.001, max_steps: int = 27_000
    ) -> Float[np.ndarray, " E"]:
        """Play episodes of the run's environment, ε-greedily, as `mico evaluate` does.

        Args:
            episodes: How many.
            seed: Of the environments and the random actions.
            epsilon: The share of random actions.
            max_steps: Where episodes are cut.

        Returns:
            The return of each episode, without discount.

        Raises:
            ValueError: If a number is out of its range.

        Examples:
            >>> from mico.deep import load
            >>> trained = load("runs/demo/dqn-mico-seed0")
            >>> trained.evaluate(episodes=5, seed=0).shape
            (5,)
        """
        return evaluate(self, episodes=episodes, seed=seed, epsilon=epsilon, max_steps=max_steps)

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
    agent: AbstractAgent, params: Params, seed: int | Int[Array, ""], batch: Shaped[Array, "B ..."]
) -> Float[Array, "B A"]:
    key, _ = jax.random.split(jax.random.key(seed))  # as acting does
    return jax.vmap(lambda one: agent.predict(params, one, key).action_values)(batch)


@jax.jit
def _best(
    agent: AbstractAgent, params: Params, seed: int | Int[Array, ""], batch: Shaped[Array, "B ..."]
) -> Shaped[Array, "B ..."]:
    keys, never = jax.random.split(jax.random.key(seed)), jnp.zeros(())
    return jax.vmap(lambda one: agent.act(params, one, never, keys, explore=False))(batch)


@jax.jit
def _represented(params: Params, batch: Shaped[Array, "B ..."]) -> Float[Array, "B D"]:
    return jax.vmap(params.encoder)(batch)


@jax.jit
def _measured(
    metric: AbstractMetricLoss, params: Params, x: Shaped[Array, "B ..."], y: Shaped[Array, "C ..."]
) -> Float[Array, "B C"]:
    return metric.pairwise(jax.vmap(params.encoder)(x), jax.vmap(params.encoder)(y))


def load(folder: str | Path) -> Trained:
    """Load a run with its newest parameters; it may still be training.

    Args:
        folder: The folder of one run, with its config.json and params/: OUT/RUN of `mico train`.

    Returns:
        The run, at the step that its parameters are from.

    Raises:
        ValueError: If the folder has no run or no parameters yet, or they are damaged, or its agent, metric loss or
            environment is unknown here.
        ModuleNotFoundError: If its environment needs a package that is not installed.

    Examples:
        >>> from mico.deep import load
        >>> trained = load("runs/demo/dqn-mico-seed0")
        >>> trained.settings.env.name
        'mdp/frozen-lake'
    """
    path = Path(folder)
    compilation_cache.enable()
    described = _described(path)
    try:
        settings = revive(described)
        blank = jax.eval_shape(lambda: init_params(settings, settings.env.spec))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"{error.args[0]!r} is missing or unknown" if isinstance(error, KeyError) and error.args else error
        raise ValueError(f"{path / 'config.json'} describes no run that can be made here: {why}") from error
    step, params = load_parameters(path, blank)
    return Trained(settings, min(step, _frozen_at(path) or step), params)


def _frozen_at(path: Path) -> int | None:
    """The step at which a run stopped learning because it was not finite, which its parameters may be older than."""
    log = path / "log.jsonl"
    rows = log.read_bytes().split(b"\n") if log.is_file() else []
    try:
        step = json.loads(next(filter(None, reversed(rows)), b"{}")).get("not_finite_at")
        return step if isinstance(step, int) else None
    except (ValueError, AttributeError, RecursionError):  # it is still being written, or damaged: no matter here
        return None


def _described(path: Path) -> Any:
    """The settings in config.json, whatever they are."""
    file = path / "config.json"
    if not file.is_file():
        inside = sorted(entry.parent.name for entry in path.glob("*/config.json"))
        hint = f"; the runs in it are {', '.join(inside)}" if inside else ""
        raise ValueError(f"{path} is not the folder of a run: it has no config.json{hint}")
    try:
        return _with_problem(json.loads(file.read_bytes())["settings"], path.absolute().parent)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is not the configuration of a run: {error!r}") from error


def _with_problem(settings: Any, fleet: Path) -> Any:
    """Settings with the file of an MDP that lies beside the runs, wherever their folder has been moved to."""
    match settings:
        case {"env": {"path": str(path)} as env} if not Path(path).exists():
            beside = fleet / PROBLEM_FOLDER / Path(path).name
            return settings | {"env": env | {"path": str(beside)}} if beside.is_file() else settings
    return settings
