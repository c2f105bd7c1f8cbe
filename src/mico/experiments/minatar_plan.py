"""Runs of the study on MinAtar: a sweep over α and β, then every game with every agent and arm."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pandas as pd
import tyro

from mico._suggestions import near
from mico.deep.agents import VALUE_AGENTS
from mico.deep.agents.iqn import AbstractImplicitAgent
from mico.deep.config.presets import PRESETS
from mico.deep.metric_losses import MICo
from mico.deep.networks.layers import Precision
from mico.evidence.baselines import scale_of
from mico.evidence.normalise import normalised
from mico.evidence.run_scores import final_scores
from mico.evidence.scores import with_arms
from mico.runs.archive import of_runs
from mico.runs.tables import read_scores
from mico.sweeps.grid import Cell, Sweep, cells
from mico.sweeps.named import SWEEPS

Phase = Literal["alpha-beta", "study"]
PHASES: tuple[Phase, ...] = get_args(Phase)

# Whose sweep chooses the weights of others: agents that have the same α in the paper.
_SWEPT = {"rainbow": "dqn", "iqn": "qr-dqn", "m-iqn": "qr-dqn"}
_GAMES = tuple(env.partition("/")[2] for env in SWEEPS["minatar"].sweep.env)
_METRICS = ("none", "mico")
_PERIOD = 4  # steps between updates, of which periods must be multiples


def _arg(purpose: str, default: str | None = None, metavar: str | None = None) -> Any:
    """How a field is described; `default` says in words what None stands for."""
    return tyro.conf.arg(help=purpose, help_behavior_hint=default and f"(default: {default})", metavar=metavar)


@dataclass(frozen=True)
class Config:
    """Games, agents and seeds, the sweep that chooses α and β, and whether to train what is missing."""

    games: Annotated[tuple[str, ...], _arg("MinAtar games to compare on.")] = _GAMES
    agents: Annotated[tuple[str, ...], _arg("Agents to compare, each without and with MICo.")] = tuple(VALUE_AGENTS)
    seeds: Annotated[tuple[int, ...], _arg("Random seeds: each arm has a run for each.")] = tuple(range(10))
    steps: Annotated[int, _arg("Agent steps of each run.")] = 2_000_000
    alpha: Annotated[
        float | None,
        _arg(
            "Weight α of the MICo loss in a second arm, beside the arm with the paper's weights.", "as the sweep chose"
        ),
    ] = None
    beta: Annotated[
        float | None, _arg("Weight β of the angular distance in that second arm.", "as the sweep chose")
    ] = None
    sweep_games: Annotated[tuple[str, ...], _arg("MinAtar games of the sweep that chooses α and β.")] = (
        "breakout",
        "space-invaders",
    )
    sweep_seeds: Annotated[tuple[int, ...], _arg("Random seeds of the sweep; none may be a seed of the study.")] = (
        100,
        101,
        102,
        103,
        104,
    )
    sweep_steps: Annotated[int, _arg("Agent steps of each run of the sweep.")] = 1_800_000
    sweep_alphas: Annotated[tuple[float, ...], _arg("Weights α that the sweep compares.")] = (0.001, 0.01, 0.1, 0.5)
    sweep_betas: Annotated[tuple[float, ...], _arg("Weights β that the sweep compares.")] = (0.01, 0.1, 1.0)
    points: Annotated[int, _arg("Points of each learning curve.")] = 50
    phases: Annotated[tuple[Phase, ...], _arg("Parts to train and to show: the sweep over α and β, and the study.")] = (
        PHASES
    )
    results: Annotated[
        str,
        _arg(
            "Folder of more results, beside those in the package; runs trained here are added to it.", "none", "FOLDER"
        ),
    ] = ""
    train: Annotated[bool, _arg("Train the runs that are missing in the results; on a CPU this takes days.")] = False
    runs: Annotated[
        str, _arg("Folder to train in and to resume from; an empty name means a temporary folder.", None, "FOLDER")
    ] = "runs/minatar"
    max_runs: Annotated[int, _arg("Most runs to train together as one program.")] = 128
    precision: Annotated[
        Precision | None, _arg("Number type that the networks compute in.", "float32, for IQN and M-IQN bfloat16")
    ] = None
    epsilon_decay: Annotated[
        int | None, _arg("Steps after learning starts in which ε falls from 1.", "the preset's 250,000")
    ] = None
    seconds: Annotated[
        float | None, _arg("Seconds after which the training stops and saves a checkpoint.", "no limit")
    ] = None

    def __post_init__(self) -> None:
        for name in ("games", "agents", "seeds", "sweep_games", "sweep_seeds", "sweep_alphas", "sweep_betas", "phases"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must have values, all of them different, but is {values}")
        for name, known in (("games", _GAMES), ("sweep_games", _GAMES), ("agents", VALUE_AGENTS), ("phases", PHASES)):
            for value in getattr(self, name):
                if value not in known:
                    raise ValueError(f"{name} must be of {', '.join(known)}, but has {value!r}: {near(value, known)}?")
        for name, least in (("points", 1), ("max_runs", 1), ("epsilon_decay", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, but is {value}")
        for name in ("steps", "sweep_steps"):
            steps = getattr(self, name)
            if steps < 1 or steps % (_PERIOD * self.points):
                raise ValueError(f"{name} must be a multiple of {_PERIOD} × points {self.points}, but is {steps}")
        both = set(self.seeds) & set(self.sweep_seeds)
        if both:
            raise ValueError(f"sweep_seeds must be none of the seeds, but both have {min(both)}")
        if (self.alpha is None) != (self.beta is None):
            raise ValueError(f"alpha and beta are given together, but are {self.alpha} and {self.beta}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be more than 0, but is {self.seconds}")


class Weights(NamedTuple):
    """Weights α of the MICo loss and β of the angular distance in it."""

    alpha: float
    beta: float


class Part(NamedTuple):
    """Runs that share a program: one phase of one agent in one game."""

    phase: Phase
    agent: str
    game: str
    sweep: Sweep

    @property
    def name(self) -> str:
        """Name of the folder; a study with other weights has another."""
        weights = [Weights(*variant.values()) for variant in self.sweep.variants if variant]
        words = [f"a{one.alpha:g}b{one.beta:g}" for one in weights]
        return "-".join([self.phase, self.agent, self.game, *words])

    @property
    def cells(self) -> list[Cell]:
        return cells(self.sweep)


def key_of(cell: Cell) -> tuple[Any, ...]:
    """The key of a run in results: agent, metric, env, seed, and the weights or None."""
    fields = dict(cell.fields)
    weights = (fields.get("metric.alpha"), fields.get("metric.beta"))
    return (cell.agent, cell.metric, cell.env, cell.seed, *weights)


@cache
def paper_weights(agent: str) -> Weights:
    """The paper's weights for an agent."""
    return Weights(PRESETS["minatar"][agent].alpha, MICo().beta)


