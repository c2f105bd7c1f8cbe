"""Speed of training: its start, against Stable-Baselines3, what MICo costs, fleets, and updates in the shapes of Atari.

python benchmarks/training.py                                  what this machine's device is for
python benchmarks/training.py --only start                     first and second start, beside a plain DQN in one file
python benchmarks/training.py --only plain                     CartPole and Breakout, beside a plain DQN in one file
python benchmarks/training.py --only sb3 --peer-python PATH    PATH runs a Python with stable-baselines3 and minatar
python benchmarks/training.py --only atari-update --capacity 1000000

Each figure is a median over repeats, with the least and the most; those compared take turns in one run.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from against import parse, record
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Run
from mico.deep.envs import environment
from mico.deep.fleet import jax_engine as fleet
from mico.deep.fleet.shards import ShardedFleet, default_shard_sizes, split_evenly
from mico.deep.learner import update as updates
from mico.deep.learner.state import TrainState, UpdateMetrics, init_params, init_state
from mico.deep.metric_losses import MICo
from mico.deep.types import Spec, Timestep

METRICS = ("none", "mico")
EPSILON = 0.01  # on both sides: acting at random spares Stable-Baselines3 the network
ATARI = Spec((84, 84), "uint8", 6)
WRITTEN = 250  # steps that enter a replay at once


def taking_turns(contenders: Mapping[Any, Callable[[], float]], repeats: int) -> dict[Any, list[float]]:
    """What each returns, again and again, one after the other."""
    found: dict[Any, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            found[name].append(contender())
    return found


def spread(values: list[float], digits: int = 0) -> str:
    middle, least, most = (f"{value:,.{digits}f}" for value in (median(values), min(values), max(values)))
    return f"{middle} ({least}–{most})"


def excess(more: list[float], less: list[float]) -> str:
    """The median over turns of how much more one took than the other."""
    return f"{100 * (median(a / b for a, b in zip(more, less, strict=True)) - 1):+.1f}%"


class Training:
    """A fleet on Breakout or CartPole, in its usual parts or in others, that has begun to learn; each call plays on."""

    def __init__(
        self, agent: str, metric: str, count: int, length: int, parts: int | None = None, game: str = "breakout"
    ):
        preset = PRESETS["minatar" if game == "breakout" else "vector"][agent]
        env = environment("minatar/breakout", sticky=0.1) if game == "breakout" else environment("gym/CartPole-v1")
        starts = min(preset.schedule.learning_starts, 5 * length)
        schedule = replace(preset.schedule, learning_starts=starts, epsilon=EPSILON, epsilon_decay=0)
        loss = None if metric == "none" else MICo(alpha=preset.alpha)
        settings = preset.agent, loss, env, preset.network, preset.replay, schedule
        self.runs = [Run(*settings, seed) for seed in range(count)]
        sizes = default_shard_sizes(self.runs) if parts is None else split_evenly(count, parts)
        self.engine = ShardedFleet(self.runs, sizes)
        self.states, self.time, self.length = self.engine.begin(), 0, length
        while self.time < 2 * starts:  # learning from the first, which spares a program to compile
            self.seconds()

    def seconds(self) -> float:
        start = time.perf_counter()
        states, _ = self.engine.play(self.states, self.time, self.length, True)
        self.states = jax.block_until_ready(self.engine.copy_targets(states))
        self.time += self.length
        return time.perf_counter() - start

    def rate(self) -> float:
        """Agent steps per second of all runs together."""
        return len(self.runs) * self.length / self.seconds()


class Peers:
    """Processes of Stable-Baselines3 that work at the same time."""

    def __init__(self, python: str, steps: int, *threads: int):
        script = str(Path(__file__).with_name("stable_baselines.py"))
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        commands = [[python, script, str(count), str(EPSILON)] for count in threads]
        self.steps, self.processes = steps, [subprocess.Popen(command, **pipes) for command in commands]
        self.parameters = [int(self.answer(process)) for process in self.processes]

    def answer(self, process: subprocess.Popen[str]) -> float:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise SystemExit("Stable-Baselines3 ended before its time")
        return float(line)

    def rate(self) -> float:
        """Agent steps per second of all processes together."""
        for process in self.processes:
            print(self.steps, file=process.stdin, flush=True)
        return len(self.processes) * self.steps / max(self.answer(process) for process in self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


def arithmetic(run: Run) -> dict[str, float]:
    """Floating-point operations of the matrix products in one agent step, with its share of updates."""
    params = jax.eval_shape(lambda: init_params(run, run.env.spec))
    (conv,), batch, size = params.encoder.layers, run.replay.batch_size, run.network.sizes(run.observation_shape).phi
    convolution = 2 * conv.weight.size * (size // conv.bias.size)
    head = 2 * (params.head.hidden.weight.size + params.head.output.weight.size)
    # Both networks forwards; backwards the head twice and the convolution once, as pixels need no gradient.
    update = batch * (2 * (convolution + head) + 2 * head + convolution)
    metric = (
        batch * convolution + 3 * 2 * batch**2 * size
    )  # the target's φ(x), two Gram matrices, one of them backwards
    alone = convolution + head + update / run.schedule.update_period
    return {"none": alone, "mico": alone + metric / run.schedule.update_period}


def product_rate() -> float:
    """Operations per second in a product like that of eight batches with the hidden layer, by NumPy or XLA."""
    x, weight = np.ones((256, 1024), np.float32), np.ones((1024, 128), np.float32)
    on_device, product, best = (jax.device_put(x), jax.device_put(weight)), jax.jit(jnp.matmul), float("inf")
    for _ in range(200):
        for work in (lambda: x @ weight, lambda: jax.block_until_ready(product(*on_device))):
            start = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - start)
    return 2 * x.size * weight.shape[1] / best


def check_parameters(ours: Training, theirs: list[int]) -> None:
    size = sum(leaf.size for state in ours.states for leaf in jax.tree.leaves(state.params)) // len(ours.runs)
    if set(theirs) != {size}:
        raise SystemExit(f"the networks differ: {size} parameters here, {theirs} there")
    print(f"both networks have {size:,} parameters")


def plain(options: argparse.Namespace) -> None:
    """DQN on CartPole, outside JAX, and on Breakout: agent steps per second, ours and a plain DQN's in one file."""
    import plain_dqn

    length, steps = (40, 2_100) if options.quick else (4_000, 10_000)  # it counts after the first 2,000
    print(f"{'':<22} {'steps/s of all runs':>26} {'÷ plain':>22}")
    for game, env, counts in (("cartpole", "CartPole-v1", (1, 4)), ("breakout", "minatar/breakout", (1,))):
        if game == "breakout" and importlib.util.find_spec("minatar") is None:
            print("breakout is left out: pip install minatar")
            continue

        def peer(env: str = env) -> float:
            return plain_dqn.train(env, steps, 0, epsilon=EPSILON, decay=0, report=lambda line: None)[2]

        ours = {count: Training("dqn", "none", count, length, game=game).rate for count in counts}
        found = taking_turns({"plain": peer} | ours, options.repeats)
        for name, rates in found.items():
            ratios = [rate / other for rate, other in zip(rates, found["plain"], strict=True)]
            shown = "plain" if name == "plain" else f"ours, {name} run{'s' * (name > 1)}"
            print(f"{game + ' ' + shown:<22} {spread(rates):>26} {spread(ratios, 2):>22}", flush=True)
            record(f"{game}, {shown}", median(rates), "/s")


