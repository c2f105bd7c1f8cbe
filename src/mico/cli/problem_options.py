"""A PROBLEM on the command line, by name or file, with its own options beside those of the command."""

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from mico.cli._flags import parse_flags
from mico.cli.counts import Count, OptionalCount
from mico.cli.text import summary
from mico.tabular import PROBLEMS, Problem, load
from mico.tabular.problems import FEWEST_STATES, FILE_ENDINGS, from_gymnasium, is_gymnasium_id
from mico.tabular.problems.files import stored_states
from mico.tabular.problems.options import documented_arguments

_AS_TYPED: dict[Any, Any] = {int: Count, int | None: OptionalCount}  # counts as people type them: 200k
_METAVARS: dict[Any, str] = {int | None: "INT", float | None: "FLOAT"}  # in place of {None}|INT


class Limited:
    """Options of a command that takes problems of so many states at most."""

    max_states: int


Options = TypeVar("Options", bound=Limited)


@dataclass(frozen=True)
class Request(Generic[Options]):
    """A problem with a short name, the options that made it, and those of the command."""

    name: str
    problem: Problem
    own: dict[str, Any]
    options: Options


def requested(command: str, options: type[Options], argv: list[str], weight: Callable[[int], str]) -> Request[Options]:
    """Parse `mico COMMAND PROBLEM ...`; `options` is the dataclass of the options that every problem has.

    Its `max_states` refuses larger ones, where it can before they are built; `weight` says what so many states take.
    """
    if argv[:1] in (["-h"], ["--help"]):
        about = (
            "PROBLEM is a name that `mico list` shows, an .npz or .json file (docs/file-format.md), or the id of a "
            f"Gymnasium environment with a transition table. It may have options of its own: mico {command} four-rooms "
            "--help shows them."
        )
        parse_flags(options, prog=f"mico {command} PROBLEM", description=about, args=["--help"])
    if not argv or argv[0].startswith("-"):
        raise ValueError(f"{command} needs a PROBLEM first: a name that `mico list` shows, or an .npz or .json file")
    name, factory = _factory(argv[0])
    parsed, own = _parsed(f"mico {command} {argv[0]}", options, factory, argv[1:])
    sizes, count = _fewest_states(argv[0], own)
    asked = _typed(name, sizes)
    _check_size(parsed.max_states, asked, count, f"at least {count} states, {weight(count)}")
    try:
        problem = factory(**own)
    except (MemoryError, OverflowError) as error:
        numbers = {key: value for key, value in own.items() if type(value) is int}
        raise ValueError(f"{_typed(name, numbers)} takes more memory than there is: {error}") from error
    count = problem.mdp.num_states
    _check_size(parsed.max_states, asked, count, f"{count} states, {weight(count)}")
    return Request(name, problem, own, parsed)


def _fewest_states(given: str, own: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The options that set a problem's size, and how many states it has at least by them, or by its archive."""
    if given not in PROBLEMS and _is_file(given):
        return {}, stored_states(given)
    fewest = FEWEST_STATES.get(given, lambda: 0)
    sizes = {key: own[key] for key in inspect.signature(fewest).parameters}
    return sizes, fewest(**sizes)


def _check_size(most: int, asked: str, count: int, what: str) -> None:
    if count > most:
        raise ValueError(f"max_states is {most}, and {asked} has {what}: --max-states allows it")


def _typed(name: str, options: dict[str, Any]) -> str:
    return " ".join([name, *(f"--{key.replace('_', '-')} {value}" for key, value in options.items())])


def _factory(given: str) -> tuple[str, Callable[..., Problem]]:
    """A short name for the problem, and what makes it of its options."""
    if given in PROBLEMS:
        return given, PROBLEMS[given]
    if _is_file(given):
        return Path(given).stem, functools.partial(load, Path(given))
    if is_gymnasium_id(given):
        return re.sub(r"\W+", "-", given), functools.partial(from_gymnasium, given)
    near = difflib.get_close_matches(given, PROBLEMS, n=3, cutoff=0.4) or list(PROBLEMS)
    what = "a name that `mico list` shows, an .npz or .json file, or a Gymnasium id"
    raise ValueError(f"PROBLEM must be {what}, got {given!r}: did you mean {', '.join(near)}?")


def _is_file(given: str) -> bool:
    return Path(given).suffix.lower() in FILE_ENDINGS or Path(given).is_file()


def _parsed(
    prog: str, options: type[Options], factory: Callable[..., Problem], argv: list[str]
) -> tuple[Options, dict[str, Any]]:
    """The options that every problem has, and those of this one, all without prefix."""
    taken = {option.name for option in fields(options)}  # pyright: ignore[reportArgumentType]
    described = documented_arguments(factory)
    own = []
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:  # options of gymnasium.make
            continue
        flag = f"problem-{parameter.name}" if parameter.name in taken else parameter.name
        about = tyro.conf.arg(
            name=flag.replace("_", "-"),
            help=described.get(parameter.name, ""),
            metavar=_METAVARS.get(parameter.annotation),
            help_behavior_hint="(optional)" if parameter.default is None else None,
        )
        kind = _AS_TYPED.get(parameter.annotation, parameter.annotation)
        default = field() if parameter.default is parameter.empty else parameter.default
        own.append((parameter.name, Annotated[kind, about], default))
    flat = tyro.conf.arg(name="")
    own_options = make_dataclass("Own", own, kw_only=True)  # a factory may have a required option after others
    both = make_dataclass("Both", [("every", Annotated[options, flat]), ("own", Annotated[own_options, flat])])
    parsed = parse_flags(both, prog=prog, description=summary(factory), args=argv)
    return parsed.every, asdict(parsed.own)
