"""Agents, metric losses, environments and encoders of other packages, by name."""

from collections.abc import Callable
from typing import Any

from mico.deep.agents import AGENTS, AbstractAgent
from mico.deep.envs import ENVS, AbstractEnv, AbstractHostEnv
from mico.deep.metric_losses import METRIC_LOSSES, AbstractMetricLoss
from mico.deep.networks import ENCODERS


def register_agent(name: str, agent: type[AbstractAgent], *, replace: bool = False) -> None:
    """Make an agent's class known by a name: `mico train --agent NAME`, `mico.train(agent=NAME)`, sweeps and `load`.

    A package can do the same by an entry point of the group `mico.agents`.

    Args:
        name: The name, such as "double-dqn".
        agent: A subclass of `AbstractAgent`, or of `AbstractValueAgent`, whose fields have defaults. Its `presets`
            and `preset_like` say what trainings take for fields that are not given.
        replace: Whether to take the place of an agent that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or the class is not finished.

    Examples:
        >>> import mico
        >>> from mico.deep.agents import DQN, AbstractValueAgent
        >>> class Greedy(AbstractValueAgent):
        ...     make_head, q_values, td_loss = DQN.make_head, DQN.q_values, DQN.td_loss
        ...     error: str = "huber"
        >>> mico.register_agent("greedy", Greedy)
    """
    AGENTS.register(name, agent, replace=replace)


def register_metric_loss(name: str, loss: type[AbstractMetricLoss], *, replace: bool = False) -> None:
    """Make a metric loss known by a name: `mico train --metric NAME`, `mico.train(metric=NAME)`, sweeps and `load`.

    A package can do the same by an entry point of the group `mico.metric_losses`.

    Args:
        name: The name, such as "l1".
        loss: A subclass of `AbstractMetricLoss`, or of `AbstractPairLoss`, whose fields have defaults.
        replace: Whether to take the place of a loss that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or the class is not finished.

    Examples:
        >>> import mico, jax.numpy as jnp
        >>> from mico.deep.metric_losses import AbstractPairLoss
        >>> class L1(AbstractPairLoss):
        ...     def pairwise(self, x, y):
        ...         return jnp.abs(x[:, None] - y).sum(-1)
        >>> mico.register_metric_loss("l1", L1)
    """
    METRIC_LOSSES.register(name, loss, replace=replace)


def register_env(name: str, env: type[AbstractEnv | AbstractHostEnv], *, replace: bool = False) -> None:
    """Make an environment known by a name: `mico train --env NAME`, `mico.train(NAME)`, sweeps, `load` and `watch`.

    A package can do the same by an entry point of the group `mico.envs`.

    Args:
        name: The name, such as "corridor". Where the constructor's first parameter has no default, this is a family
            and that parameter the member, as in "corridor/long".
        env: A subclass of `AbstractEnv` (inside JAX) or of `AbstractHostEnv`.
        replace: Whether to take the place of an environment that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or the class is not finished.

    Examples:
        >>> import mico
        >>> from mico.deep.envs import MinAtar
        >>> mico.register_env("games", MinAtar)
    """
    ENVS.register(name, env, replace=replace)


def register_encoder(name: str, layers: Callable[..., Any], *, replace: bool = False) -> None:
    """Make an encoder known by a name: `mico train --network.encoder NAME`, and in presets, sweeps and `load`.

    A package can do the same by an entry point of the group `mico.encoders`.

    Args:
        name: The name, such as "wide".
        layers: A function of the shape of an observation, the network's configuration and a key. It returns the
            layers, each followed by a ReLU; what they make of an observation is flattened to the representation.
        replace: Whether to take the place of an encoder that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or it is no function.

    Examples:
        >>> import math, mico
        >>> from mico.deep.networks import Dense
        >>> def wide(shape, network, key):
        ...     return (Dense(math.prod(shape), 512, network.initialiser, key=key),)
        >>> mico.register_encoder("wide", wide)
    """
    ENCODERS.register(name, layers, replace=replace)