def sb3(options: argparse.Namespace) -> None:
    """DQN on MinAtar's Breakout, agent steps per second: ours, and Stable-Baselines3's."""
    if options.peer_python is None and importlib.util.find_spec("stable_baselines3") is None:
        print("left out: pip install torch stable-baselines3 minatar, in any environment, and name its --peer-python")
        return
    steps, length, counts = (100, 40, (1,)) if options.quick else (4_000, 1_000, (1, 4, 8))
    threads = {"one process": (0,), "one process, one thread": (1,), "two processes, one thread each": (1, 1)}
    python = options.peer_python or sys.executable
    theirs = {f"SB3, {name}": Peers(python, steps, *each) for name, each in threads.items()}
    ours = {(metric, count): Training("dqn", metric, count, length) for metric in METRICS for count in counts}
    check_parameters(ours["none", 1], [size for peers in theirs.values() for size in peers.parameters])
    found = taking_turns({name: each.rate for name, each in (ours | theirs).items()}, options.repeats)
    for peers in theirs.values():
        peers.close()
    *single, two = (median(found[name]) for name in theirs)
    speed = product_rate()
    most = {metric: speed / work for metric, work in arithmetic(ours["none", 1].runs[0]).items()}
    print(f"{'':<38} {'steps per second':>24} {'÷ one SB3':>10} {'÷ two SB3':>10} {'of products':>12}")
    for key, values in found.items():
        name = key if key in theirs else f"ours, metric {key[0]}, {key[1]} run{'s' * (key[1] > 1)}"
        own = f"{median(values) / most[key[0]]:>12.0%}" if key in ours else ""
        ratios = f"{median(values) / max(single):>10.2f} {median(values) / two:>10.2f}"
        print(f"{name:<38} {spread(values):>24} {ratios} {own}", flush=True)
        record(name, median(values), "/s")
    for metric, allowed in most.items():
        print(f"matrix products alone, at {speed / 1e9:.0f} GFLOP/s, metric {metric}: {allowed:,.0f} steps per second")


