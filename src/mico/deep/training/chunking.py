"""Chunks of steps, after each of which the host looks at what happened: a few seconds each, as far as periods allow."""

import math
import time as clock

from mico.deep.config.run import Schedule

_SHORT = 40  # steps of the first chunks
_LONG = 1_000  # steps that a fast device plays soon enough
_SECONDS = 2.0  # what a chunk should take
_LOOKS = 2  # chunks that are timed before another length is chosen: whatever else is compiled delays one at most
_CHANGES = 2  # each length is a program of its own to compile
_HOST = 0.001  # seconds of the host for a chunk, however long that is
COMPILATION = 2.0  # seconds to compile a program
_LEARNING = 200  # times as long as a step that only acts takes one that learns, at most


class Chunks:
    """How long chunks are: short ones until the fleet learns, then as many steps as take at most two seconds.

    Every length divides the periods, so that chunks end where learning starts, targets are copied and rows are written.
    A length that would need another program is chosen only where that saves more time than the program takes to
    compile; so a short training has two programs, one that acts and one that learns.

    Args:
        schedule: When learning starts, targets are copied and rows are written.
        steps: How many steps there are in all; without end if not given.
        compilation: Seconds to compile a program for another length.
    """

    def __init__(self, schedule: Schedule, steps: int | None = None, compilation: float = COMPILATION):
        period = schedule.update_period
        common = math.gcd(schedule.learning_starts, schedule.target_period or 0, schedule.log_period)
        several = range(2 * period, max(_LONG, period) + 1, period)  # of a single update the compiler makes no loop,
        found = [length for length in several if common % length == 0]  # which adds up in another order
        self.lengths = found or [period]
        self.short = self._most(_SHORT)
        self._steps, self._compilation = steps, compilation
        # What chunks of several updates cannot fill comes at the end, in one more chunk, however long they were.
        self._even_end = math.inf if steps is None else steps - steps % self.lengths[0]
        self._length = self._wanted = self.short
        self._compiled: set[tuple[int, bool]] = set()
        self._changes = 0
        self._seconds: list[float] = []
        self._acting = math.inf  # seconds of a step that only acts
        self._last: tuple[float, int, bool] | None = None
        self._ahead = 0

    def next(self, time: int, *, learns: bool) -> int:
        """Steps of the chunk that begins at `time`, which a chunk of another length may only do at its own multiples.

        Where a training is resumed that stopped elsewhere, chunks are shorter at first.
        """
        if learns and not any(learnt for _, learnt in self._compiled):
            self._wanted = self._first(time)
        if learns and time % self._wanted == 0:
            self._length = self._wanted
        most = self._length if learns else self.short
        fitting = [length for length in self.lengths if length <= most and time % length == 0]
        length = fitting[-1] if fitting else self.lengths[0] - time % self.lengths[0]
        length = self._until_end(time, length, learns)
        self._compiled.add((length, learns))
        self._ahead = time + length
        return length

    def _first(self, time: int) -> int:
        """The length of chunks that learn, judged by those that only act; if possible one that fills all that is left.

        Where nothing is known of the speed, it is that of the first chunks.
        """
        most = max(self.short, self._most(_SECONDS / max(_LEARNING * self._acting, 1e-9)))
        fitting = [length for length in self.lengths if length <= most and time % length == 0]
        if not fitting or self._acting == math.inf or self._even_end == math.inf:
            return fitting[-1] if fitting and self._acting < math.inf else self.short
        left = self._even_end - time
        even = [length for length in fitting if left % length == 0]
        more = _HOST * (left / even[-1] - left / fitting[-1]) if even else math.inf
        return even[-1] if more < self._compilation else fitting[-1]

    def _until_end(self, time: int, length: int, learns: bool) -> int:
        """No step too many; and near the end the length of a program that there is, if it fills what is left."""
        if self._steps is None:
            return length
        left = int(self._even_end if time < self._even_end else self._steps) - time
        if length <= left:
            return length
        there = [one for one, kind in self._compiled if kind == learns and left % one == 0 and time % one == 0]
        return max(there, default=left) if self._compilation else left

    def finished(self, length: int, *, learns: bool) -> None:
        """Note that a chunk has been played, and how long it took if the one before was of the same kind."""
        now, last = clock.monotonic(), self._last
        self._last = (now, length, learns)
        if last is None or last[1:] != (length, learns):
            self._seconds = []
        elif not learns:
            self._acting = min(self._acting, (now - last[0]) / length)
        elif length == self._wanted and self._changes < _CHANGES:
            self._seconds.append(now - last[0])
            if len(self._seconds) == _LOOKS:
                self._choose(length, min(self._seconds))

    def _choose(self, length: int, seconds: float) -> None:
        """Choose another length if it is worth it, now that a chunk of this one is known to take so many seconds."""
        self._seconds = []
        worth = self._most(length * _SECONDS / max(seconds, 1e-9))
        left = self._even_end - self._ahead
        saved = _HOST * (left / length - left / worth) if left < math.inf else math.inf
        if worth < length / 2 or (worth > 4 * length and saved > self._compilation):
            self._wanted, self._last, self._changes = worth, None, self._changes + 1

    def _most(self, steps: int | float) -> int:
        """The largest length of at most so many steps, or else the least there is."""
        return max((length for length in self.lengths if length <= steps), default=self.lengths[0])
