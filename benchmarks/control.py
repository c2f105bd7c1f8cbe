"""Speed of SAC on the control suite, without and with each metric loss, beside pictures alone and learning alone.

python benchmarks/control.py --runs 1 8 16 --precision bfloat16

A run takes one step of 4 of the suite's, sees it as a picture, and learns once from 256 transitions, or from as many as
`--batch-size` says. Figures are of all runs together, medians over turns with the least and the most. `learning alone`
has the same picture at every step, for nothing: what training takes longer than that, it waits for pictures. Training
chooses an action after the update before it (`after-learning`), or before it and plays meanwhile (`while-learning`).
"""

import argparse
import time
from dataclasses import replace
from statistics import median
from typing import Any, get_args

import jax
import numpy as np

from against import parse, record
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Acting, Run
from mico.deep.envs import AbstractHostEnv, Control, Episodes
from mico.deep.fleet.shards import ShardedFleet, default_shard_sizes
from still import Still

ACTING = get_args(Acting)
METRICS = ("none", "mico", "dbc", "dbc-det", "dbc-mico")


class Training:
    """SAC, once it has begun to learn."""

    def __init__(self, env: AbstractHostEnv, count: int, metric: str, acting: Any, options: argparse.Namespace):
        preset = PRESETS["control"]["sac"]
        parts = (
            preset.agent,
            None if metric == "none" else preset.metric_loss(metric),
            env,
            replace(preset.network, precision=options.precision),
            replace(preset.replay, capacity=options.capacity, batch_size=options.batch_size),
            replace(preset.schedule, learning_starts=options.warm_up, acting=acting),
        )
        runs = [Run(*parts, seed) for seed in range(count)]
        self.count, self.time, self.engine = count, 0, ShardedFleet(runs, default_shard_sizes(runs))
        self.state = self.engine.begin()
        self.play(options.warm_up, learns=False)
        self.play(options.length, learns=True)

    def play(self, length: int, *, learns: bool) -> None:
        self.state, _ = self.engine.play(self.state, self.time, length, learns)
        jax.block_until_ready(self.state)
        self.time += length

    def rate(self, length: int) -> float:
        """Agent steps, and updates, a second of all runs together."""
        start = time.perf_counter()
        self.play(length, learns=True)
        return length * self.count / (time.perf_counter() - start)

    def close(self) -> None:
        self.engine.close()
        for leaf in jax.tree.leaves(self.state):
            leaf.delete()


class Pictures:
    """Environments that take actions at random, and nothing else."""

    def __init__(self, env: Control, count: int):
        self.episodes, self.rng = Episodes(env.make(count), np.arange(count)), np.random.default_rng(0)
        self.episodes.start()
        self.shape = (count, env.spec.action_size)

    def rate(self, length: int) -> float:
        start = time.perf_counter()
        for _ in range(length):
            self.episodes.step(self.rng.uniform(-1, 1, self.shape).astype(np.float32))
        return length * self.shape[0] / (time.perf_counter() - start)

    def close(self) -> None:
        self.episodes.close()


def measured(count: int, options: argparse.Namespace) -> None:
    """Contenders for whose replays there is room at once: pictures, and one metric loss after the other."""
    env = Control(options.task, size=options.size)
    still = Still(env.spec, env.min_runs_to_split)
    pictures, plain = Pictures(env, count), {}
    for metric in options.metrics:
        here: dict[str, Any] = {"pictures alone": pictures}
        for acting in options.acting:
            here[f"{metric}, learning alone, {acting}"] = Training(still, count, metric, acting, options)
            here[f"{metric}, {acting}"] = Training(env, count, metric, acting, options)
        found = {name: [] for name in here}
        for _ in range(options.repeats):
            for name, one in here.items():
                found[name].append(one.rate(options.length))
        rates = {name: median(values) for name, values in found.items()}
        said = {}
        for acting in options.acting:
            learning, training = rates[f"{metric}, learning alone, {acting}"], rates[f"{metric}, {acting}"]
            share = training / plain.setdefault(acting, training)
            said[f"{metric}, {acting}"] = f"waits {1 - training / learning:.0%}, {share:.0%} of {options.metrics[0]}"
        for name, values in found.items():
            spread = f"{rates[name]:,.0f} ({min(values):,.0f}–{max(values):,.0f})"
            print(f"{count:>4} {name:<42} {spread:>24}  {said.get(name, '')}", flush=True)
            record(f"{count} {name}", rates[name], "/s")
        for name in list(here)[1:]:
            here[name].close()
    pictures.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cartpole-swingup")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS)
    parser.add_argument("--acting", choices=ACTING, nargs="+", default=ACTING, help="when actions are chosen")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--size", type=int, default=84, help="pixels of a picture, in either direction")
    parser.add_argument("--batch-size", type=int, default=256, help="transitions of an update")
    parser.add_argument("--warm-up", type=int, default=300, help="steps before learning starts")
    parser.add_argument("--capacity", type=int, default=20_000, help="frames in each replay")
    parser.add_argument("--length", type=int, default=100, help="steps of a turn")
    parser.add_argument("--repeats", type=int, default=5)
    options = parse(parser)
    print("device:", jax.devices()[0].device_kind, "·", options.task, options.precision, flush=True)
    print(f"{'runs':>4} {'':<42} {'steps a second':>24}", flush=True)
    for count in options.runs:
        measured(count, options)


if __name__ == "__main__":
    main()