def compared(cases: list[tuple[str, int]], length: int, repeats: int) -> None:
    """Fleets with and without MICo."""
    print(
        f"{'agent':<8} {'runs':>5} {'µs a step without':>26} {'with MICo':>26} {'more':>8} {'steps/s of all runs':>23}"
    )
    for agent, count in cases:
        fleets = {metric: Training(agent, metric, count, length) for metric in METRICS}
        found = taking_turns({metric: training.seconds for metric, training in fleets.items()}, repeats)
        each = {metric: [1e6 * seconds / (length * count) for seconds in found[metric]] for metric in METRICS}
        times = " ".join(f"{spread(each[metric], 1):>26}" for metric in METRICS)
        rates = " ".join(f"{1e6 / median(each[metric]):>11,.0f}" for metric in METRICS)
        print(f"{agent:<8} {count:>5} {times} {excess(found['mico'], found['none']):>8} {rates}", flush=True)
        for metric in METRICS:
            record(f"{agent}, {count} runs, metric {metric}", 1e6 / median(each[metric]), "/s")


def cost(options: argparse.Namespace) -> None:
    """What MICo adds to a step, on MinAtar's Breakout."""
    others = [(agent, 4) for agent in PRESETS["minatar"] if agent != "dqn"]
    cases = [("dqn", 1)] if options.quick else [("dqn", 1), ("dqn", 4), ("dqn", 8), *others]
    compared(cases, 40 if options.quick else 400, options.repeats)


def split(options: argparse.Namespace) -> None:
    """A fleet on MinAtar's Breakout as one program, and with every run as a part of its own."""
    cases = [("dqn", 2)] if options.quick else [(agent, count) for agent in ("dqn", "qr-dqn") for count in (4, 8)]
    print(f"{'agent':<8} {'runs':>5} {'steps/s as one program':>26} {'every run a part':>26} {'ratio':>8}")
    for agent, count in cases:
        ways = {parts: Training(agent, "mico", count, 40 if options.quick else 400, parts) for parts in (1, count)}
        found = taking_turns({parts: way.rate for parts, way in ways.items()}, options.repeats)
        rates = " ".join(f"{spread(values):>26}" for values in found.values())
        ratio = median(a / b for a, b in zip(found[count], found[1], strict=True))
        print(f"{agent:<8} {count:>5} {rates} {ratio:>8.2f}", flush=True)
        for parts, values in found.items():
            record(f"{agent}, {count} runs in {parts} parts", median(values), "/s")


def large_fleets(options: argparse.Namespace) -> None:
    """Many runs at once on MinAtar's Breakout."""
    counts, length = ((2,), 40) if options.quick else ((64, 256), 1_000)
    compared([("dqn", count) for count in counts], length, options.repeats)


def timed(command: list[str], **variables: str) -> tuple[float, float]:
    """Wall and CPU seconds of a process, with these environment variables and no other cache folder."""
    own = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"} | variables
    begun, before = time.perf_counter(), os.times()
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr}")
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - begun, cpu


