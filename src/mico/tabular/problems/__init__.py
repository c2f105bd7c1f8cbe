"""Problems: by name, from files, from Gymnasium's transition tables; every factory returns a `Problem`."""

import difflib
import inspect
import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from mico._registry import Registry
from mico.tabular.problems import breakout, gridworld, gymnasium, paper_examples
from mico.tabular.problems.files import load, save
from mico.tabular.problems.garnet import garnet, sparse_garnet
from mico.tabular.problems.gridworld import from_map
from mico.tabular.problems.gymnasium import from_gymnasium
from mico.tabular.problems.options import documented_arguments
from mico.tabular.problems.problem import Layout, Problem

_BUILT_IN: dict[str, Callable[..., Problem]] = {
    "garnet": garnet,
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
    "two-state": paper_examples.two_state,
    "bound-example": paper_examples.bound_example,
    "pessimism": paper_examples.pessimism,
    "coin-chain": paper_examples.coin_chain,
    "value-example": paper_examples.value_example,
    "terminals": paper_examples.terminals,
    "random-reward": paper_examples.random_reward,
    "five-state": paper_examples.five_state,
    "action-reward": paper_examples.action_reward,
}


def _checked_factory(name: str, factory: Callable[..., Problem]) -> Callable[..., Problem]:
    """A function whose options can be given by name; what its problems are like `mico.testing` checks."""
    if not callable(factory):
        raise ValueError(f"factory must be a function that returns a Problem, got {factory!r}")
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise ValueError(f"factory must have options that are given by name, got {parameter} in {name}")
    return factory


PROBLEMS: Registry[Callable[..., Problem]] = Registry("problem", "mico.problems", _BUILT_IN, check=_checked_factory)
"""The problems that have a name: a factory whose keyword options are the flags of the command line."""

# The least number of states that the options of a problem of any size ask for, known before it is built.
FEWEST_STATES: dict[str, Callable[..., int]] = {
    "garnet": lambda num_states: num_states,
    "sparse-garnet": lambda num_states: num_states,
    "open-grid": lambda height, width: max(0, height) * max(0, width),
    "small-breakout": breakout.fewest_states,
}


def register_problem(
    name: str,
    factory: Callable[..., Problem],
    *,
    fewest_states: Callable[..., int] | None = None,
    replace: bool = False,
) -> None:
    r"""Make a problem known by a name: `mico.make(NAME)`, `mico metric NAME`, `mico explore NAME`, `--env mdp/NAME`.

    A package can do the same by an entry point of the group `mico.problems`.

    Args:
        name: The name, such as "river".
        factory: A function that returns a `Problem`. Its keyword options become flags, and its docstring their help.
        fewest_states: A function of those options that set the size, by their names; it returns how many states the
            problem has at least, so that `--max-states` refuses larger ones before they are built.
        replace: Whether to take the place of a problem that was registered by this name before.

    Raises:
        ValueError: If the name is taken, or the factory is no function of options.

    Examples:
        >>> import mico
        >>> from mico.tabular import MDP, Problem
        >>> def coin(*, discount: float = 0.9) -> Problem:
        ...     return Problem(MDP([[[0.5, 0.5]]] * 2, [[1.0], [0.0]], discount), names=("heads", "tails"))
        >>> mico.register_problem("coin", coin, replace=True)
        >>> mico.make("coin", discount=0.5)
        Problem(num_states=2, num_actions=1, discount=0.5, names)
    """
    PROBLEMS.register(name, factory, replace=replace)
    FEWEST_STATES.pop(name, None)
    if fewest_states is not None:
        FEWEST_STATES[name] = fewest_states


FILE_ENDINGS = (".npz", ".json")
_GYMNASIUM_ID = re.compile(r"[\w:.-]+(/[\w:.-]+)?-v\d+")


