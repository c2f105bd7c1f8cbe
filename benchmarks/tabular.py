"""Speed and memory of the exact metrics against other ways to them: each figure a ratio measured in one run.

python benchmarks/tabular.py                      all on this machine
python benchmarks/tabular.py --only factored      one part
python benchmarks/tabular.py --only gpu           dense and factored on JAX's default device, against the CPU
python benchmarks/tabular.py --against REV        old against new: our times with another commit's code, in turns
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from against import comparing, parse, record
from mico.tabular import Chain, factored_mico, garnet, make, solve
from mico.tabular.metrics.mico import doubling


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[Any, float]:
    """The result, and the quickest of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return result, best


def beside(
    what: str, ours: Callable[[], Any], other: Callable[[], Any], note: Callable[[Any, Any], str], repeats: int = 1
) -> None:
    """Time our way, so often at best, and the other; where revisions are compared our way alone."""
    result, quick = timed(ours, repeats)
    record(what, quick)
    if not comparing():
        theirs, slow = timed(other)
        times = f"{quick:>9.3g} s {slow:>9.3g} s {slow / quick:>8.3g}×"
        print(f"{what:<58} {times}  {note(result, theirs)}", flush=True)


def alone(what: str, seconds: float, note: str) -> None:
    print(f"{what:<58} {seconds:>9.3g} s   {note}", flush=True)
    record(what, seconds)


def memory() -> float:
    """The most that this process has held, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def lazy_cycle(size: int, discount: float) -> Chain:
    """A chain that hardly mixes: stay or step on, so that no acceleration helps."""
    step = 0.5 * (np.eye(size) + np.roll(np.eye(size), 1, axis=1))
    return Chain(step, np.random.default_rng(0).random(size), discount)


def dense() -> None:
    """Doubling against SciPy's Lyapunov solver and the lifted linear system."""
    chains = {"Garnet": garnet(1000, 4, seed=0, discount=0.99).mdp.chain(), "lazy cycle": lazy_cycle(1000, 0.99)}
    for name, chain in chains.items():
        scaled, gap = np.sqrt(chain.discount) * chain.dense_transition(), chain.reward_gap()
        beside(
            f"doubling / SciPy Lyapunov, {name} n=1000 γ=.99",
            lambda c=chain: solve("mico", c, tolerance=1e-8),
            lambda a=scaled, q=gap: scipy.linalg.solve_discrete_lyapunov(a, q),
            lambda ours, other: f"differ by {np.abs(ours.matrix - other).max():.1e}, certified {ours.error:.1e}",
            repeats=3,
        )
    chain = garnet(60, 4, seed=0, discount=0.9).mdp.chain()
    matrix = np.kron(chain.dense_transition(), chain.dense_transition())
    beside(
        "doubling / inverse of the lifted system, Garnet n=60",
        lambda: solve("mico", chain, tolerance=1e-8),
        lambda: np.linalg.inv(np.eye(3600) - 0.9 * matrix) @ chain.reward_gap().ravel(),
        lambda ours, other: f"differ by {np.abs(ours.matrix.ravel() - other).max():.1e}",
        repeats=20,
    )


def value_iteration(chain: Chain, tolerance: float) -> tuple[np.ndarray, int]:
    """π-bisimulation by sweeps of `ot.emd2` on whole rows, until the last change proves the tolerance."""
    import ot

    rows, gap, discount = chain.dense_transition(), chain.reward_gap(), chain.discount
    d, sweeps = np.zeros_like(gap), 0
    while True:
        new = np.zeros_like(d)
        for x in range(len(rows)):
            for y in range(x):
                new[x, y] = new[y, x] = gap[x, y] + discount * ot.emd2(rows[x], rows[y], d)
        change, d, sweeps = np.abs(new - d).max(), new, sweeps + 1
        if discount / (1 - discount) * change <= tolerance:
            return d, sweeps


def transport() -> None:
    """π-bisimulation by policy iteration on couplings against value iteration."""
    solve("pi-bisimulation", garnet(30, 2, seed=0).mdp)  # what is compiled is compiled, and POT imported
    for seed in (0, 1):
        chain = garnet(50, 2, seed=seed, discount=0.9).mdp.chain()
        beside(
            f"π-bisimulation / value iteration, Garnet(50, 2) seed {seed}",
            lambda c=chain: solve("pi-bisimulation", c, tolerance=1e-6),
            lambda c=chain: value_iteration(c, 1e-6),
            lambda ours, other: (
                f"{ours.iterations} against {other[1]} sweeps, differ by {np.abs(ours.matrix - other[0]).max():.1e}"
            ),
            repeats=3,
        )
    for what, metric, model in (
        ("Garnet(100, 2)", "pi-bisimulation", garnet(100, 2, seed=0, discount=0.9).mdp),
        ("20×20 grid, γ=.9", "pi-bisimulation", make("open-grid", height=20, width=20, discount=0.9).mdp),
        ("20×20 grid, γ=.99", "pi-bisimulation", make("open-grid", height=20, width=20, discount=0.99).mdp),
        ("Garnet(30, 2)", "lax-bisimulation", garnet(30, 2, seed=0, discount=0.9).mdp),
    ):
        ours, quick = timed(lambda name=metric, m=model: solve(name, m, tolerance=1e-6))
        alone(f"{metric}, {what}", quick, f"{ours.iterations} sweeps, certified {ours.error:.1e}")