def twice(name: str, steps: int) -> list[tuple[float, float]]:
    """Wall and CPU seconds of a first start with an empty cache folder and of a second one: "plain", or ENV METRIC."""
    with tempfile.TemporaryDirectory(prefix="mico-start-") as folder:
        if name == "plain":
            script = str(Path(__file__).with_name("plain_dqn.py"))
            command = [sys.executable, script, "--seed", "0", "--steps", str(steps)]
            cache = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            return [timed(command, **cache) for _ in range(2)]
        env, metric = name.split()
        flags = f"--env {env} --agent dqn --metric {metric} --steps {steps}".split()
        command, cache = (
            [sys.executable, "-m", "mico.cli", "train", *flags, "--out"],
            {"MICO_COMPILATION_CACHE": folder},
        )
        return [timed([*command, str(Path(folder) / out)], **cache) for out in ("first", "second")]


def start(options: argparse.Namespace) -> None:
    """Seconds of a whole process that trains 3,000 steps of DQN: with an empty compilation cache, and again with it."""
    cases = ["mdp/four-rooms mico", "minatar/breakout none", "minatar/breakout mico", "plain"]
    cases = cases[2:] if options.quick else cases
    if importlib.util.find_spec("minatar") is None:
        print("the plain DQN is left out: pip install minatar")
        cases.remove("plain")
    steps = 1_100 if options.quick else 3_000
    turns = [{case: twice(case, steps) for case in cases} for _ in range(min(options.repeats, 3))]
    named = f"{'first, s':>18} {'CPU s':>6} {'second, s':>18} {'CPU s':>6} {'second ÷ first':>15} {'÷ plain, both':>14}"
    print(f"{'':<24} {named}")
    for case in cases:
        walls = [[turn[case][again][0] for turn in turns] for again in range(2)]
        cpus = [median(turn[case][again][1] for turn in turns) for again in range(2)]
        columns = " ".join(f"{spread(wall, 2):>18} {cpu:>6.1f}" for wall, cpu in zip(walls, cpus))
        share = median(second / first for first, second in zip(*walls))
        ratios = (
            [median(turn[case][again][0] / turn["plain"][again][0] for turn in turns) for again in range(2)]
            if ("plain" in cases and case.startswith("minatar"))
            else []
        )
        shown = "plain JAX, breakout" if case == "plain" else case
        print(f"{shown:<24} {columns} {share:>15.2f} {' '.join(f'{ratio:.2f}' for ratio in ratios):>14}", flush=True)
        for which, wall in zip(("first", "second"), walls, strict=True):
            record(f"{shown}, {which} start", median(wall))


def noise(runs: Run, capacity: int) -> Any:
    """Replays full of random frames, with an end every so many steps."""

    def written(run: Run, memory: Any, begin: Any) -> Any:
        of_frames, of_rewards = jax.random.split(jax.random.fold_in(jax.random.key(run.seed), begin))
        frames = jax.random.bits(of_frames, (WRITTEN + 1, *ATARI.shape), jnp.uint8)
        action, reward = jnp.arange(WRITTEN) % ATARI.num_actions, jax.random.normal(of_rewards, (WRITTEN,))
        last, never = jnp.arange(WRITTEN) == WRITTEN - 1, jnp.zeros(WRITTEN, bool)
        steps = Timestep(reward, frames[1:], last, never, observation_frame=frames[:-1], action=action)
        return run.replay.add(memory, steps, begin, run.window)

    memory = jax.jit(jax.vmap(lambda run: run.replay.init(ATARI)))(runs)
    write = jax.jit(jax.vmap(written, in_axes=(0, 0, None)), donate_argnums=1)
    for begin in range(0, capacity, WRITTEN):
        memory = write(runs, memory, jnp.int32(begin))
    return memory


