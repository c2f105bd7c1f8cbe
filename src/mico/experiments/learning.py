"""DQN with and without the MICo loss on one environment: runs paired by seed, learning curves with intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from mico.deep.agents import DQN
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Run, Schedule, run_names
from mico.deep.envs import ENVS, environment
from mico.deep.metric_losses import MICo
from mico.deep.training.train import Progress, train
from mico.evidence.intervals import mean_interval
from mico.evidence.run_scores import final_scores
from mico.plotting import plots
from mico.runs.folder import read_runs

BASE = "DQN"
_ENDS = ("", "_low", "_high")  # a mean, and the ends of its interval

# In a hurry: exploration ends soon and steps are large, so that learning shows within 50,000 steps.
_AGENT = DQN(learning_rate=1e-3, adam_epsilon=3.125e-4)
_SCHEDULE = Schedule(target_period=500, epsilon_decay=20_000, log_period=2_500)


@dataclass(frozen=True)
class Config:
    """An environment, DQN's fields and schedule, the weights α of the MICo loss (0 is DQN), and how long to learn."""

    env: str = "minatar/breakout"
    agent: DQN = _AGENT
    schedule: Schedule = _SCHEDULE
    alphas: tuple[float, ...] = (0.0, 0.01)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    steps: int = 50_000

    def __post_init__(self) -> None:
        if 0 not in self.alphas:
            raise ValueError(f"alphas must have a 0 among them, DQN alone, but are {self.alphas}")


def run(config: Config, folder: Path, report: Callable[[Progress], None] = lambda progress: None) -> pd.DataFrame:
    """The tidy log of all runs, trained as one fleet in a new folder, with their `arm`: "DQN" or "DQN + MICo …"."""
    preset = PRESETS[ENVS[config.env.partition("/")[0]].preset]["dqn"]
    env = environment(config.env)
    pairs = list(product(config.alphas, config.seeds))
    runs = [
        Run(config.agent, MICo(alpha=alpha), env, preset.network, preset.replay, config.schedule, seed)
        for alpha, seed in pairs
    ]
    train(runs, folder, steps=config.steps, report=report)
    arms = {name: _arm(alpha) for name, (alpha, _) in zip(run_names(runs), pairs, strict=True)}
    frame = read_runs(folder)
    return frame.assign(arm=frame["run"].map(arms))


def gains(frame: pd.DataFrame) -> pd.DataFrame:
    """Gain in return of each arm over DQN with the same seed at the same step."""
    returns = frame.loc[frame["name"] == "return", ["arm", "seed", "step", "value"]]
    both = returns[returns["arm"] != BASE].merge(
        returns[returns["arm"] == BASE], on=["seed", "step"], suffixes=("", "_of_dqn")
    )
    return both.assign(value=both["value"] - both["value_of_dqn"])[["arm", "seed", "step", "value"]]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A line for each arm: its `score`, its gain over DQN, and 95% intervals of both over seeds."""
    scores, _ = final_scores(frame)
    by_seed = scores.pivot(index="seed", columns="arm", values="value")
    lines = []
    for arm in frame["arm"].unique():
        own = by_seed[arm].dropna()
        gain = (own - by_seed[BASE]).dropna() if arm != BASE else own.iloc[:0]
        numbers = {"score": mean_interval(own.to_numpy()), "gain": mean_interval(gain.to_numpy())}
        line = {f"{name}{end}": value for name, three in numbers.items() for end, value in zip(_ENDS, three)}
        lines.append({"arm": arm, "seeds": len(own)} | line)
    return pd.DataFrame(lines)


def plot(frame: pd.DataFrame) -> Figure:
    """Returns of each arm while they learn, and beside them the gains, seed by seed, with 95% intervals over seeds."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    colour_of = plots.colours(frame["arm"].unique())
    plots.curves(frame[frame["name"] == "return"], left, by="arm", colour_of=colour_of)
    left.set(title=frame["env"].iloc[0], ylabel="return of an episode")
    plots.curves(gains(frame), right, by="arm", colour_of=colour_of)
    right.axhline(0, color="0.5", linewidth=1, zorder=0)
    right.set(title="difference to DQN with the same seed", ylabel="difference of returns")
    return figure


def _arm(alpha: float) -> str:
    return f"{BASE} + MICo, α = {alpha:g}" if alpha else BASE