def make(source: Any, **options: Any) -> Problem:
    """Make a problem by name, from a file, or from a Gymnasium environment.

    Args:
        source: A name in `PROBLEMS`; the path of an `.npz` or `.json` file (docs/file-format.md); or a Gymnasium
            environment with a transition table `env.unwrapped.P`, given as an object or as an id such as
            "FrozenLake-v1".
        **options: Options of the problem; `option_help(name)` describes those of a name. Files and environments take
            `discount`; an id takes the options of `gymnasium.make` as well.

    Returns:
        The problem.

    Raises:
        ValueError: If nothing has that name, an option is unknown, or the file or table holds no MDP.

    Examples:
        >>> import mico.tabular as mt
        >>> mt.make("four-rooms", discount=0.99)
        Problem(num_states=104, num_actions=4, discount=0.99, map 13x13)
        >>> mt.make("FrozenLake-v1", is_slippery=False)
        Problem(num_states=17, num_actions=4, discount=0.9, map 4x4)
    """
    if isinstance(source, str):
        source = re.sub(r"^(mdp|gym)/", "", source)  # as mico train calls it
    if isinstance(source, str) and source in PROBLEMS:
        return _with_options(f"problem {source!r}", PROBLEMS[source], options)
    if isinstance(source, PathLike) or (isinstance(source, str) and _is_file_name(source)):
        return _with_options(f"file {str(source)!r}", load, options, Path(source))
    if isinstance(source, str) and is_gymnasium_id(source):
        return from_gymnasium(source, **options)
    if hasattr(source, "unwrapped"):
        return _with_options("an environment", from_gymnasium, options, source)
    raise _unknown(source)


def option_help(name: str) -> dict[str, str]:
    """Describe the options of a registered problem.

    Args:
        name: A name in `PROBLEMS`.

    Returns:
        For each option, in the order of the factory's signature, a sentence that says what it means.

    Raises:
        ValueError: If there is no problem of that name.

    Examples:
        >>> option_help("four-rooms")["discount"]
        'Discount factor γ of the MDP, at least 0 and below 1.'
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        raise _unknown(name)
    described = documented_arguments(PROBLEMS[name])
    return {option: described.get(option, "") for option in inspect.signature(PROBLEMS[name]).parameters}


def is_gymnasium_id(name: str) -> bool:
    """Whether a name has the form of Gymnasium's ids, such as "FrozenLake-v1" or "package/Name-v0"."""
    return _GYMNASIUM_ID.fullmatch(name) is not None


def _is_file_name(text: str) -> bool:
    return Path(text).suffix.lower() in FILE_ENDINGS or Path(text).is_file()


def _unknown(source: Any) -> ValueError:
    near = difflib.get_close_matches(source, PROBLEMS, n=3, cutoff=0.4) if isinstance(source, str) else []
    hint = f"did you mean {', '.join(near)}?" if near else f"the names are {', '.join(PROBLEMS)}"
    return ValueError(
        "source must be the name of a problem, an .npz or .json file, or a Gymnasium environment, "
        f"got {source!r}: {hint}"
    )


def _with_options(what: str, factory: Callable[..., Problem], options: dict[str, Any], *given: Any) -> Problem:
    """Call a factory, with a clear error for options that it does not have or that it lacks."""
    parameters = list(inspect.signature(factory).parameters.values())[len(given) :]
    names = [parameter.name for parameter in parameters]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    for option in () if takes_any else options:
        if option not in names:
            near = difflib.get_close_matches(option, names, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"its options are {', '.join(names)}"
            raise ValueError(f"option must be one that {what} has, got {option!r}: {hint}")
    for parameter in parameters:
        wanted = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if wanted and parameter.name not in options:
            about = documented_arguments(factory).get(parameter.name, "")
            raise ValueError(f"{parameter.name} must be given for {what}. {about}".rstrip())
    try:
        return factory(*given, **options)
    except TypeError as error:  # an option of another kind, such as a word for a number
        raise ValueError(f"options of {what} must be of their kinds, got {options}: {error}") from error


__all__ = [
    "PROBLEMS",
    "Layout",
    "Problem",
    "from_gymnasium",
    "from_map",
    "garnet",
    "is_gymnasium_id",
    "load",
    "make",
    "option_help",
    "register_problem",
    "save",
    "sparse_garnet",
]
