"""MDPs to work on: a registry of factories whose keyword options are the flags of the command line."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from mico.tabular.problems import breakout, examples, gridworld, gymnasium
from mico.tabular.problems.files import load, save
from mico.tabular.problems.garnet import garnet, garnet_problem, sparse_garnet
from mico.tabular.problems.gridworld import from_map
from mico.tabular.problems.gymnasium import from_gymnasium
from mico.tabular.problems.options import documented_arguments
from mico.tabular.problems.problem import Layout, Problem

MDPS: dict[str, Callable[..., Problem]] = {
    "garnet": garnet_problem,
    "sparse-garnet": sparse_garnet,
    "four-rooms": gridworld.four_rooms,
    "mirrored-rooms": gridworld.mirrored_rooms,
    "dayan": gridworld.dayan,
    "open-grid": gridworld.open_grid,
    "map": gridworld.map_file,
    "small-breakout": breakout.small_breakout,
    "frozen-lake": gymnasium.frozen_lake,
    "taxi": gymnasium.taxi,
    "cliff-walking": gymnasium.cliff_walking,
    "two-state": examples.two_state,
    "bound-example": examples.bound_example,
    "pessimism": examples.pessimism,
    "coin-chain": examples.coin_chain,
    "value-example": examples.value_example,
    "terminals": examples.terminals,
    "random-reward": examples.random_reward,
    "five-state": examples.five_state,
    "action-reward": examples.action_reward,
}

# Of problems that can be of any size: at least how many states their options ask for, told before they are built.
FEWEST_STATES: dict[str, Callable[..., int]] = {
    "garnet": lambda num_states: num_states,
    "sparse-garnet": lambda num_states: num_states,
    "open-grid": lambda height, width: max(0, height) * max(0, width),
    "small-breakout": breakout.fewest_states,
}


def option_help(name: str) -> dict[str, str]:
    """Describe the options of a registered problem.

    Args:
        name: A name in `MDPS`.

    Returns:
        For each option, in the order of the factory's signature, a sentence that says what it means.

    Raises:
        ValueError: If there is no problem of that name.

    Examples:
        >>> option_help("four-rooms")["discount"]
        'Discount factor γ of the MDP, at least 0 and below 1.'
    """
    factory = _factory(name)
    described = documented_arguments(factory)
    return {option: described.get(option, "") for option in inspect.signature(factory).parameters}


def problem(name: str, **options: Any) -> Problem:
    """The registered problem of that name."""
    factory = _factory(name)
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ValueError(f"problem {name!r}: {error}") from None
    return factory(**options)


def _factory(name: str) -> Callable[..., Problem]:
    asked = name if isinstance(name, str) else ""
    if asked not in MDPS:
        near = difflib.get_close_matches(asked, MDPS, n=3, cutoff=0.4) or list(MDPS)
        raise ValueError(f"name {name!r} is no problem: did you mean {', '.join(near)}?")
    return MDPS[asked]


__all__ = [
    "MDPS",
    "Layout",
    "Problem",
    "from_gymnasium",
    "from_map",
    "garnet",
    "load",
    "option_help",
    "problem",
    "save",
]
