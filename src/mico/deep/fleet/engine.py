"""What engines have in common, whether environments are inside or outside JAX."""

import abc
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, final

import jax

from mico.deep.config.run import Run
from mico.deep.learner.state import EpisodeEnd, TrainState, UpdateMetrics

Ahead = Literal["act", "diagnose"]  # programs that may be compiled before they are needed

# A GPU may do at once what does not wait for each other, a fifth less time for 64 runs; other devices ignore it.
COMPILER_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}


class ChunkMetrics(NamedTuple):
    """What happened in a chunk, step by step [T, N] and, if it learns, update by update [U, N]."""

    ended: EpisodeEnd
    losses: UpdateMetrics | None


ChunkFn = Callable[[Callable[[], bool]], tuple[TrainState, ChunkMetrics]]  # it is given what says whether to stop


class AbstractEngine(abc.ABC):
    """Some runs as one program: their environments, and what plays and trains them in chunks of steps.

    Chunks begin and end at multiples of the update period.
    """

    fleet: Run

    @abc.abstractmethod
    def begin(self) -> TrainState:
        """Make the state before the first step."""

    @abc.abstractmethod
    def compile_chunk(self, state: TrainState, time: int, length: int, learns: bool) -> ChunkFn:
        """Compile a chunk of steps of every run, with an update every period if it `learns`; it donates the state.

        The chunk may be played in another thread: the configuration that JAX has in this one is used.
        """

    @final
    def play(self, state: TrainState, time: int, length: int, learns: bool) -> tuple[TrainState, ChunkMetrics]:
        """Compile a chunk and play it in this thread."""
        return self.compile_chunk(state, time, length, learns)(lambda: False)

    def shape(self) -> TrainState:
        """The shapes of a state, which take no memory."""
        return jax.eval_shape(self.begin)

    def lower_ahead(self, kind: Ahead, shape: TrainState, length: int) -> Any | None:
        """Lower a chunk of so many steps that only acts, or the diagnostics; None if that has to wait for a state."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint needs beside the state, ready for JSON."""
        return {}

    def restore(self, snapshot: dict[str, Any], stopped: Callable[[], bool]) -> None:
        """Return to a snapshot, which may take long, unless stopped."""
        return

    def close(self) -> None:
        """Free what environments hold."""
        return
