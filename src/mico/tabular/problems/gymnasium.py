"""MDPs of the Gymnasium environments that publish their transition table, as the toy-text ones do."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Literal

import numpy as np

from mico.tabular.mdp import MDP
from mico.tabular.outcomes import Outcomes
from mico.tabular.problems.problem import Layout, Problem


def from_gymnasium(env: Any, *, discount: float) -> MDP:
    """The MDP of an environment, or of an id such as "FrozenLake-v1", whose `env.unwrapped.P` is a transition table.

    A transition flagged as terminated goes to a sink, the last state, whatever next state it lists.
    """
    if not isinstance(env, str):
        return _tabulated(env, discount)
    with closing(_made(env)) as made:
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
    with closing(_made("FrozenLake-v1", map_name=map, is_slippery=slippery)) as env:
        marks = env.unwrapped.desc
        mdp = from_gymnasium(env, discount=discount)
    goals = np.flatnonzero(marks == b"G").tolist()
    layout = Layout(np.arange(marks.size).reshape(marks.shape), tuple(goals))
    return Problem(mdp, layout, actions=("←", "↓", "→", "↑"))


def taxi(*, discount: float = 0.9) -> Problem:
    """Taxi-v4 of Gymnasium, 500 states and the sink.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    actions = ("↓", "↑", "→", "←", "pick up", "drop off")
    return Problem(from_gymnasium("Taxi-v4", discount=discount), actions=actions)


def cliff_walking(*, discount: float = 0.9) -> Problem:
    """CliffWalking-v1 of Gymnasium, 4×12 cells and the sink, which has no cell.

    Args:
        discount: Discount factor γ of the MDP, at least 0 and below 1.
    """
    layout = Layout(np.arange(48).reshape(4, 12), goals=(47,))
    return Problem(from_gymnasium("CliffWalking-v1", discount=discount), layout, actions=("↑", "→", "↓", "←"))


def _made(env_id: str, **options: Any) -> Any:
    import gymnasium

    try:
        return gymnasium.make(env_id, **options)
    except gymnasium.error.Error as error:
        raise ValueError(f"env {env_id!r} cannot be made: {error}") from None


def _tabulated(env: Any, discount: float) -> MDP:
    try:
        table = env.unwrapped.P
    except AttributeError:
        raise ValueError(f"env {env} has no transition table unwrapped.P") from None
    if not isinstance(table, Mapping) or not table or set(table) != set(range(len(table))):
        raise ValueError(f"unwrapped.P of env {env} is not a dict of the states 0, 1, …")
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
            raise ValueError(f"unwrapped.P[{state}] of env {env} is not a dict {entry}") from None
    num_actions = 1 + max((action for _, action, *_ in listed), default=0)
    listed += [(sink, action, sink, 1.0, 0.0) for action in range(num_actions)]
    outcomes = Outcomes(*(np.array(column) for column in zip(*listed, strict=True)))
    return MDP.from_outcomes(outcomes, sink + 1, num_actions, discount)
