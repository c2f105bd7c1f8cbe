"""Scores of a random policy and of a human player in Atari games, for human-normalised scores.

The scores of the 57 games that have both are those that DeepMind publishes with DQN Zoo: episodes of at most 108,000
frames that start with up to 30 no-ops. For Video Pinball another published table, that of MuZero's paper, has a random
score of 0; it is 16,256.9 here.

The other five games of the paper's 60 have no published human score, and cannot be human-normalised. Their random
scores are measured here, with ALE 0.12.1 under the paper's protocol: uniformly random actions of the minimal set, each
lasting 4 frames with sticky actions (0.25), no no-op starts, lives not told apart, episodes cut at 27,000 actions. For
comparison, 200 episodes of Pong come to -20.3 in this way, where the published score is -20.7.
"""

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple


class Reference(NamedTuple):
    """The mean score of a random policy, and that of a human player where it is known."""

    random: float
    human: float | None


class Measurement(NamedTuple):
    """A mean score over episodes, and its 95% interval."""

    mean: float
    low: float
    high: float
    episodes: int


# Elevator Action's interval is wide: 10 episodes scored 8,100 to 47,800, all others 0, and 114 went on to the cut.
MEASURED: dict[str, Measurement] = {
    "air-raid": Measurement(617.7, 592.7, 642.7, 1000),
    "carnival": Measurement(774.2, 751.7, 796.8, 1000),
    "elevator-action": Measurement(3026.5, 1054.3, 4998.7, 117),
    "journey-escape": Measurement(-20382.0, -20917.7, -19846.3, 1000),
    "pooyan": Measurement(445.3, 431.3, 459.2, 1000),
}

REFERENCES: dict[str, Reference] = {
    **{name: Reference(found.mean, None) for name, found in MEASURED.items()},
    "alien": Reference(227.8, 7127.7),
    "amidar": Reference(5.8, 1719.5),
    "assault": Reference(222.4, 742.0),
    "asterix": Reference(210.0, 8503.3),
    "asteroids": Reference(719.1, 47388.7),
    "atlantis": Reference(12850.0, 29028.1),
    "bank-heist": Reference(14.2, 753.1),
    "battle-zone": Reference(2360.0, 37187.5),
    "beam-rider": Reference(363.9, 16926.5),
    "berzerk": Reference(123.7, 2630.4),
    "bowling": Reference(23.1, 160.7),
    "boxing": Reference(0.1, 12.1),
    "breakout": Reference(1.7, 30.5),
    "centipede": Reference(2090.9, 12017.0),
    "chopper-command": Reference(811.0, 7387.8),
    "crazy-climber": Reference(10780.5, 35829.4),
    "defender": Reference(2874.5, 18688.9),
    "demon-attack": Reference(152.1, 1971.0),
    "double-dunk": Reference(-18.6, -16.4),
    "enduro": Reference(0.0, 860.5),
    "fishing-derby": Reference(-91.7, -38.7),
    "freeway": Reference(0.0, 29.6),
    "frostbite": Reference(65.2, 4334.7),
    "gopher": Reference(257.6, 2412.5),
    "gravitar": Reference(173.0, 3351.4),
    "hero": Reference(1027.0, 30826.4),
    "ice-hockey": Reference(-11.2, 0.9),
    "jamesbond": Reference(29.0, 302.8),
    "kangaroo": Reference(52.0, 3035.0),
    "krull": Reference(1598.0, 2665.5),
    "kung-fu-master": Reference(258.5, 22736.3),
    "montezuma-revenge": Reference(0.0, 4753.3),
    "ms-pacman": Reference(307.3, 6951.6),
    "name-this-game": Reference(2292.3, 8049.0),
    "phoenix": Reference(761.4, 7242.6),
    "pitfall": Reference(-229.4, 6463.7),
    "pong": Reference(-20.7, 14.6),
    "private-eye": Reference(24.9, 69571.3),
    "qbert": Reference(163.9, 13455.0),
    "riverraid": Reference(1338.5, 17118.0),
    "road-runner": Reference(11.5, 7845.0),
    "robotank": Reference(2.2, 11.9),
    "seaquest": Reference(68.4, 42054.7),
    "skiing": Reference(-17098.1, -4336.9),
    "solaris": Reference(1236.3, 12326.7),
    "space-invaders": Reference(148.0, 1668.7),
    "star-gunner": Reference(664.0, 10250.0),
    "surround": Reference(-10.0, 6.5),
    "tennis": Reference(-23.8, -8.3),
    "time-pilot": Reference(3568.0, 5229.2),
    "tutankham": Reference(11.4, 167.6),
    "up-n-down": Reference(533.4, 11693.2),
    "venture": Reference(0.0, 1187.5),
    "video-pinball": Reference(16256.9, 17667.9),
    "wizard-of-wor": Reference(563.5, 4756.5),
    "yars-revenge": Reference(3092.9, 54576.9),
    "zaxxon": Reference(32.5, 9173.3),
}

PAPER_GAMES = tuple(sorted(set(REFERENCES) - {"defender", "surround"}))
WITHOUT_HUMAN = tuple(MEASURED)

_PREFIXES = ("atari", "ale")
_SUFFIX = re.compile(r"(-ram)?(deterministic|noframeskip)?(-v\d+)?$")
_PLAIN = {name.replace("-", ""): name for name in REFERENCES}


def game(env: str) -> str:
    """The game's name in `REFERENCES`, however an Atari environment spells it: ALE/Pong-v5, atari/pong, Pong."""
    _, _, plain = _spelt(env)
    if not is_game(env):
        near = [_PLAIN[one] for one in difflib.get_close_matches(plain, _PLAIN, n=3, cutoff=0.5)]
        raise ValueError(f"env {env!r} is no Atari game with known scores; the nearest are {', '.join(near) or 'none'}")
    return _PLAIN[plain]


def is_game(env: str) -> bool:
    """Whether an environment is, however it is spelt, an Atari game with known scores."""
    prefix, slash, name = _spelt(env)
    return (not slash or prefix in _PREFIXES) and name in _PLAIN


def random_scores(envs: Iterable[str]) -> dict[str, float]:
    """The score of a random policy in each of these Atari environments."""
    return {env: REFERENCES[game(env)].random for env in envs}


def _spelt(env: str) -> tuple[str, str, str]:
    """Split a name at its slash; the last part in lower-case letters and digits alone."""
    prefix, slash, name = env.lower().rpartition("/")
    return prefix, slash, re.sub("[^a-z0-9]", "", _SUFFIX.sub("", name))
