"""Does MICo help Stable-Baselines3's DQN? Both, on CartPole and on MinAtar's Breakout, with the same seeds.

    python examples/sb3_comparison.py --out runs/comparison --processes 2

Each finished run has a folder in OUT, and a comparison that is started again trains only the others. At the end
OUT/returns.csv holds every evaluation, OUT/summary.csv the statistics and OUT/curves.png the curves. It needs the extra
`torch` and MinAtar: pip install '.[torch]' minatar in a clone of mico-rl.
"""

# ruff: noqa: T201

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import minatar.gym
import pandas as pd
import torch
import tyro
from gymnasium import Space
from matplotlib.figure import Figure
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from mico.evidence.curves import training_curves
from mico.evidence.scores import shared, tabulate
from mico.evidence.statistics import difference, estimate, improvement_probability
from mico.plotting import plots
from mico.plotting.score_plots import training_grid
from mico.runs.files import write_json
from mico.runs.folder import read_runs
from mico.runs.log import Log
from mico.torch import MICoLoss
from mico.torch.sb3 import MICoDQN

minatar.gym.register_envs()

EPISODES = 10  # of the greedy policy, in each of the evaluations
EVALUATIONS = 20  # of a run, evenly spaced
LAST = 0.25  # of the steps are the end of training


class Convolution(BaseFeaturesExtractor):
    """16 filters of 3×3 as in MinAtar's own network; their 1,024 outputs are φ."""

    def __init__(self, space: Space) -> None:
        super().__init__(space, features_dim=1024)
        self.layers = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Flatten())

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations.permute(0, 3, 1, 2))


class Task(NamedTuple):
    """An environment, the steps of a run in it, and the arguments of DQN."""

    env: str
    steps: int
    arguments: dict[str, Any]
    limit: int | None = None  # steps of an episode, where the environment itself has none


TASKS = {
    "cartpole": Task(
        "CartPole-v1",
        50_000,
        {
            "learning_rate": 2.3e-3,
            "batch_size": 64,
            "buffer_size": 100_000,
            "learning_starts": 1_000,
            "train_freq": 256,
            "gradient_steps": 128,
            "target_update_interval": 10,
            "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04,
        },
    ),
    "breakout": Task(
        "MinAtar/Breakout-v1",
        75_000,
        {
            "learning_rate": 2.5e-4,
            "batch_size": 32,
            "buffer_size": 100_000,
            "learning_starts": 1_000,
            "train_freq": 4,
            "target_update_interval": 1_000,
            "exploration_fraction": 0.2,
            "exploration_final_eps": 0.05,
            "policy_kwargs": {"features_extractor_class": Convolution, "net_arch": [128]},
        },
        limit=1_000,
    ),
}

ARMS = {
    "plain": None,
    "absorbing": MICoLoss(alpha=0.01, beta=0.1, terminals="absorbing"),
    "bootstrap": MICoLoss(alpha=0.01, beta=0.1, terminals="bootstrap"),
}
VARIED = ("alpha", "beta", "terminals")  # fields of the losses that are written beside their results


class Cell(NamedTuple):
    """One run: a task, an arm and a seed."""

    task: str
    arm: str
    seed: int
    steps: int

    def __str__(self) -> str:
        return f"{self.task}-{self.arm}-{self.steps}-seed{self.seed}"


class Evaluated(BaseCallback):
    """What the greedy policy returns, and what the losses are, as rows of a log."""

    def __init__(self, env: VecEnv, every: int) -> None:
        super().__init__()
        self.env, self.every = env, every
        self.rows: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            mean, _ = evaluate_policy(self.model, self.env, EPISODES)
            logged = self.logger.name_to_value  # nothing is ever dumped, so these are the latest
            losses = {name: logged[name] for name in logged if name == "train/loss" or name.startswith("metric/")}
            self.rows.append({"step": self.num_timesteps, "return": mean, **losses})
        return len(self.rows) < EVALUATIONS  # else training is over, though DQN would fill its last rollout


def envs(task: Task, count: int, seed: int) -> VecEnv:
    return make_vec_env(task.env, count, seed=seed, env_kwargs={"max_episode_steps": task.limit})


