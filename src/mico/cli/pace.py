"""Steps a second and time left of a training, from what it reports."""

from collections import deque
from typing import NamedTuple

from mico.deep.training.train import Progress

_WINDOW = 30.0  # seconds over which a pace is taken
_LEAST = 0.5  # seconds to measure before it is known: a program's first call takes longer than those that follow


class _Interval(NamedTuple):
    end: float
    seconds: float
    steps: int


class Pace:
    """The speed of a training: of steps that only act, before learning starts, and of steps that learn.

    Intervals between two reports in which something was compiled are left out, so that the time left is never
    extrapolated from compilation, nor the speed of learning from that of acting.

    Example:
        >>> pace = Pace()
        >>> pace.update(0.0, Progress(0, 10_000, returns))
        >>> pace.update(2.0, Progress(1_000, 10_000, returns))
        >>> pace.seconds_left()
        18.0
    """

    def __init__(self) -> None:
        self._newest: tuple[float, Progress] | None = None
        self._acting: deque[_Interval] = deque()
        self._learning: deque[_Interval] = deque()

    def update(self, now: float, progress: Progress) -> None:
        """Take in a report that came at a time, in seconds of any clock that does not jump."""
        before, self._newest = self._newest, (now, progress)
        if before is None or progress.compiled or progress.step <= before[1].step:
            return
        intervals = self._learning if before[1].step >= progress.learns_from else self._acting
        intervals.append(_Interval(now, now - before[0], progress.step - before[1].step))
        while now - intervals[0].end > _WINDOW and len(intervals) > 1:
            intervals.popleft()

    def steps_per_second(self) -> float | None:
        """Steps of one run in a second, at the newest pace; None before any is known."""
        if self._newest is None:
            return None
        progress = self._newest[1]
        return _rate(self._learning if progress.step > progress.learns_from else self._acting)

    def seconds_left(self) -> float | None:
        """How long the remaining steps take; None as long as the pace of some of them is not known."""
        if self._newest is None:
            return None
        progress, seconds = self._newest[1], 0.0
        begins = min(max(progress.learns_from, progress.step), progress.steps)
        for steps, intervals in ((begins - progress.step, self._acting), (progress.steps - begins, self._learning)):
            rate = _rate(intervals)
            if steps and rate is None:
                return None
            seconds += steps / rate if rate else 0.0
        return seconds


def _rate(intervals: deque[_Interval]) -> float | None:
    seconds = sum(interval.seconds for interval in intervals)
    return sum(interval.steps for interval in intervals) / seconds if seconds >= _LEAST else None
