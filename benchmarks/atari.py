"""Speed of training on Atari games, beside the emulator's own with as many environments in the same run.

python benchmarks/atari.py --runs 8 16 32 --precision bfloat16 --capacity 50000

A run plays 4 frames a step and learns every fourth step from 32 transitions, or from as many as `--batch-size` says;
one of 200 million frames has 50 million steps. All actions are random, on both sides (a run chooses one by its network,
and does not take it), and the emulator is split among as many threads as the runs are. Runs choose the action that
follows an update after it, or before it and play meanwhile. Each figure is a median over turns, with the least and the
most; shares are of the emulator with the first number of parts, which is one as its vector form comes, and of its
quickest way. With `--still` there are also runs whose environment shows the same picture at every step, for nothing:
what they take is all that comes on top of the emulator, where nothing of it is hidden.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from statistics import median
from typing import Any, cast, get_args

import jax
import numpy as np

from against import parse, record
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Acting, Run
from mico.deep.envs import AbstractHostEnv, Episodes, environment
from mico.deep.fleet.shards import ShardedFleet, split_evenly
from mico.deep.metric_losses import MICo
from still import Still

ACTING = get_args(Acting)
WHOLE = 50_000_000  # steps of 200 million frames


def played(game: str) -> AbstractHostEnv:
    return cast(AbstractHostEnv, environment(game))


class Training:
    """An agent, once it has begun to learn."""

    def __init__(
        self,
        env: AbstractHostEnv,
        sizes: list[int],
        agent: str,
        metric: str,
        acting: Any,
        options: argparse.Namespace,
    ):
        preset = PRESETS["atari"][agent]
        parts = (
            preset.agent,
            MICo(alpha=preset.alpha) if metric == "mico" else None,
            env,
            replace(preset.network, precision=options.precision),
            replace(preset.replay, capacity=options.capacity, batch_size=options.batch_size),
            replace(preset.schedule, learning_starts=options.warm_up, epsilon=1.0, acting=acting),
        )
        self.count, self.time = sum(sizes), 0
        self.engine = ShardedFleet([Run(*parts, seed) for seed in range(self.count)], sizes)
        self.state = self.engine.begin()
        for learns in (False, True):
            self.play(options.warm_up, learns=learns)

    def play(self, length: int, *, learns: bool = True) -> None:
        self.state, _ = self.engine.play(self.state, self.time, length, learns)
        jax.block_until_ready(self.state)
        self.time += length

    def rate(self, length: int) -> float:
        """Agent steps a second of all runs together."""
        start = time.perf_counter()
        self.play(length)
        return length * self.count / (time.perf_counter() - start)


class Emulator:
    """Environments that take actions at random, and nothing else, in groups with a thread each."""

    def __init__(self, sizes: list[int], game: str):
        self.env, self.sizes = played(game), sizes
        self.groups = [Episodes(self.env.make(size), np.arange(size)) for size in sizes]
        for group in self.groups:
            group.start()

    def rate(self, length: int) -> float:
        start = time.perf_counter()
        with ThreadPoolExecutor(len(self.groups)) as threads:
            list(threads.map(self._play, self.groups, self.sizes, [length] * len(self.groups)))
        return length * sum(self.sizes) / (time.perf_counter() - start)

    def _play(self, group: Episodes, size: int, length: int) -> None:
        rng = np.random.default_rng(0)
        for _ in range(length):
            group.step(rng.integers(self.env.spec.num_actions, size=size))

    def close(self) -> None:
        for group in self.groups:
            group.close()


def turns(contenders: dict[str, Callable[[int], float]], options: argparse.Namespace) -> dict[str, list[float]]:
    """Rates, one contender after the other, again and again."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.repeats):
        for name, rate in contenders.items():
            found[name].append(rate(options.length))
    return found


def measured(count: int, options: argparse.Namespace) -> None:
    splits = [split_evenly(count, parts) for parts in options.parts if parts <= count]
    emulators = {f"emulator, {_parts(len(sizes))}": Emulator(sizes, options.game) for sizes in splits}
    env = played(options.game)
    games = {"": env, "no emulator, ": Still(env.spec, None)} if options.still else {"": env}
    arms = product(options.agent, options.metric, options.acting, games, splits)
    training = {
        f"{agent}, {metric}, {acting}, {game}{_parts(len(sizes))}": Training(
            games[game], sizes, agent, metric, acting, options
        )
        for agent, metric, acting, game, sizes in arms
    }
    found = turns({name: one.rate for name, one in (emulators | training).items()}, options)
    alone = [median(found[name]) for name in emulators]
    for name, values in found.items():
        rate = median(values)
        spread = f"{rate:,.0f} ({min(values):,.0f}–{max(values):,.0f})"
        hours = "" if name in emulators else f"{WHOLE * count / rate / 3600:>10.1f}"
        frames = f"{4 * rate:>12,.0f} {4 * rate / count:>10,.0f}"
        shares = f"{rate / alone[0]:>6.0%} {rate / max(alone):>7.0%}"
        print(f"{count:>4} {name:<48} {spread:>26} {shares} {frames} {hours}", flush=True)
        record(f"{count} {name}", rate, "/s")
    for one in emulators.values():
        one.close()
    for one in training.values():
        one.engine.close()


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="atari/breakout")
    parser.add_argument("--agent", choices=PRESETS["atari"], nargs="+", default=["dqn"])
    parser.add_argument("--metric", choices=("none", "mico"), nargs="+", default=["none", "mico"])
    parser.add_argument("--acting", choices=ACTING, nargs="+", default=ACTING, help="when actions are chosen")
    parser.add_argument("--runs", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4], help="threads that a fleet is split among")
    parser.add_argument("--still", action="store_true", help="runs without an emulator, too")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--capacity", type=int, default=50_000, help="frames in each replay")
    parser.add_argument("--length", type=int, default=400, help="steps of a turn")
    parser.add_argument("--warm-up", type=int, default=200, help="steps before learning starts, and as many after it")
    parser.add_argument("--repeats", type=int, default=5)
    options = parse(parser)
    print("device:", jax.devices()[0].device_kind, "·", options.game, options.precision, flush=True)
    shares = f"{'share':>6} {'of best':>7}"
    header = f"{'agent steps a second':>26} {shares} {'frames/s':>12} {'of a run':>10} {'h for 200M':>11}"
    print(f"{'runs':>4} {'':<48} {header}", flush=True)
    for count in options.runs:
        measured(count, options)


if __name__ == "__main__":
    main()