def large() -> None:
    """Bisimulation metrics of 2,000 cells, each in a process of its own."""
    for name in ("pi-bisimulation", "bisimulation"):
        subprocess.run([sys.executable, __file__, "--large-once", name], check=True)


def large_once(name: str) -> None:
    """An open room of 40 × 50 cells, not square, so that no two cells are bisimilar under the uniform policy."""
    solve(name, garnet(30, 2, seed=0).mdp)
    mdp = make("open-grid", height=40, width=50, discount=0.9).mdp
    ours, seconds = timed(lambda: solve(name, mdp, tolerance=1e-6))
    note = f"{memory():.2f} GiB, {ours.iterations} sweeps, certified {ours.error:.1e}"
    alone(f"{name}, 40×50 grid, γ=.9", seconds, note)
    record(f"{name}, 40×50 grid, memory", memory(), "GiB")


def grid_chain(side: int, rewards: int) -> Chain:
    """A random walk on a grid with 1 in the middle and, for three distinct rewards, -1 in a corner."""
    walk = make("open-grid", height=side, width=side, discount=0.99, dynamics="continuing").mdp.chain()
    reward = np.zeros(side * side)
    reward[side * side // 2 + side // 2] = 1.0
    reward[0] = -1.0 if rewards == 3 else 0.0
    return Chain(walk.transition, reward, 0.99)


def factored_once(side: int, rewards: int, backend: Any) -> None:
    """One factored solution, in a process of its own so that its memory is its own."""
    chain = grid_chain(side, rewards)
    solution, seconds = timed(
        lambda: factored_mico(chain, tolerance=1e-6, backend=backend), repeats=1 + (backend == "jax")
    )
    note = f"{memory():.2f} GiB, rank {solution.rank}, {solution.products} products, certified {solution.error:.1e}"
    alone(f"factored, {side}×{side} grid, {rewards} rewards, {backend}", seconds, note)


def factored() -> None:
    """The factored form from 10⁴ to 10⁶ states."""
    for rewards in (2, 3):
        for side in (100, 316, 1000):
            subprocess.run([sys.executable, __file__, "--factored-once", str(side), str(rewards), "numpy"], check=True)


def dense_on_device(size: int) -> None:
    """Doubling on JAX's default device, in float64, against NumPy on the same machine."""
    import jax
    import jax.numpy as jnp

    print("device:", jax.devices()[0].device_kind, flush=True)
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    transition, reward = rng.random((size, size)), rng.random(size)
    transition /= transition.sum(axis=1, keepdims=True)
    gap = np.abs(reward[:, None] - reward)
    on_device = jnp.asarray(transition), jnp.asarray(gap)
    beside(
        f"dense MICo, n={size} float64, device / CPU",
        lambda: jax.block_until_ready(doubling(*on_device, 0.99, tolerance=1e-6)),
        lambda: doubling(transition, gap, 0.99, tolerance=1e-6),
        lambda ours, host: (
            f"{ours.iterations} doublings, differ by {np.abs(np.asarray(ours.matrix) - host.matrix).max():.1e}, "
            f"certified {ours.error:.1e}"
        ),
        repeats=2,
    )


def gpu() -> None:
    dense_on_device(10_000)
    for backend in ("jax", "numpy"):
        factored_once(1000, 3, backend)


PARTS: dict[str, Callable[[], None]] = {
    "dense": dense,
    "transport": transport,
    "large": large,
    "factored": factored,
    "gpu": gpu,
    "gpu-large": lambda: dense_on_device(20_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--factored-once", nargs=3, metavar=("SIDE", "REWARDS", "BACKEND"), help=argparse.SUPPRESS)
    parser.add_argument("--large-once", metavar="METRIC", help=argparse.SUPPRESS)
    options = parse(parser)
    if options.factored_once:
        side, rewards, backend = options.factored_once
        return factored_once(int(side), int(rewards), backend)
    if options.large_once:
        return large_once(options.large_once)
    print(f"{'':<58} {'ours':>11} {'other':>11} {'ratio':>9}")
    for name in options.only or ("dense", "transport", "large", "factored"):
        PARTS[name]()
    return None


if __name__ == "__main__":
    main()