def train(out: Path, cell: Cell) -> Cell:
    """Train a run and write its folder in OUT, laid out as by `mico train`; config.json comes last."""
    torch.set_num_threads(1)
    task, metric = TASKS[cell.task], ARMS[cell.arm]
    evaluated = Evaluated(envs(task, EPISODES, 10_000 + cell.seed), cell.steps // EVALUATIONS)
    agent = DQN if metric is None else partial(MICoDQN, metric=metric)
    model = agent("MlpPolicy", envs(task, 1, cell.seed), seed=cell.seed, device="cpu", **task.arguments)
    model.learn(cell.steps, evaluated, log_interval=cell.steps)  # in episodes: never
    about = {"run": str(cell), "agent": "dqn", "metric": metric and "mico", "env": task.env, "seed": cell.seed}
    varied = {} if metric is None else {f"metric.{name}": getattr(metric, name) for name in VARIED}
    folder = out / str(cell)
    folder.mkdir(exist_ok=True)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)  # of a run that was stopped just here
    Log(log).append(evaluated.rows)
    write_json(folder / "config.json", {**about, "varied": varied})
    return cell


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Each arm in each environment, at the end of training and over all of it, with 95% bootstrap intervals."""
    rows = []
    for (env, own), (when, last) in product(frame.groupby("env", sort=False), (("end", LAST), ("all", 1.0))):
        scores = tabulate(own, last=last)
        for sentence in scores.excluded:
            print(sentence)
        for arm, table in scores.tables.items():
            found = {name: estimate(table, name, seed=0) for name in ("mean", "iqm")}
            if arm != "dqn":
                both = shared(scores, [arm, "dqn"]).tables
                found["difference"] = difference(both[arm], both["dqn"], "mean", seed=0)
                found["improvement"] = improvement_probability(both[arm], both["dqn"], seed=0)
            numbers = {name + end: x for name, e in found.items() for end, x in zip(("", "_low", "_high"), e)}
            rows.append({"env": env, "training": when, "arm": arm, "seeds": len(table), **numbers})
    return pd.DataFrame(rows)


@dataclass
class Args:
    out: Path
    """folder of the runs; the finished ones that it holds are not trained again"""
    tasks: tuple[Literal["cartpole", "breakout"], ...] = ("cartpole", "breakout")
    arms: tuple[Literal["absorbing", "bootstrap"], ...] = ("absorbing",)
    """how MICo treats terminal states; plain DQN is always trained too"""
    seeds: int = 10
    """number of seeds of each arm: 0, 1, …"""
    steps: int | None = None
    """steps of each run, by default the task's own"""
    processes: int = 1
    """how many runs are trained at once, each in a process of one thread"""


def main(args: Args) -> None:
    for name, least in (("seeds", 1), ("steps", EVALUATIONS), ("processes", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise SystemExit(f"--{name} must be at least {least}, got {value}")
    args.out.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell(task, arm, seed, args.steps or TASKS[task].steps)
        for seed in range(args.seeds)
        for task in args.tasks
        for arm in ("plain", *args.arms)
    ]
    left = [cell for cell in cells if not (args.out / str(cell) / "config.json").exists()]
    print(f"{len(cells) - len(left)} of {len(cells)} runs are finished already")
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(partial(train, args.out), cell) for cell in left]):
            print("done:", done.result(), flush=True)
    frame = read_runs(args.out).query("name == 'return'")
    frame = frame[frame["run"].isin(map(str, cells))]  # the folder may have other comparisons too
    frame = frame.sort_values(["env", "metric"], ascending=[True, False], kind="stable")  # "none" comes first
    frame.to_csv(args.out / "returns.csv", index=False)
    table = summary(frame)
    table.to_csv(args.out / "summary.csv", index=False)
    print(table.round(2).to_string(index=False))
    curves = training_curves(frame)
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = training_grid(curves, figure.subplots(1, curves["env"].nunique(), squeeze=False), level=0.95)
    axes[0, 0].set_ylabel("return")
    plots.save(figure, args.out / "curves")


if __name__ == "__main__":
    main(tyro.cli(Args))
