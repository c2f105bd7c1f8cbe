"""A fleet in parts, each a program with a state of its own, side by side.

Where environments outside JAX step in threads or processes of theirs, those of one part play while the device learns
for the other, and neither waits for the slowest environment of the other. Where all is inside JAX, on a CPU every run
is a part: a core that has a program to itself computes more than several cores that share one.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import accumulate
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from mico.deep.config.run import Run
from mico.deep.envs import AbstractHostEnv
from mico.deep.fleet import jax_engine as fleet
from mico.deep.fleet.compilation_cache import threads
from mico.deep.fleet.host_engine import Hosted
from mico.deep.fleet.jax_engine import Happened, Simulated
from mico.deep.learner.state import TrainState
from mico.deep.replay.stub import ReplayStub, empty_replay_from, strip_replay
from mico.deep.types import Params

States = tuple[TrainState, ...]
Ahead = Literal["act", "look"]  # what may be compiled before it is needed


def usual_sizes(runs: Sequence[Run]) -> list[int]:
    """How many runs each part has on this machine."""
    env, count = runs[0].env, len(runs)
    if not isinstance(env, AbstractHostEnv):
        return even_sizes(count, count if jax.default_backend() == "cpu" else 1)
    return even_sizes(count, 1 if env.splits_from is None or count < env.splits_from else 2)


def even_sizes(count: int, parts: int) -> list[int]:
    """So many runs in so many parts, the first of which have one more where it does not come out even."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class Parts:
    """Runs in parts of given sizes; a state of all is a state of each."""

    def __init__(self, runs: Sequence[Run], sizes: Sequence[int]):
        if sum(sizes) != len(runs) or min(sizes) < 1:
            raise ValueError(f"sizes must add up to {len(runs)} runs, but are {[*sizes]}")
        each = [runs[end - size : end] for size, end in zip(sizes, accumulate(sizes))]
        self._fleets = [fleet.stack(part) for part in each]
        kind = Hosted if isinstance(runs[0].env, AbstractHostEnv) else Simulated
        self._engines = [kind(part, own) for part, own in zip(each, self._fleets)]
        self._at_once = len(sizes) if kind is Hosted else threads()
        self._spec = runs[0].env.spec
        self._compiling: dict[Ahead, list[Future[Any]]] = {}

    def shapes(self) -> States:
        """The shapes of a state of all."""
        return tuple(engine.shape() for engine in self._engines)

    def begin(self) -> States:
        return tuple(engine.begin() for engine in self._engines)

    def compile_ahead(self, kind: Ahead, shapes: States, length: int) -> None:
        """Compile a chunk of so many steps that only acts, or what makes rows, in threads while this one does more.

        Programs are traced in this thread, by the settings that JAX has in it. Those of parts of one size are the same.
        Outside JAX the programs of steps decide where a state lies, so that nothing can be compiled before them.
        """
        now, lowered = jax.ShapeDtypeStruct((), jnp.int32), []
        by_size = {each[2].bad_step.shape: each for each in zip(self._engines, self._fleets, shapes)}
        for engine, own, state in by_size.values():
            if isinstance(engine, Simulated):
                acts = kind == "act"
                given = engine.lowered(state, now, length, learns=False) if acts else fleet.look.lower(own, state, now)
                lowered.append(given)
        if lowered:
            pool = ThreadPoolExecutor(len(lowered), thread_name_prefix="compile")
            self._compiling[kind] = [pool.submit(program.compile) for program in lowered]
            pool.shutdown(wait=False)

    def _compiled(self, kind: Ahead) -> None:
        """Wait for programs that are compiled in threads: JAX would compile them once more."""
        for future in self._compiling.pop(kind, ()):
            future.result()

    def play(self, states: States, time: int, length: int, learns: bool) -> tuple[States, Happened]:
        """A chunk of steps of every run, with an update every period if the chunk `learns`."""
        self._compiled("act")
        jobs = [engine.prepared(state, time, length, learns) for engine, state in zip(self._engines, states)]
        ends = beside(jobs, self._at_once)
        return tuple(state for state, _ in ends), _joined([happened for _, happened in ends], axis=1)

    def copy_targets(self, states: States) -> States:
        return tuple(map(fleet.copy_targets, states))

    def look(self, states: States, time: Int[Array, ""]) -> dict[str, Any]:
        """What the representations of each run are like, an array of N by name."""
        self._compiled("look")
        return _joined([fleet.look(own, state, time) for own, state in zip(self._fleets, states)])

    def bad_steps(self, states: States) -> Int[Array, " N"]:
        """In memory of its own: the states are given away."""
        return jnp.concatenate([jnp.copy(state.bad_step) for state in states])

    def params(self, states: States) -> Params:
        """Of all runs, on the host."""
        return _joined([jax.device_get(state.params) for state in states])

    def without_replay(self, states: States) -> States:
        return tuple(state._replace(memory=strip_replay(state.memory)) for state in states)

    def refilled(self, states: States, time: int) -> States:
        """Where there was no replay, an empty one, whose first step comes after `time`."""
        now, spec = jnp.int32(time), self._spec
        return tuple(
            state._replace(memory=empty_replay_from(own.replay, state.memory, now, spec=spec))
            if isinstance(state.memory, ReplayStub)
            else state
            for own, state in zip(self._fleets, states)
        )

    def snapshot(self) -> list[dict[str, Any]]:
        return [engine.snapshot() for engine in self._engines]

    def restore(self, snapshots: Sequence[dict[str, Any]]) -> None:
        jobs = [partial(engine.restore, snapshot) for engine, snapshot in zip(self._engines, snapshots, strict=True)]
        beside(jobs, self._at_once)

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


def beside(jobs: Sequence[Callable[[Callable[[], bool]], Any]], at_once: int) -> list[Any]:
    """What jobs return, so many at once in threads; if one fails, or the wait for them does, the others stop."""
    if len(jobs) == 1:
        return [jobs[0](lambda: False)]
    stop = threading.Event()
    with ThreadPoolExecutor(min(at_once, len(jobs))) as threads:
        futures = [threads.submit(_whole, job, stop.is_set) for job in jobs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    failed = [future for future in done if future.exception() is not None]
    return [future.result() for future in failed or futures]


def _whole(job: Callable[[Callable[[], bool]], Any], stopped: Callable[[], bool]) -> Any:
    """What a job returns, once it has been computed: programs that a CPU is given at once may take turns otherwise."""
    return jax.block_until_ready(job(stopped))


def _joined(trees: Sequence[Any], axis: int = 0) -> Any:
    """Trees of some runs each as one of all."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=axis), *trees)
