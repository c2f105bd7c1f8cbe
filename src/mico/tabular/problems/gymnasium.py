"""MDPs of the Gymnasium environments that publish their transition table, as the toy-text ones do."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Literal

import numpy as np

from mico._plugins import check_env_module
from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Layout, Problem

_ACTIONS = {  # by the class of the environment: Gymnasium names them in its documentation alone
    "FrozenLakeEnv": ("←", "↓", "→", "↑"),
    "CliffWalkingEnv": ("↑", "→", "↓", "←"),
    "TaxiEnv": ("↓", "↑", "→", "←", "pick up", "drop off"),
}


def from_gymnasium(env: Any, *, discount: float = 0.9, **options: Any) -> Problem:
    """The problem of a Gymnasium environment that publishes its transition table, `env.unwrapped.P`.

    A transition flagged as terminated goes to a sink without reward, which is the last state, whatever next state the
    table lists. Environments whose states are the cells of a grid (FrozenLake, CliffWalking) come with their map.

    Args:
        env: The environment, or an id such as "FrozenLake-v1".
        discount: Discount factor γ of the MDP, at least 0 and below 1.
        **options: Options of `gymnasium.make`, for an id.

    Returns:
        The problem, with a sparse MDP.

    Raises:
        ValueError: If there is no such environment, or it has no transition table.

    Examples:
        >>> from_gymnasium("CliffWalking-v1", discount=0.99)
        Problem(num_states=49, num_actions=4, discount=0.99, map 4x12)
    """
    if not isinstance(env, str):
        if options:
            raise ValueError(f"options must be left out for an environment that is made already, got {options}")
        return _tabulated(env, discount)
    with closing(_made(env, **options)) as made:
        return _tabulated(made, discount)


def frozen_lake(*, map: Literal["4x4", "8x8"] = "4x4", slippery: bool = True, discount: float = 0.9) -> Problem:
    """FrozenLake-v1 of Gymnasium; the sink is the last state and has no cell.

    Args:
        map: Which of Gymnasium's two maps of the lake.
        slippery: Whether a move goes sideways two times out of three, as in Gymnasium.
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    if map not in ("4x4", "8x8"):
        raise ValueError(f"map must be '4x4' or '8x8', not {map!r}")
    return from_gymnasium("FrozenLake-v1", discount=discount, map_name=map, is_slippery=slippery)


def taxi(*, discount: float = 0.9) -> Problem:
    """Taxi-v4 of Gymnasium, 500 states and the sink.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return from_gymnasium("Taxi-v4", discount=discount)


def cliff_walking(*, discount: float = 0.9) -> Problem:
    """CliffWalking-v1 of Gymnasium, 4×12 cells and the sink, which has no cell.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    return from_gymnasium("CliffWalking-v1", discount=discount)


def _made(env_id: str, **options: Any) -> Any:
    import gymnasium

    check_env_module(env_id)
    try:
        return gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, TypeError) as error:  # a TypeError for options that it does not have
        raise ValueError(f"env {env_id!r} cannot be made: {error}") from None


def _tabulated(env: Any, discount: float) -> Problem:
    try:
        table = env.unwrapped.P
    except AttributeError:
        raise ValueError(f"env {_name(env)!r} has no transition table unwrapped.P") from None
    if not isinstance(table, Mapping) or not table or set(table) != set(range(len(table))):
        raise ValueError(f"unwrapped.P of env {_name(env)!r} is not a dict of the states 0, 1, …")
    sink = len(table)
    listed: list[tuple[int, int, int, float, float]] = []
    for state, actions in table.items():
        try:
            listed += [
                (state, int(action), sink if terminated else int(next_state), float(probability), float(reward))
                for action, outcomes in actions.items()
                for probability, next_state, reward, terminated in outcomes
            ]
        except (AttributeError, TypeError, ValueError):
            entry = "action → list of (probability, next state, reward, terminated)"
            raise ValueError(f"unwrapped.P[{state}] of env {_name(env)!r} is not a dict {entry}") from None
    num_actions = 1 + max((action for _, action, *_ in listed), default=0)
    listed += [(sink, action, sink, 1.0, 0.0) for action in range(num_actions)]
    outcomes = Outcomes(*(np.array(column) for column in zip(*listed, strict=True)))
    mdp = MDP.from_outcomes(outcomes, sink + 1, num_actions, discount)
    actions = _ACTIONS.get(type(env.unwrapped).__name__)
    return Problem(mdp, _layout(env.unwrapped, sink, _ends(table)), actions=actions)


def _name(env: Any) -> str:
    """The id of an environment, or the name of its class: gymnasium prints the wrappers around it too."""
    return getattr(getattr(env, "spec", None), "id", type(env).__name__)


def _ends(table: Mapping[int, Any]) -> list[int]:
    """The states whose entering ends an episode."""
    outcomes = (outcome for actions in table.values() for listed in actions.values() for outcome in listed)
    return sorted({int(next_state) for _, next_state, _, terminated in outcomes if terminated})


def _layout(env: Any, num_states: int, ends: list[int]) -> Layout | None:
    """The map of a grid whose cells are the states: from its letters (G is a goal), or from its shape alone."""
    letters, shape = getattr(env, "desc", None), getattr(env, "shape", None)
    if isinstance(letters, np.ndarray) and letters.ndim == 2 and letters.size == num_states:
        cells, goals = np.arange(num_states).reshape(letters.shape), np.flatnonzero(letters == b"G").tolist()
    elif isinstance(shape, tuple) and len(shape) == 2 and np.prod(shape) == num_states:
        cells, goals = np.arange(num_states).reshape(shape), ends
    else:
        return None
    return Layout(cells, tuple(goals))
