"""Captions of a report's figures: the environments and the scale of a study, and what it lacks."""

from collections.abc import Iterable

from mico.evidence.atari_scores import MEASURED, game
from mico.evidence.study import Study

_NAMES = 12  # more environments than this are counted, not named


def not_aggregated(study: Study) -> str | None:
    """Why its scores are not averaged over environments, if they are not."""
    if not study.shared_envs:
        return "no environment has scores of every arm"
    return None if study.comparable else "raw returns of different environments cannot be averaged (--normalise)"


def too_few_seeds(study: Study) -> str | None:
    """Why there are no intervals: the first arm that has a single seed, or None."""
    alone = [arm for arm, table in study.tables.items() if len(table) < 2]
    return f"{alone[0]} has a single seed" if alone else None


def measured_games(study: Study, envs: Iterable[str]) -> list[str]:
    """A sentence on the games whose random scores are not published."""
    ours = [env for env in envs if study.scale == "human" and game(env) in MEASURED]
    return [f"The random policy's scores in {', '.join(ours)} are our own measurements."] if ours else []


def scope(study: Study) -> str:
    """On which scale scores are, and over which environments."""
    return f"{study.words}; {over_envs(study, study.shared_envs)}"


def over_envs(study: Study, envs: Iterable[str]) -> str:
    """How many environments, and which if they are few."""
    names = sorted(envs)
    if len(names) > _NAMES:
        return f"over {len(names)} of {study.frame['env'].nunique()} environments"
    return f"over {len(names)} environment{'s' * (len(names) > 1)}: {', '.join(names)}"
