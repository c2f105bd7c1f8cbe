"""Chunks of steps, after each of which the host looks at what happened: a few seconds each, as far as periods allow."""

import math
import time as clock

from mico.deep.settings import Schedule

_SHORT = 40  # steps of the first chunks
_LONG = 1_000  # steps that a fast device plays soon enough
_SECONDS = 2.0  # what a chunk should take
_LOOKS = 2  # chunks that are timed before another length is chosen: whatever else is compiled delays one at most
_CHANGES = 2  # each length is a program of its own to compile


class Chunks:
    """How long chunks are: short ones until the fleet learns, then as many steps as were seen to take two seconds.

    Every length divides the periods, so that chunks end where learning starts, targets are copied and rows are written.
    """

    def __init__(self, schedule: Schedule):
        period = schedule.update_period
        common = math.gcd(schedule.learning_starts, schedule.target_period or 0, schedule.log_period)
        several = range(2 * period, max(_LONG, period) + 1, period)  # of a single update the compiler makes no loop,
        found = [length for length in several if common % length == 0]  # which adds up in another order
        self.lengths = found or [period]
        self.short = self._most(_SHORT)
        self._length = self._wanted = self.short
        self._changes = 0
        self._seconds: list[float] = []
        self._last: float | None = None

    def next(self, time: int, *, learns: bool) -> int:
        """Steps of the chunk that begins at `time`, which a chunk of another length may only do at its own multiples.

        Where a training goes on that stopped elsewhere, chunks are shorter at first.
        """
        if learns and time % self._wanted == 0:
            self._length = self._wanted
        length = self._length if learns else self.short
        fitting = [one for one in self.lengths if one <= length and time % one == 0]
        return fitting[-1] if fitting else self.lengths[0] - time % self.lengths[0]

    def even_end(self, time: int, steps: int) -> int:
        """Where chunks of several updates end; then, in one more, what is left of all steps, however long they were."""
        whole = steps - steps % self.lengths[0]
        return whole if time < whole else steps

    def finished(self, length: int, *, learns: bool) -> None:
        """A chunk has been played: what it took since the one before, if both are of the length in question."""
        now, last = clock.monotonic(), self._last
        self._last = now if learns and length == self._wanted else None
        if self._last is None or last is None or self._changes == _CHANGES:
            return
        self._seconds.append(now - last)
        if len(self._seconds) == _LOOKS:
            worth = self._most(length * _SECONDS / max(min(self._seconds), 1e-9))
            self._seconds = []
            if not length / 2 <= worth <= 4 * length:
                self._wanted, self._last, self._changes = worth, None, self._changes + 1

    def _most(self, steps: int | float) -> int:
        """The largest length of at most so many steps, or else the least there is."""
        return max((length for length in self.lengths if length <= steps), default=self.lengths[0])
