"""The pictures of a video of an agent at play: what it sees, what it expects of each action, what looks alike to it."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, overload

import matplotlib
import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont

_MARGIN, SIDE, _PANEL, _STRIP, SMALL = 16, 336, 320, 56, 96  # pixels
_TOP, _WIDTH = 64, 3 * _MARGIN + SIDE + _PANEL
_CURVE = _TOP + SIDE + 34  # where the strip begins, below its legend
_BELOW = _CURVE + _STRIP + _MARGIN
_WHITE, _INK, _PALE, _LINE = "#ffffff", "#1a1a1a", "#5f6368", "#d5d8dc"
_BAR, _CHOSEN, _PAID = "#8fb8d4", "#d55e00", "#009e73"
_PER_ROW = (_WIDTH - _MARGIN) // (SMALL + _MARGIN)


class Play(NamedTuple):
    """An agent's play, step by step: pictures, values of the actions, what it expects, what it did, and what it got.

    Without `action`, the numbers of an action that is a vector take the place of the values.
    `neighbours` are rows of `stored`, nearest first; those at infinite distance are not there. `labels` are words for
    each step, and `stored_labels` for each stored picture; either may be empty.
    """

    title: str
    actions: tuple[str, ...]
    pictures: UInt8[np.ndarray, "T H W 3"]
    values: Float[np.ndarray, "T A"]
    worth: Float[np.ndarray, " T"]
    action: Int[np.ndarray, " T"] | None
    reward: Float[np.ndarray, " T"]
    returned: Float[np.ndarray, " T"]
    ended: Bool[np.ndarray, " T"]
    stored: UInt8[np.ndarray, "M H W 3"]
    neighbours: Int[np.ndarray, "T K"]
    distances: Float[np.ndarray, "T K"]
    caption: str
    labels: tuple[str, ...] = ()
    stored_labels: tuple[str, ...] = ()


class Stills(Sequence[Image.Image]):
    """The picture of each step, painted when it is asked for; what never changes is painted once."""

    def __init__(self, play: Play):
        finite = np.isfinite(play.values).all(axis=1) & np.isfinite(play.worth)
        if not finite.all():
            raise ValueError(f"{play.title}: its values are not finite at step {finite.argmin()}, and cannot be drawn")
        self._play = play
        self._low, self._high = _bounds(play.values)
        span = self._high - self._low
        self._decimals = min(max(3 - math.floor(math.log10(span)), 0), 6)
        starts = np.append(True, play.ended[:-1])
        self._episode = starts.cumsum()
        first = np.flatnonzero(starts)[self._episode - 1]
        self._step = np.arange(len(play.pictures)) - first + 1
        self._row = min(44, SIDE // len(play.actions))
        self._font = _font("DejaVuSans", min(14, max(self._row - 3, 6)))
        self._names = max(self._font.getlength(name) for name in play.actions) + 22
        self._ground = self._painted_ground()

    def __len__(self) -> int:
        return len(self._play.pictures)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...

    @overload
    def __getitem__(self, index: slice) -> list[Image.Image]: ...

    def __getitem__(self, index: int | slice) -> Image.Image | list[Image.Image]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} pictures, and none is {index}")
        step = index % len(self)
        image = self._ground.copy()
        draw = ImageDraw.Draw(image)
        self._tell(draw, step)
        _paste(image, self._play.pictures[step], (_MARGIN, _TOP), SIDE)
        self._draw_values(draw, step)
        x = self._across(step)
        draw.line([(x, _CURVE), (x, _CURVE + _STRIP)], _CHOSEN, 2)
        self._show_neighbours(image, draw, step)
        return image

    def _painted_ground(self) -> Image.Image:
        count = self._play.neighbours.shape[1]
        rows = math.ceil(count / _PER_ROW)
        height = _BELOW + (rows * (SMALL + 24) + 32 if rows else 0)
        image = Image.new("RGB", (_WIDTH, height), _WHITE)
        draw = ImageDraw.Draw(image)
        draw.text((_MARGIN, 10), self._play.title, _INK, _font("DejaVuSans-Bold", 15))
        bars, curve = ("Q-values, and the action taken", "largest Q-value")
        if self._play.action is None:
            bars, curve = "the action", "critics' value"
        draw.text((self._left, 37), bars, _PALE, _font("DejaVuSans", 13))
        legend = f"{curve} at each step; green and black: rewards; grey: end of an episode"
        draw.text((_MARGIN, _CURVE - 20), legend, _PALE, _font("DejaVuSans", 12))
        for number, name in enumerate(self._play.actions):
            draw.text((self._left + 18, self._middle(number)), name, _INK, self._font, anchor="lm")
        self._draw_strip(draw)
        if count:
            draw.text((_MARGIN, _BELOW), self._play.caption, _INK, _font("DejaVuSans", 13))
        return image

    def _draw_strip(self, draw: ImageDraw.ImageDraw) -> None:
        """Draw the expected return at each step, the rewards, and the ends of episodes."""
        low, high = _bounds(self._play.worth)
        bottom = _CURVE + _STRIP
        scale = (_STRIP - 8) / (high - low)
        points = [(self._across(step), bottom - 4 - scale * (q - low)) for step, q in enumerate(self._play.worth)]
        draw.line([(_MARGIN, bottom), (_WIDTH - _MARGIN, bottom)], _LINE, 1)
        for step in np.flatnonzero(self._play.ended).tolist():
            draw.line([(self._across(step), bottom - _STRIP), (self._across(step), bottom)], _PALE, 1)
        for step in np.flatnonzero(self._play.reward).tolist():
            x, up = self._across(step), self._play.reward[step] > 0
            draw.line([(x, bottom - 7), (x, bottom)], _PAID if up else _INK, 2)
        if len(points) > 1:
            draw.line(points, _PALE, 1)

    def _tell(self, draw: ImageDraw.ImageDraw, step: int) -> None:
        reward = self._play.reward[step]
        paid = f" ({reward:+.3g})" if reward else ""
        words = (
            f"episode {self._episode[step]}   step {self._step[step]}   return {self._play.returned[step]:.4g}{paid}"
        )
        if self._play.labels:
            words += f"   {self._play.labels[step]}"
        fonts = [_font("DejaVuSans", size) for size in (14, 13, 12, 11)]
        fitting = next((font for font in fonts if font.getlength(words) <= SIDE + _MARGIN - 4), fonts[-1])
        draw.text((_MARGIN, 36), _cut(words, SIDE + _MARGIN - 4, fitting), _PAID if reward > 0 else _INK, fitting)

    def _draw_values(self, draw: ImageDraw.ImageDraw, step: int) -> None:
        left, right = self._left + self._names, _WIDTH - _MARGIN - 72
        scale = (right - left) / (self._high - self._low)
        zero = left - scale * self._low
        for number, q in enumerate(self._play.values[step]):
            middle = self._middle(number)
            chosen = self._play.action is not None and number == self._play.action[step]
            end, half = left + scale * (q - self._low), max(self._row // 2 - 3, 2)
            draw.rectangle([min(zero, end), middle - half, max(zero, end), middle + half], _CHOSEN if chosen else _BAR)
            if chosen:
                draw.polygon([(self._left, middle - 6), (self._left + 10, middle), (self._left, middle + 6)], _CHOSEN)
            draw.text(
                (_WIDTH - _MARGIN, middle),
                f"{round(float(q), self._decimals) + 0.0:.{self._decimals}f}",
                _INK,
                self._font,
                anchor="rm",
            )
        ends = self._middle(0) - self._row / 2, self._middle(len(self._play.actions) - 1) + self._row / 2
        draw.line([(zero, ends[0]), (zero, ends[1])], _PALE, 1)

    def _show_neighbours(self, image: Image.Image, draw: ImageDraw.ImageDraw, step: int) -> None:
        for place, (row, distance) in enumerate(zip(self._play.neighbours[step], self._play.distances[step])):
            if not np.isfinite(distance):
                continue
            x = _MARGIN + (place % _PER_ROW) * (SMALL + _MARGIN)
            y = _BELOW + 26 + (place // _PER_ROW) * (SMALL + 24)
            _paste(image, self._play.stored[row], (x, y), SMALL)
            words = f"{distance:#.3g}"
            if self._play.stored_labels:
                words += f"  {self._play.stored_labels[row]}"
            font = _font("DejaVuSans", 12)
            draw.text((x, y + SMALL + 3), _cut(words, SMALL + _MARGIN - 4, font), _INK, font)

    @property
    def _left(self) -> int:
        return 2 * _MARGIN + SIDE

    def _middle(self, action: int) -> float:
        return _TOP + self._row * (action + 0.5)

    def _across(self, step: int) -> float:
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * (step + 0.5) / len(self)


def _bounds(numbers: Float[np.ndarray, "..."]) -> tuple[float, float]:
    """The range of an axis, which includes 0."""
    low, high = min(float(numbers.min()), 0.0), max(float(numbers.max()), 0.0)
    return low, low + ((high - low) or 1.0)


def _paste(image: Image.Image, picture: UInt8[np.ndarray, "H W 3"], corner: tuple[int, int], side: int) -> None:
    """In a square, every pixel as large as can be; one that is larger than the square is shrunk."""
    height, width, _ = picture.shape
    scale = side / max(height, width)
    scale = math.floor(scale) if scale >= 1 else scale
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    shown = Image.fromarray(np.ascontiguousarray(picture))
    way = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX
    image.paste(shown.resize(size, way), (corner[0], corner[1]))


def _cut(words: str, width: int, font: ImageFont.FreeTypeFont) -> str:
    """Cut words to what fits into so many pixels."""
    fitting = (words[:count] + "…" for count in range(len(words) - 1, 0, -1))
    return words if font.getlength(words) <= width else next(one for one in fitting if font.getlength(one) <= width)


@cache
def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A font of Matplotlib, which has Greek letters."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"), size)