class Updating:
    """Updates alone, of a fleet with a full replay: a program for each metric loss, and one state for both."""

    def __init__(self, count: int, precision: str, capacity: int, length: int):
        preset, unplayed = PRESETS["atari"]["dqn"], environment("minatar/breakout")
        network, memory = replace(preset.network, precision=precision), replace(preset.replay, capacity=capacity)
        losses = {"none": None, "mico": MICo(alpha=preset.alpha)}
        parts = {
            name: (preset.agent, loss, unplayed, network, memory, preset.schedule) for name, loss in losses.items()
        }
        self.runs = {name: fleet.stack([Run(*each, seed) for seed in range(count)]) for name, each in parts.items()}
        self.replay = count * memory.size(ATARI)
        self.times = jnp.arange(capacity - length, capacity, dtype=jnp.int32)
        frame = jnp.zeros(ATARI.shape, ATARI.dtype)
        begin = jax.jit(jax.vmap(lambda run: init_state(run, ATARI, (), frame)._replace(memory=None)))
        self.state = begin(self.runs["none"])._replace(memory=noise(self.runs["none"], capacity))
        updates = jax.jit(updated, donate_argnums=1, compiler_options=fleet.COMPILER_OPTIONS)
        self.programs = {name: updates.lower(r, self.state, self.times).compile() for name, r in self.runs.items()}

    def turn(self, name: str) -> float:
        """Microseconds of an update, for each run."""
        start = time.perf_counter()
        self.state, losses = self.programs[name](self.runs[name], self.state, self.times)
        jax.block_until_ready(losses)
        seconds = time.perf_counter() - start
        if not losses.applied.all():
            raise SystemExit("an update was not finite")
        return 1e6 * seconds / losses.applied.size

    def memory(self) -> list[float | None]:
        """Bytes over those of the replay: what the larger program needs, what the device holds, and held at most."""
        sizes = [program.memory_analysis() for program in self.programs.values()]
        kept = max(
            size.argument_size_in_bytes + size.temp_size_in_bytes + size.output_size_in_bytes - size.alias_size_in_bytes
            for size in sizes
            if size
        )
        stats = jax.devices()[0].memory_stats() or {}
        held = kept, stats.get("bytes_in_use"), stats.get("peak_bytes_in_use")
        return [None if number is None else number / self.replay for number in held]


def updated(runs: Run, state: TrainState, times: Any) -> tuple[TrainState, UpdateMetrics]:
    """One update after another; the state's buffers are reused."""
    each = jax.vmap(updates.update, in_axes=(0, 0, None))
    return jax.lax.scan(lambda state, now: each(runs, state, now), state, times)


def atari_update(options: argparse.Namespace) -> None:
    """One update of DQN on Atari's network, sampling from the replay included; memory in units of the replay."""
    counts, kinds, length = ((1,), ("float32",), 2) if options.quick else ((1, 8, 16), ("float32", "bfloat16"), 50)
    print(f"{'runs':<14} {'µs a run without':>28} {'with MICo':>28} {'more':>8}", end=" ")
    print(f"{'replay GiB':>10} {'program':>8} {'held':>8} {'at most':>8}")
    for count in counts:
        for precision in kinds:
            updating = Updating(count, precision, options.capacity, length)
            turns = {name: partial(updating.turn, name) for name in METRICS}
            taking_turns(turns, 1)
            found = taking_turns(turns, options.repeats)
            times = " ".join(f"{spread(found[name]):>28}" for name in METRICS)
            memory = " ".join("       –" if share is None else f"{share:>8.3f}" for share in updating.memory())
            print(f"{count:>3} {precision:<10} {times} {excess(found['mico'], found['none']):>8}", end=" ")
            print(f"{updating.replay / 2**30:>10.2f} {memory}", flush=True)
            for name in METRICS:
                record(f"update, {count} {precision}, metric {name}", median(found[name]), "µs")
            del updating, turns  # before the next replay comes


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "start": start,
    "plain": plain,
    "sb3": sb3,
    "cost": cost,
    "split": split,
    "fleet": large_fleets,
    "atari-update": atari_update,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = "; ".join(f"{name}: {(part.__doc__ or '').rstrip('.')}" for name, part in PARTS.items())
    parser.add_argument("--only", choices=PARTS, action="append", help=f"may be given several times. {parts}")
    parser.add_argument("--quick", action="store_true", help="sizes that show no more than that all runs")
    parser.add_argument("--repeats", type=int, default=7, help="turns that each contender takes, of start 3 at most")
    parser.add_argument("--capacity", type=int, default=100_000, help="frames in each replay of atari-update")
    parser.add_argument("--peer-python", metavar="PATH", help="interpreter that has stable-baselines3 and minatar")
    options = parse(parser)
    if options.quick:
        options.repeats, options.capacity = 2, 4 * WRITTEN
    print("device:", jax.devices()[0].device_kind, flush=True)
    usual = (
        ("start", "plain", "sb3", "cost", "split")
        if jax.default_backend() == "cpu"
        else ("cost", "fleet", "atari-update")
    )
    for name in options.only or usual:
        print(f"\n{name}: {PARTS[name].__doc__}", flush=True)
        PARTS[name](options)


if __name__ == "__main__":
    main()
