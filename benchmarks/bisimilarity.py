"""Bisimulation classes of Markov chains: Numba's compiled refinement against Storm's, each in a process of its own.

python benchmarks/bisimilarity.py                         our times and memory
python benchmarks/bisimilarity.py --stormpy PYTHON        beside Storm, in turns; PYTHON has stormpy (and NumPy, SciPy)
python benchmarks/bisimilarity.py --only corridor-3000    some of the models; --quick takes small ones

Storm is licensed under the GPL and is used here only. Of its two ways to refine, by splitters (its default) and by
signatures, the quicker one counts in every turn. It makes the quotient as well, so that both of our times are
printed: of the partition alone, and with the quotient. Reading the model is not timed, nor is our first call on a
small chain, which imports Numba and loads what it has compiled. Peak memory is that of the process, imports and
model included.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from against import parse, record

Chains = tuple[sp.csr_array, np.ndarray]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}
TOLERANCE = 1e-9


def grid(width: int) -> Chains:
    """An open room under the uniform policy, with a reward in one corner; its classes mirror along the diagonal."""
    cell = np.arange(width * width).reshape(width, width)
    padded = np.pad(cell, 1, mode="edge")
    moves = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
    target = np.concatenate([move.ravel() for move in moves])
    kernel = sp.csr_array((np.full(target.size, 0.25), (np.tile(cell.ravel(), 4), target)))
    kernel.sum_duplicates()
    return kernel, (cell.ravel() == 0).astype(float)


def garnet(states: int, copies: int, rewards: int = 10, branches: int = 4) -> Chains:
    """Copies of the states of a random chain, in any order, which split the probability between two copies."""
    rng = np.random.default_rng(states)
    weight = rng.dirichlet(np.ones(branches), size=states)
    target, level = rng.integers(states, size=(states, branches)), rng.integers(rewards, size=states)
    size = states * copies
    place = rng.permutation(size)  # of copy c of state s: place[s * copies + c]
    source = np.repeat(np.arange(size), branches * 2)
    base = np.repeat(np.arange(states), copies)
    first = target[base][:, :, None] * copies + rng.integers(copies, size=(size, branches, 2))
    share = rng.uniform(0.2, 0.8, size=(size, branches))
    split = weight[base][:, :, None] * np.stack([share, 1 - share], axis=2)
    kernel = sp.csr_array((split.ravel(), (place[source], place[first.ravel()])), shape=(size, size))
    kernel.sum_duplicates()
    reward = np.empty(size)
    reward[place] = level[base]
    return kernel, reward


def corridor(length: int) -> Chains:
    """Step ahead until the end, which has a reward: as many rounds as states."""
    state = np.arange(length)
    kernel = sp.csr_array((np.ones(length), (state, np.minimum(state + 1, length - 1))))
    return kernel, (state == length - 1).astype(float)


def ring(length: int, period: int) -> Chains:
    """Left or right on a ring with a reward in every `period`-th state."""
    state = np.arange(length)
    target = np.concatenate([(state + 1) % length, (state - 1) % length])
    kernel = sp.csr_array((np.full(2 * length, 0.5), (np.tile(state, 2), target)))
    return kernel, (state % period == 0).astype(float)


MODELS: dict[str, Callable[[], Chains]] = {
    "grid-100": lambda: grid(100),
    "grid-300": lambda: grid(300),
    "grid-1000": lambda: grid(1000),
    "garnet-5000-twice": lambda: garnet(5_000, 2),
    "garnet-10000-ten-times": lambda: garnet(10_000, 10),
    "garnet-500000-twice": lambda: garnet(500_000, 2),
    "corridor-3000": lambda: corridor(3_000),
    "ring-100000": lambda: ring(100_000, 1_000),
}
QUICK: dict[str, Callable[[], Chains]] = {
    "grid-20": lambda: grid(20),
    "grid-60": lambda: grid(60),
    "garnet-300": lambda: garnet(300, 1),
    "garnet-300-twice": lambda: garnet(300, 2),
    "garnet-300-ten-times": lambda: garnet(300, 10),
    "garnet-500-two-rewards": lambda: garnet(500, 3, rewards=2, branches=1),
    "corridor-300": lambda: corridor(300),
    "ring-1000": lambda: ring(1_000, 10),
}


def ours(kernel: sp.csr_array, reward: np.ndarray, clock: Clock) -> Callable[[], dict[str, float]]:
    from mico.tabular import Chain
    from mico.tabular.abstraction import bisimilarity as module
    from mico.tabular.abstraction.partition import quotient

    module._COMPILED_FROM = 0  # small models of --quick too
    start = clock()
    module.policy_bisimulation_relation(Chain(np.eye(2), np.arange(2.0), 0.9), tolerance=TOLERANCE)
    first = clock() - start
    chain = Chain(kernel, reward, 0.9)

    def work() -> dict[str, float]:
        start = clock()
        found = module.policy_bisimulation_relation(chain, tolerance=TOLERANCE)
        partition = clock() - start
        quotient(chain, found)
        both = clock() - start
        return {"classes": found.num_classes, "seconds": partition, "quotient": both, "first": first}

    return work


def storms(kernel: sp.csr_array, reward: np.ndarray, clock: Clock) -> Callable[[], dict[str, float]]:
    from stormpy import datastructures, models, transformations  # pyright: ignore[reportMissingImports]

    size = len(reward)
    kernel.sort_indices()
    builder = datastructures.SparseMatrixBuilder(size, size, kernel.nnz, force_dimensions=True)
    for state in range(size):
        for entry in range(kernel.indptr[state], kernel.indptr[state + 1]):
            builder.add_next_value(state, int(kernel.indices[entry]), float(kernel.data[entry]))
    labels = models.StateLabeling(size)
    states = {f"reward{level:g}": np.flatnonzero(reward == level) for level in np.unique(reward)}
    for name, members in (states | {"init": np.arange(size)}).items():
        labels.add_label(name)
        labels.set_states(name, datastructures.BitVector(size, members.tolist()))
    model = models.SparseDtmc(models.SparseModelComponents(builder.build(), labels))

    def work() -> dict[str, float]:
        found = {}
        for way, by_signatures in (("splitters", False), ("signatures", True)):
            options = transformations.BisimulationOptions()
            options.prefer_signature_refinement = by_signatures
            start = clock()
            small = transformations.perform_bisimulation(model, [], options=options)
            found[way] = clock() - start
        return found | {"classes": small.nr_states, "seconds": min(found.values())}

    return work


def peak_memory() -> float:
    """In GiB, of this process alone: what `getrusage` says of a child on Linux begins with its parent's peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


