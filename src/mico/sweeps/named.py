"""Sweeps by name: the paper's experiments at full size, as released or with our defaults, and the study on MinAtar."""

from typing import NamedTuple

from mico.evidence.atari_scores import PAPER_GAMES
from mico.sweeps.grid import Sweep

_VALUE_AGENTS = ("dqn", "rainbow", "qr-dqn", "iqn", "m-iqn")
_ATARI_STEPS = 50_000_000  # 200 iterations of a quarter of a million agent steps
_FIVE, _TEN = tuple(range(5)), tuple(range(10))

_SIX_GAMES = "asterix beam-rider ms-pacman qbert seaquest space-invaders"  # the paper does not say which six
_TASKS = """
cartpole-balance cartpole-balance_sparse cartpole-swingup cheetah-run finger-spin hopper-stand hopper-hop
pendulum-swingup point_mass-easy walker-stand walker-walk walker-run
"""
_MINATAR = "breakout asterix freeway seaquest space-invaders"


class NamedSweep(NamedTuple):
    """A sweep with a line about its purpose."""

    purpose: str
    sweep: Sweep


def _of(family: str, members: str) -> tuple[str, ...]:
    return tuple(f"{family}/{member}" for member in members.split())


def _atari_60(preset: str) -> Sweep:
    games = _of("atari", " ".join(PAPER_GAMES))
    return Sweep(_ATARI_STEPS, games, _VALUE_AGENTS, ("none", "mico"), _FIVE, preset)


def _control_12(preset: str) -> Sweep:
    metrics = ("none", "mico", "dbc", "dbc-det", "dbc-mico")
    return Sweep(100_000, _of("control", _TASKS), ("sac",), metrics, _FIVE, preset)


SWEEPS: dict[str, NamedSweep] = {
    "atari-60": NamedSweep(
        "the paper's 60 games as released: five agents with and without MICo, five seeds, 200 million frames",
        _atari_60("atari-released"),
    ),
    "atari-60-defaults": NamedSweep("those games and agents with this project's defaults", _atari_60("atari")),
    "control-12": NamedSweep(
        "the paper's twelve tasks as released: SAC, SAC with MICo, DBC, DBC-Det and DBC+MICo, five seeds",
        _control_12("control-released"),
    ),
    "control-12-defaults": NamedSweep("those tasks and losses with this project's defaults", _control_12("control")),
    "alpha-beta": NamedSweep(
        "α and β of MICo, the weights of the loss and of the angular distance, as released: five agents on six games",
        Sweep(
            _ATARI_STEPS,
            _of("atari", _SIX_GAMES),
            _VALUE_AGENTS,
            ("none", "mico"),
            _FIVE,
            "atari-released",
            {"metric.alpha": (0.001, 0.01, 0.1, 0.5), "metric.beta": (0.01, 0.1, 1.0)},
        ),
    ),
    "ablations": NamedSweep(
        "other readings of the MICo loss, one changed at a time: DQN and Rainbow on six games",
        Sweep(
            _ATARI_STEPS,
            _of("atari", _SIX_GAMES),
            ("dqn", "rainbow"),
            ("none", "mico"),
            _FIVE,
            "atari",
            variants=(
                {},
                {"metric.error": "squared"},
                {"metric.horizon": "one-step"},
                {"metric.terminals": "absorbing"},
                {"metric.self_pairs": "exclude"},
                {"metric.second": "frozen"},
                {"metric.second": "online"},
            ),
        ),
    ),
    "minatar": NamedSweep(
        "MinAtar's five games as published: five agents with and without MICo, ten seeds, ten million steps",
        Sweep(
            10_000_000,
            _of("minatar", _MINATAR),
            _VALUE_AGENTS,
            ("none", "mico"),
            _TEN,
            fields={"env.actions": ("all",), "env.max_steps": ("original",), "schedule.log_period": (100_000,)},
        ),
    ),
}
