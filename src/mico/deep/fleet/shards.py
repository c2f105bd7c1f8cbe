"""A fleet in shards, each a program with a state of its own, side by side in threads.

The environments outside JAX of one shard step while the device learns for the other, and neither waits for the slowest
environment of the other. Inside JAX, on a CPU, every run is a shard: a core that has a program to itself computes more
than several cores that share one.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mico.deep.config.run import Run
from mico.deep.fleet import jax_engine as fleet
from mico.deep.fleet.compilation_cache import threads
from mico.deep.fleet.engine import Ahead, ChunkMetrics
from mico.deep.fleet.host_engine import HostEngine
from mico.deep.fleet.jax_engine import JaxEngine
from mico.deep.learner.state import TrainState
from mico.deep.replay.stub import ReplayStub, empty_replay_from, strip_replay
from mico.deep.types import Params

States = tuple[TrainState, ...]


def default_shard_sizes(runs: Sequence[Run]) -> list[int]:
    """Choose how many runs each shard has on this machine."""
    env, count = runs[0].env, len(runs)
    if env.in_jax:
        return split_evenly(count, count if jax.default_backend() == "cpu" else 1)
    return split_evenly(count, 1 if env.min_runs_to_split is None or count < env.min_runs_to_split else 2)


def split_evenly(count: int, shards: int) -> list[int]:
    """Split runs into shards, the first of which have one more where it does not come out even."""
    return [count // shards + (shard < count % shards) for shard in range(shards)]


class ShardedFleet:
    """Runs in shards of given sizes; a state of all is a state of each."""

    def __init__(self, runs: Sequence[Run], sizes: Sequence[int]):
        if sum(sizes) != len(runs) or min(sizes) < 1:
            raise ValueError(f"sizes must add up to {len(runs)} runs, but are {[*sizes]}")
        each = [runs[end - size : end] for size, end in zip(sizes, accumulate(sizes))]
        in_jax = runs[0].env.in_jax
        self._fleets = [fleet.stack(shard) for shard in each]
        self._engines = [(JaxEngine if in_jax else HostEngine)(shard, own) for shard, own in zip(each, self._fleets)]
        self._at_once = threads() if in_jax else len(sizes)
        self._spec = runs[0].env.spec
        self._compiling: dict[Ahead, list[Future[Any]]] = {}

    def shapes(self) -> States:
        """The shapes of a state of all."""
        return tuple(engine.shape() for engine in self._engines)

    def begin(self) -> States:
        """Make the state before the first step."""
        return tuple(engine.begin() for engine in self._engines)

    def compile_ahead(self, kind: Ahead, shapes: States, length: int) -> None:
        """Compile a chunk of so many steps that only acts, or the diagnostics, in threads while this one does more.

        Programs are traced in this thread, by the configuration that JAX has in it. Those of shards of one size are
        the same.
        """
        by_size = {shape.bad_step.shape: (engine, shape) for engine, shape in zip(self._engines, shapes)}
        lowered = [engine.lower_ahead(kind, shape, length) for engine, shape in by_size.values()]
        found = [program for program in lowered if program is not None]
        if found:
            pool = ThreadPoolExecutor(len(found), thread_name_prefix="compile")
            self._compiling[kind] = [pool.submit(program.compile) for program in found]
            pool.shutdown(wait=False)

    def _wait_for_compiled(self, kind: Ahead) -> None:
        """Wait for programs that are compiled in threads: JAX would compile them once more."""
        for future in self._compiling.pop(kind, ()):
            future.result()

    def play(self, states: States, time: int, length: int, learns: bool) -> tuple[States, ChunkMetrics]:
        """Play a chunk of steps of every run, with an update every period if the chunk `learns`."""
        self._wait_for_compiled("act")
        jobs = [engine.compile_chunk(state, time, length, learns) for engine, state in zip(self._engines, states)]
        ends = run_threads(jobs, self._at_once)
        return tuple(state for state, _ in ends), _concat([metrics for _, metrics in ends], axis=1)

    def copy_targets(self, states: States) -> States:
        """Copy the online networks to the target networks."""
        return tuple(map(fleet.copy_targets, states))

    def diagnose(self, states: States, time: Int[Array, ""]) -> dict[str, Any]:
        """Measure the representations of every run, an array of N by name."""
        self._wait_for_compiled("diagnose")
        return _concat([fleet.diagnose(own, state, time) for own, state in zip(self._fleets, states)])

    def bad_steps(self, states: States) -> Int[Array, " N"]:
        """The first step that was not finite of each run, in memory of its own: states are donated."""
        return jnp.concatenate([jnp.copy(state.bad_step) for state in states])

    def params(self, states: States) -> Params:
        """The parameters of all runs, on the host."""
        return _concat([jax.device_get(state.params) for state in states])

    def without_replay(self, states: States) -> States:
        """Leave out the frames and steps of every replay."""
        return tuple(state._replace(memory=strip_replay(state.memory)) for state in states)

    def refill(self, states: States, time: int) -> States:
        """Put an empty replay, whose first step comes after `time`, where a checkpoint had none."""
        now, spec = jnp.int32(time), self._spec
        return tuple(
            state._replace(memory=empty_replay_from(own.replay, state.memory, now, spec=spec))
            if isinstance(state.memory, ReplayStub)
            else state
            for own, state in zip(self._fleets, states)
        )

    def snapshot(self) -> list[dict[str, Any]]:
        """What a checkpoint needs beside the states, of each shard."""
        return [engine.snapshot() for engine in self._engines]

    def restore(self, snapshots: Sequence[dict[str, Any]]) -> None:
        """Return to what `snapshot` gave."""
        jobs = [partial(engine.restore, snapshot) for engine, snapshot in zip(self._engines, snapshots, strict=True)]
        run_threads(jobs, self._at_once)

    def close(self) -> None:
        """Free what environments hold."""
        for engine in self._engines:
            engine.close()


def run_threads(jobs: Sequence[Callable[[Callable[[], bool]], Any]], at_once: int) -> list[Any]:
    """Run jobs, so many at once in threads; if one fails, or the wait for them is interrupted, the others stop."""
    if len(jobs) == 1:
        return [jobs[0](lambda: False)]
    stop = threading.Event()
    with ThreadPoolExecutor(min(at_once, len(jobs))) as threads:
        futures = [threads.submit(_run_blocking, job, stop.is_set) for job in jobs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    failed = [future for future in done if future.exception() is not None]
    return [future.result() for future in failed or futures]


def _run_blocking(job: Callable[[Callable[[], bool]], Any], stopped: Callable[[], bool]) -> Any:
    """Run a job until its arrays are ready; without that, XLA's CPU client may run programs one after another."""
    return jax.block_until_ready(job(stopped))


def _concat(trees: Sequence[Any], axis: int = 0) -> Any:
    """Concatenate the trees of shards along the axis of runs."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=axis), *trees)