def serve(side: str, file: str, clock: str) -> None:
    """Read a model, then time one refinement for every line that comes in."""
    with np.load(file) as stored:
        size = len(stored["reward"])
        kernel = sp.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=(size, size))
        reward = stored["reward"]
    work = {"ours": ours, "storm": storms}[side](kernel, reward, CLOCKS[clock])
    print("ready", flush=True)
    for _ in sys.stdin:
        found = work()
        print(json.dumps(found | {"gib": peak_memory()}), flush=True)


def started(python: str, side: str, file: Path, clock: str) -> subprocess.Popen[str]:
    command = [python, __file__, "--serve", side, str(file), clock]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
    answer(process)
    return process


def answer(process: subprocess.Popen[str]) -> str:
    for line in process.stdout or ():
        if line.startswith(("ready", "{")):  # Storm prints notes of its own
            return line
    raise SystemExit(f"a process ended with exit status {process.wait()}")


def asked(process: subprocess.Popen[str]) -> dict[str, Any]:
    print("go", file=process.stdin, flush=True)
    return json.loads(answer(process))


def compare(name: str, model: Chains, stormpy: str | None, repeats: int, clock: str) -> None:
    kernel, reward = model
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.npz"
        np.savez(file, data=kernel.data, indices=kernel.indices, indptr=kernel.indptr, reward=reward)
        processes = [started(sys.executable, "ours", file, clock)]
        processes += [started(stormpy, "storm", file, clock)] if stormpy else []
        turns = [[asked(process) for process in processes] for _ in range(repeats)]
        for process in processes:
            process.communicate()
    mine = [turn[0] for turn in turns]
    seconds, both = (statistics.median(turn[key] for turn in mine) for key in ("seconds", "quotient"))
    row = f"{name:<24} {len(reward):>9,} {mine[0]['classes']:>9,} {seconds:>9.4f} {both:>9.4f} {mine[-1]['gib']:>6.2f}"
    for what, value in ((name, seconds), (f"{name}, with the quotient", both)):
        record(what, value)
    record(f"{name}, memory", mine[-1]["gib"], "GiB")
    if stormpy:
        theirs = [turn[1] for turn in turns]
        slow = statistics.median(turn["seconds"] for turn in theirs)
        ratios = [other["seconds"] / turn["seconds"] for turn, other in zip(mine, theirs)]
        row += f" {theirs[0]['classes']:>9,} {slow:>9.4f} {theirs[-1]['gib']:>6.2f} {statistics.median(ratios):>7.2f}"
        row += f" ({min(ratios):.2f}–{max(ratios):.2f}) {slow / both:>7.2f}"
    print(f"{row}  first call {mine[0]['first']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stormpy", metavar="PYTHON", help="interpreter of an environment with stormpy")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help=f"some of {', '.join([*MODELS, *QUICK])}")
    parser.add_argument("--quick", action="store_true", help="small models, one turn")
    parser.add_argument("--repeats", type=int, default=5, metavar="INT", help="turns (default: 5)")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: for a machine with other work")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parse(parser)
    if options.serve:
        serve(*options.serve)
        return
    names = options.only or list(QUICK if options.quick else MODELS)
    unknown = [name for name in names if name not in MODELS | QUICK]
    if unknown:
        parser.error(f"--only must name models, got {', '.join(unknown)}: they are {', '.join(MODELS | QUICK)}")
    head = f"{'model':<24} {'states':>9} {'classes':>9} {'s':>9} {'quotient':>9} {'GiB':>6}"
    print(head + (" storm's c    storm s    GiB   ratio (range), with quotient" if options.stormpy else ""))
    for name in names:
        compare(name, (MODELS | QUICK)[name](), options.stormpy, 1 if options.quick else options.repeats, options.clock)


if __name__ == "__main__":
    main()
