"""The training loop of a fleet: chunks of steps, and between them logs, checkpoints, progress and Ctrl-C."""

import time as clock
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mico._signals import stop_signals
from mico.deep.config.run import Label, Run, check_reloadable, run_names
from mico.deep.fleet import compilation, compilation_cache
from mico.deep.fleet import jax_engine as fleets
from mico.deep.fleet.engine import ChunkMetrics
from mico.deep.fleet.shards import ShardedFleet, States, default_shard_sizes
from mico.deep.replay.stub import ReplayStub
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.chunking import COMPILATION, Chunks
from mico.deep.training.limits import check_room, warn_of_disk
from mico.deep.training.metrics import added, means, nothing
from mico.deep.training.run_folder import Kept, Outputs, kept_in
from mico.deep.training.weights import save_parameters
from mico.runs.lock import locked_folder
from mico.runs.log import split_row, summary_writer

CheckpointReplay = Literal["whole", "empty"]


class Progress(NamedTuple):
    """How far a fleet is, as `report` is told after each chunk of steps.

    Attributes:
        step: Steps that each run has taken.
        steps: Steps that each run will take in all.
        returns: For each run, the mean return in its newest row that has one; NaN before that, and if it is frozen.
        learns_from: The step from which on the runs learn; before it they only act.
        compiled: Whether anything was compiled since the last report, so that the time between says nothing of speed.
    """

    step: int
    steps: int
    returns: Float[np.ndarray, " N"]
    learns_from: int = 0
    compiled: bool = False


class LogRow(NamedTuple):
    """A row of the log of one run, as callbacks see it right after it was written.

    Attributes:
        run: The name of the run, which is also that of its folder.
        index: The position of the run among those that are trained.
        step: The step at which the row was written.
        values: The other numbers of the row by name, such as "return", "loss" or "epsilon".
    """

    run: str
    index: int
    step: int
    values: dict[str, int | float]


Callback = Callable[[LogRow], Any]


class Row(NamedTuple):
    """What a row of the log says of the moment it is written at."""

    epsilon: Float[Array, " N"]
    seen: dict[str, Float[Array, " N"]]


class Chunk(NamedTuple):
    """What there will be to read of a chunk that ends at `time`, once the device has played it."""

    time: int
    length: int
    learns: bool
    metrics: ChunkMetrics
    bad_step: Int[Array, " N"]
    row: Row | None


class Manner(NamedTuple):
    """How runs are trained; results do not depend on it, save that an empty replay is filled again."""

    checkpoint_seconds: float = 300.0
    checkpoint_replay: CheckpointReplay = "whole"
    tensorboard: bool = False

    def check(self) -> None:
        if not self.checkpoint_seconds >= 0:
            raise ValueError(f"checkpoint_seconds must not be negative, but is {self.checkpoint_seconds}")
        if self.checkpoint_replay not in get_args(CheckpointReplay):
            raise ValueError(f"checkpoint_replay must be whole or empty, but is {self.checkpoint_replay!r}")


def train(
    runs: Sequence[Run],
    out: Path,
    *,
    steps: int,
    resume: bool = False,
    manner: Manner = Manner(),  # noqa: B008  # a tuple, which nobody can change
    labels: Sequence[Label] = (),
    report: Callable[[Progress], None] = lambda progress: None,
    callbacks: Sequence[Callback] = (),
) -> int:
    """Train runs of one shape side by side, and leave logs, checkpoints and parameters in a folder.

    Args:
        runs: Runs that differ in seeds and numbers alone.
        out: A new folder; with `resume` also one that holds these runs already.
        steps: Agent steps of each run.
        resume: Continue from the newest checkpoint in `out`, as if the training had never been interrupted.
        manner: How often checkpoints are saved and what is in them. A run that is resumed from a checkpoint with an
            "empty" replay fills its replay again before it learns.
        labels: What runs are called and described by, such as a baseline that is computed as a metric loss of weight 0.
        report: Called after each chunk of steps with how far the fleet is.
        callbacks: Each is called with every row of every log right after it was written; rows that are written again
            after `resume` are seen again. One that returns True stops the training: at the end of the chunk that is
            being played a checkpoint is saved, from which `resume` continues.

    Returns:
        The step at which the training ended: `steps`, or less if a callback stopped it.

    Raises:
        ValueError: A parameter is not as it must be; nothing has been written then.
        KeyboardInterrupt: After Ctrl-C or a request to end; `resume` continues from the checkpoint that it leaves.

    Example:
        >>> train(runs, Path("runs/demo"), steps=100_000, callbacks=[lambda row: row.values.get("return", 0) > 0.95])
    """
    _check(runs, steps)
    for run in runs:
        check_reloadable(run)
    manner.check()
    compilation_cache.enable()
    if manner.tensorboard:
        summary_writer()
    fleet = fleets.stack(runs)
    found = kept_in(out, resume=resume)
    kept = Kept(labels or found.labels, found.parts if sum(found.parts) == len(runs) else default_shard_sizes(runs))
    names = [label.name for label in kept.labels] if len(kept.labels) == len(runs) else run_names(runs)
    named = dict(zip(names, runs, strict=True))
    with closing(ShardedFleet(runs, kept.parts)) as parts, stop_signals() as stopping:
        shape = parts.shapes()  # what cannot be made is refused before anything is written
        check_room(shape, runs[0], len(runs))
        with (
            locked_folder(out),
            closing(Outputs(out, named, steps, resume=resume, kept=kept)) as outputs,
            closing(Checkpoints(out / "checkpoints")) as checkpoints,
        ):
            whole = manner.checkpoint_replay == "whole"
            warn_of_disk(shape if whole else jax.eval_shape(parts.without_replay, shape), out)
            training = _Training(fleet, parts, outputs, checkpoints, steps, report, callbacks)
            training.begin(shape, tensorboard=manner.tensorboard)
            if training.time < steps <= training.learns_from:
                begins = f"learning begins after step {training.learns_from}"
                warnings.warn(f"nothing is learnt up to step {steps}: {begins}", stacklevel=2)
            training.go(manner, stopping)
    if training.time < steps and not training.stopped:
        raise KeyboardInterrupt(f"stopped at step {training.time} of {steps}, which is saved: --resume continues")
    return training.time