def sweep_parts(config: Config, agent: str) -> list[Part]:
    """An agent, or the one whose weights it takes, with every α and β, and without MICo, where weights are chosen."""
    agent = _SWEPT.get(agent, agent)
    grid = {"metric.alpha": config.sweep_alphas, "metric.beta": config.sweep_betas}
    steps, seeds = config.sweep_steps, config.sweep_seeds
    fields = _fields(config, agent, steps) | grid
    return [
        Part("alpha-beta", agent, game, Sweep(steps, (f"minatar/{game}",), (agent,), _METRICS, seeds, fields=fields))
        for game in config.sweep_games
    ]


def study_parts(config: Config, agent: str, chosen: Weights | None) -> list[Part]:
    """An agent without MICo, with the paper's weights, and with those that are given or else chosen."""
    given = None if config.alpha is None or config.beta is None else Weights(config.alpha, config.beta)
    arms = dict.fromkeys(arm for arm in (paper_weights(agent), given or chosen) if arm is not None)
    variants = [{"metric.alpha": arm.alpha, "metric.beta": arm.beta} for arm in arms]
    about: dict[str, Any] = {"fields": _fields(config, agent, config.steps), "variants": variants}
    return [
        Part("study", agent, game, Sweep(config.steps, (f"minatar/{game}",), (agent,), _METRICS, config.seeds, **about))
        for game in config.games
    ]


def choice(rows: pd.DataFrame, config: Config, agent: str, done: Mapping[tuple[Any, ...], int]) -> Weights | None:
    """The best weights by the sweep for an agent; None if that is not complete."""
    keys = {key_of(cell) for part in sweep_parts(config, agent) for cell in part.cells}
    if any(done.get(key) != config.sweep_steps for key in keys):
        return None
    return best_weights(of_runs(rows, keys))


def best_weights(rows: pd.DataFrame) -> Weights | None:
    """The weights of one agent's sweep whose gain (`sweep_gains`) is largest; None if there is none."""
    gains = sweep_gains(rows)
    return None if gains.empty else Weights(*map(float, gains.index[int(gains.argmax())]))


def sweep_gains(rows: pd.DataFrame) -> pd.Series:
    r"""The mean over games of $(x - f) / (b - f)$ for the weights α and β of one agent's sweep.

    x is a mean score, b that of runs without MICo and f the mean first return of these, as in reports (`scale_of`);
    games in which these do not clearly rise count for nothing, and so do weights that lack one of the others.
    """
    frame = with_arms(read_scores(rows))
    fields = frame.drop_duplicates("arm").set_index("arm")[["metric", "metric.alpha", "metric.beta"]]
    is_base = fields["metric"] == "none"
    none = pd.Series(dtype=float)
    if is_base.sum() != 1:
        return none
    scale, _ = scale_of("baseline", frame)
    rising = frame[frame["env"].map(lambda env: scale(env) is not None)]
    scores, _ = final_scores(normalised(rising, scale)[0])
    gains = scores.groupby(["arm", "env"])["value"].mean().unstack().mean(axis="columns", skipna=False)
    gains = gains.reindex(fields.index[~is_base]).dropna()
    if gains.empty:
        return none
    return gains.set_axis(
        pd.MultiIndex.from_frame(fields.loc[gains.index, ["metric.alpha", "metric.beta"]].astype(float))
    )


def _fields(config: Config, agent: str, steps: int) -> dict[str, tuple[Any, ...]]:
    """MinAtar's games as published, and IQN's fractions as the paper's code draws them, which takes less work."""
    implicit = issubclass(VALUE_AGENTS[agent], AbstractImplicitAgent)
    own: dict[str, tuple[Any, ...]] = {"agent.fractions": ("shared",)} if implicit else {}
    if config.epsilon_decay is not None:
        own["schedule.epsilon_decay"] = (config.epsilon_decay,)
    precision = config.precision or ("bfloat16" if implicit else "float32")
    measured = {"schedule.log_period": (steps // config.points,), "network.precision": (precision,)}
    return {**SWEEPS["minatar"].sweep.fields, **measured, **own}
