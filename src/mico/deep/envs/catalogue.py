"""Names of environments in every family: to list them, and to suggest one for a name that is none."""

import difflib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import get_args

import gymnasium
from gymnasium.envs.registration import EnvSpec

from mico.control_suite.catalogue import catalogue
from mico.deep.envs.mdp import is_problem_file
from mico.deep.envs.minatar.minatar import Game
from mico.deep.extensions import takes_member
from mico.evidence.atari_scores import REFERENCES
from mico.tabular import PROBLEMS

_MOST = 4  # suggestions
_UNFIT = ("Blackjack", "GymV21Environment", "GymV26Environment")  # tuples as observations, and wrappers of others
_SUFFIXES = re.compile(r"(noframeskip|deterministic)?(-v\d+)?$")
_TASKS = (  # those of the paper, for where dm_control is not installed
    *("cartpole-balance", "cartpole-balance_sparse", "cartpole-swingup", "cheetah-run", "finger-spin", "hopper-stand"),
    *("hopper-hop", "pendulum-swingup", "point_mass-easy", "walker-stand", "walker-walk", "walker-run"),
)


@cache
def members(family: str) -> tuple[str, ...]:
    """The names that follow "family/", in order; of a suite that is not installed, those that are known without it."""
    if family == "control":
        return tuple(catalogue().tasks) if importlib.util.find_spec("dm_control") else _TASKS
    from mico.deep.envs import ENVS  # which imports this module when it suggests names

    known = {"minatar": get_args(Game), "mdp": tuple(PROBLEMS), "gym": _gymnasium(), "atari": tuple(sorted(REFERENCES))}
    return known[family] if family in known else tuple(getattr(ENVS[family], "members", ()))


def every_name() -> Iterator[str]:
    """All environments that have a name, family by family."""
    from mico.deep.envs import ENVS  # as above

    for family in ENVS:
        yield from (f"{family}/{member}" for member in members(family))
        if not takes_member(ENVS[family]):
            yield family


def suggestions(name: str) -> str:
    """What was meant by a name without a known family: the environments called so, or those called most like it.

    Examples:
        >>> suggestions("breakout")
        'minatar/breakout or atari/breakout'
    """
    if is_problem_file(name):
        return f"mdp/{name}"
    meant = _plain(name)
    known = {each: _plain(each) for each in every_name()}
    found = [each for each, plain in known.items() if plain == meant]
    if not found:
        near = difflib.get_close_matches(meant, known.values(), n=_MOST, cutoff=0.6)
        found = [each for plain in near for each, own in known.items() if own == plain]
    return _listed(list(dict.fromkeys(found))[:_MOST] or [f"{family}/…" for family in ("minatar", "mdp", "gym")])


def _gymnasium() -> tuple[str, ...]:
    """The newest version of every registered environment that can be trained on, but for Atari's, a family here."""
    newest: dict[str, EnvSpec] = {}
    for spec in gymnasium.registry.values():
        before = newest.get(spec.name)
        is_atari = str(spec.entry_point).startswith("ale_py")
        if spec.namespace is None and not is_atari and spec.name not in _UNFIT:
            newest[spec.name] = spec if before is None else max(before, spec, key=lambda one: one.version or 0)
    return tuple(sorted(spec.id for spec in newest.values()))


def _plain(name: str) -> str:
    """The last part of a name in lower case, without its version, hyphens or underscores."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    return re.sub(r"[-_ ]", "", _SUFFIXES.sub("", last))


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