def _check(runs: Sequence[Run], steps: int) -> None:
    if not runs:
        raise ValueError("runs must hold one run at least, but is empty")
    period = runs[0].schedule.update_period
    if not 1 <= steps < 2**31:
        raise ValueError(f"steps must be at least 1 and below 2³¹, got {steps}")
    if steps % period:
        least = -(-steps // period) * period
        raise ValueError(f"steps must be a multiple of update_period {period}, got {steps}: the next is {least}")


class _Training:
    """One call of `train`. The device plays the next chunk while the host reads the last one."""

    def __init__(
        self,
        fleet: Run,
        parts: ShardedFleet,
        outputs: Outputs,
        checkpoints: Checkpoints,
        steps: int,
        report: Callable[[Progress], None],
        callbacks: Sequence[Callback],
    ):
        self._fleet, self._parts, self._outputs, self._checkpoints = fleet, parts, outputs, checkpoints
        self._steps, self._report, self._callbacks = steps, report, callbacks
        self._compilations = compilation.count()
        self.stopped = False  # by a callback
        # Outside JAX programs do not depend on the length of chunks.
        self._chunks = Chunks(fleet.schedule, steps, COMPILATION if fleet.env.in_jax else 0.0)
        self.time = self._row_time = 0
        self.learns_from = fleet.schedule.learning_starts
        self._saved: int | None = None
        self._unread: Chunk | None = None
        count = len(outputs.names)
        self._sums, self._returns, self._bad = nothing(count), np.full(count, np.nan), np.full(count, -1)

    def begin(self, shape: States, *, tensorboard: bool) -> None:
        """From the newest checkpoint that is sound, if there is any; rows after it are written again.

        The shape of the state is enough to find one: there may be no room for two states.
        """
        whole = {"state": shape, "sums": self._sums, "returns": self._returns}
        empty = whole | {"state": jax.eval_shape(self._parts.without_replay, shape)}
        found = self._checkpoints.restore(whole, empty)
        positions = [0] * len(self._outputs.names)
        if found is None:
            if not self._checkpoints.awaits_first():
                self._outputs.check_nothing_learnt()
                self._checkpoints.await_first()
            self._parts.compile_ahead("act", shape, min(self._chunks.short, self._steps))
            self._state = self._parts.begin()
        else:
            self.time = self._saved = found.step
            self._state, self._sums, self._returns = (found.state[name] for name in ("state", "sums", "returns"))
            self._bad = np.array(self._parts.bad_steps(self._state))
            self._row_time, positions = found.extra["row_time"], found.extra["positions"]
            self._outputs.check_logs(self.time, positions, found.extra.get("digests"))
            self.learns_from = found.extra["learns_from"]
            if isinstance(self._state[0].memory, ReplayStub):
                self._refill()
        if self.time < self._steps >= self.learns_from:
            self._parts.compile_ahead("diagnose", shape, 0)
        self._say(self.time)
        if found is not None:
            self._parts.restore(found.extra["episodes"])  # which may take minutes
        self._outputs.go_back(self.time, positions, tensorboard=tensorboard)

    def _refill(self) -> None:
        """An empty memory, and no update until it has as many steps as a run that begins has before its first."""
        self._state = self._parts.refill(self._state, self.time)
        seen = self.time + self._fleet.schedule.learning_starts + self._fleet.replay.stack - 1
        self.learns_from = -(-seen // self._chunks.short) * self._chunks.short

    def go(self, manner: Manner, stopping: Callable[[], bool]) -> None:
        last = clock.monotonic()
        while self.time < self._steps and not stopping() and not self.stopped:
            before, self._unread = self._unread, self._play()
            self._read(before)
            if clock.monotonic() - last > manner.checkpoint_seconds and self.time < self._steps:
                self._save(manner.checkpoint_replay, background=True)
                last = clock.monotonic()
        self._save(manner.checkpoint_replay, background=False)

    def _play(self) -> Chunk:
        """Set the device to work on a chunk, and on what is due at its end."""
        schedule, learns = self._fleet.schedule, self.time >= self.learns_from
        length = self._chunks.next(self.time, learns=learns)
        self._state, metrics = self._parts.play(self._state, self.time, length, learns)
        self.time += length
        if self._fleet.target_rule.copies_at(self.time):
            self._state = self._parts.copy_targets(self._state)
        row = None
        if self.time % schedule.log_period == 0 or self.time == self._steps:
            now = jnp.int32(self.time)
            looks = self.time >= self.learns_from
            row = Row(_exploration(self._fleet, now), self._parts.diagnose(self._state, now) if looks else {})
        bad_step = self._parts.bad_steps(self._state)
        return Chunk(self.time, length, learns, metrics, bad_step, row)

    def _read(self, chunk: Chunk | None) -> None:
        """Wait for a chunk; its sums, its warnings and its rows."""
        if chunk is None:
            return
        self._sums = added(self._sums, chunk.metrics)
        self._chunks.finished(chunk.length, learns=chunk.learns)
        bad = np.array(chunk.bad_step)
        for index in np.flatnonzero((bad >= 0) & (self._bad < 0)):
            name = self._outputs.names[index]
            warnings.warn(f"{name}: not finite at step {bad[index]}; it stays as it was before", stacklevel=2)
        self._bad = bad
        if chunk.row is not None:
            self._write_rows(chunk.time, jax.device_get(chunk.row))
        self._say(chunk.time)

    def _say(self, time: int) -> None:
        """Report how far the fleet is."""
        before, self._compilations = self._compilations, compilation.count()
        self._report(Progress(time, self._steps, self._returns, self.learns_from, self._compilations > before))

    def _write_rows(self, time: int, row: Row) -> None:
        """A row for each run with what happened since the last one, and a last one for a run that froze since then."""
        rows: dict[int, dict[str, Any]] = {}
        for index, bad in enumerate(self._bad.tolist()):
            if bad < 0:
                found = means(self._sums, index) | {name: values[index] for name, values in row.seen.items()}
                rows[index] = {"step": time, "epsilon": row.epsilon[index]} | found
            elif bad > self._row_time:
                rows[index] = {"step": time, "not_finite_at": bad}
        self._outputs.append(time, rows)
        newest = [rows.get(index, {}).get("return", old) for index, old in enumerate(self._returns)]
        self._returns = np.where(self._bad < 0, newest, np.nan)
        self._sums, self._row_time = nothing(len(newest)), time
        for index, written in rows.items():
            self._call_back(index, written)

    def _call_back(self, index: int, row: dict[str, Any]) -> None:
        """Show a row to the callbacks, any of which may stop the training."""
        step, values = split_row(row)
        for callback in self._callbacks:
            answer = callback(LogRow(self._outputs.names[index], index, step, dict(values)))
            # Only True itself: what a callback happens to return, such as the length of what it printed, is no wish.
            self.stopped |= isinstance(answer, bool | np.bool_) and bool(answer)

    def _save(self, replay: CheckpointReplay, *, background: bool) -> None:
        """What is read, then the parameters, then the checkpoint: it vouches for all that was written before it."""
        unread, self._unread = self._unread, None
        self._read(unread)
        if self.time != self._saved:
            learnt = np.where(self._bad < 0, self.time, self._bad)
            save_parameters(self._outputs.folders, learnt, self._parts.params(self._state))
            state = self._state
            state = state if replay == "whole" else self._parts.without_replay(state)
            saved = {"state": state, "sums": self._sums, "returns": self._returns}
            extra = {"positions": self._outputs.positions(), "row_time": self._row_time}
            extra |= {"digests": self._outputs.digests()}
            extra |= {"learns_from": self.learns_from, "episodes": self._parts.snapshot()}
            self._checkpoints.save(self.time, saved, extra, background=background)
            self._saved = self.time


@jax.jit
def _exploration(fleet: Run, time: Int[Array, ""]) -> Float[Array, " N"]:
    return jax.vmap(lambda run: run.schedule.exploration(time))(fleet)
