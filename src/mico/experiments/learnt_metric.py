r"""The MICo distance that a table of vectors learns from samples, compared pair by pair with the exact one.

$U_\omega$ can equal U only where the reduced distance fits on a sphere, as $\beta\theta$ does; and a loss has U as its
fixed point only with the squared error and without self-pairs, whose two sides share one next state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from mico.deep import load
from mico.deep.agents import DQN
from mico.deep.config.run import Run, Schedule, run_names
from mico.deep.envs import Tabular
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.deep.training.train import Progress, train
from mico.plotting import plots
from mico.tabular import solve

SQUARED = MICo(alpha=1.0, beta=1.0, error="squared", self_pairs="exclude")
LOSSES = {"squared-error": SQUARED, "released": MICo(alpha=1.0), "released-with-td": MICo()}
# The reduced distance of this one all but fits on a sphere.
GARNET = {"num_states": 10, "num_actions": 2, "seed": 2, "discount": 0.8}

_EPISODE = 20  # steps to a time-out, after which targets go on: short episodes begin, and so learn, everywhere


@dataclass(frozen=True)
class Config:
    """A problem by its name, with its options; the losses to learn it by; how long each seed learns, and how fast.

    The policy is the uniform one, ε being 1 for ever.
    """

    problem: str = "garnet"
    options: Mapping[str, Any] = field(default_factory=lambda: GARNET)
    losses: Mapping[str, MICo] = field(default_factory=lambda: LOSSES)
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    steps: int = 80_000
    learning_rate: float = 3e-4


def run(config: Config, folder: Path, report: Callable[[Progress], None] = lambda progress: None) -> pd.DataFrame:
    """A line for each loss, seed and ordered pair of states: U as it was `learnt`, and `exact`, of the rewards' laws.

    Absorbing states are left out: there is nothing to learn them from. Each loss trains a fleet in its own new folder
    in `folder`, of which `report` hears.
    """
    env = Tabular(config.problem, max_steps=_EPISODE, **config.options)
    mdp, states = env.problem.mdp, np.asarray(env.table.starts)
    exact = solve("mico", mdp, "uniform", reward="sampled").matrix[np.ix_(states, states)]
    x, y = (side.ravel() for side in np.meshgrid(states, states, indexing="ij"))
    frames = np.eye(mdp.num_states, dtype=bool)[states]
    parts = []
    for name, loss in config.losses.items():
        runs = [_run(config, env, loss, seed) for seed in config.seeds]
        train(runs, folder / name, steps=config.steps, report=report)
        for seed, one in zip(config.seeds, run_names(runs), strict=True):
            learnt = np.ravel(load(folder / name / one).distance(frames, frames))
            pairs = {"x": x, "y": y, "exact": exact.ravel(), "learnt": learnt}
            parts.append(pd.DataFrame({"loss": name, "seed": seed} | pairs))
    return pd.concat(parts, ignore_index=True)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each loss, and for pairs of two states and of one: how learnt and exact agree, in the mean over seeds.

    `pearson` is the correlation, `lowest` and `highest` that of single seeds; `spearman` is that of ranks; `error` is
    the root of the mean squared difference.
    """
    lines = []
    for loss, rows in frame.groupby("loss", sort=False):
        for pairs, part in _by_kind(rows).items():
            each = pd.DataFrame([_agreement(one) for _, one in part.groupby("seed")])
            extremes = {"lowest": each["pearson"].min(), "highest": each["pearson"].max()}
            lines.append({"loss": loss, "pairs": pairs} | each.mean().to_dict() | extremes)
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """A panel for each loss: what was learnt of each pair of states, and of each state with itself, against exact."""
    correlation = table(frame).set_index(["loss", "pairs"])["pearson"]
    losses = frame["loss"].unique()
    figure = Figure(figsize=(3.6 * len(losses), 3.8), layout="constrained")
    for name, ax in zip(losses, figure.subplots(1, len(losses), squeeze=False).flat):
        points = {
            f"{pairs}, r = {correlation[name, pairs]:.2f}": part[["exact", "learnt"]].to_numpy()
            for pairs, part in _by_kind(frame[frame["loss"] == name]).items()
        }
        plots.agreement(points, ax)
        ax.set(title=name, xlabel="exact U", ylabel="learnt U")
    return figure


def _by_kind(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Each pair once, for both distances are symmetric."""
    return {"two states": frame[frame["x"] < frame["y"]], "one state": frame[frame["x"] == frame["y"]]}


def _agreement(pairs: pd.DataFrame) -> dict[str, float]:
    exact, learnt = pairs["exact"], pairs["learnt"]
    return {
        "pearson": stats.pearsonr(exact, learnt).statistic,
        "spearman": stats.spearmanr(exact, learnt).statistic,
        "error": np.sqrt(np.mean((exact - learnt) ** 2)),
    }


def _run(config: Config, env: Tabular, loss: MICo, seed: int) -> Run:
    agent = DQN(discount=env.problem.mdp.discount, learning_rate=config.learning_rate)
    schedule = Schedule(target_period=200, epsilon=1.0, epsilon_decay=0, log_period=1_000)
    return Run(agent, loss, env, NetworkConfig("table", width=32, hidden=0), Replay(capacity=20_000), schedule, seed)
