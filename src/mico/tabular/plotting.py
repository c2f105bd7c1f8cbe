"""Pictures of distances: data and an Axes in, the Axes out. Matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from mico.tabular.problems.problem import Layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Colours = Literal["auto", "linear", "rank"]

_BAND = 0.05  # of the range of the values: about as much as the eye takes for one colour
_CROWD = 0.4  # the share of the values that may lie in one band before linear colours hide them
_LEVELS = 10  # so many different values in the band are worth telling apart
_SAME = 1e-6  # of the range: values nearer than this count as equal
_EQUAL = 1e-9  # of the range: rounding apart, which ranks must not blow up into colours
_OBLONG = 2  # times as long as it is wide, a matrix need not have square cells
_MOST_NAMES = 30  # more names than this on an axis cannot be read
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def is_crowded(values: Any) -> bool:
    """Whether linear colours would show a large part of the values as one colour.

    They would if more than two fifths of the values lie within one twentieth of the range of all, and are at least ten
    different values. Equal values do not count as different: no colours could tell them apart.

    Args:
        values: Numbers of any shape; those that are not finite are left out.

    Returns:
        Whether colours by rank show more.

    Examples:
        >>> is_crowded(np.linspace(0, 1, 100)), is_crowded(np.logspace(-9, 0, 100))
        (False, True)
    """
    numbers = np.sort(np.asarray(values, dtype=float)[np.isfinite(values)], axis=None)
    if numbers.size < 2 or numbers[0] == numbers[-1]:
        return False
    span = numbers[-1] - numbers[0]
    beyond = np.searchsorted(numbers, numbers + _BAND * span, side="right")
    start = int((beyond - np.arange(numbers.size)).argmax())
    band = numbers[start : beyond[start]]
    different = 1 + np.count_nonzero(np.diff(band) > _SAME * span)
    return bool(band.size > _CROWD * numbers.size and different >= _LEVELS)


def colour_norm(values: Any, colours: Colours = "auto") -> Normalize:
    """Colours for these values: linear in the value, or by rank.

    Args:
        values: All that will be drawn with these colours, of one picture or of several that share a scale.
        colours: "linear", "rank", or "auto", which takes ranks where `is_crowded`.

    Returns:
        A Matplotlib norm.

    Raises:
        ValueError: If `colours` is none of these.

    Examples:
        >>> norm = colour_norm([0.0, 1.0, 2.0, 100.0], "rank")
        >>> [float(round(norm(value), 2)) for value in (0.0, 1.0, 2.0, 100.0)]
        [0.0, 0.33, 0.67, 1.0]
    """
    from matplotlib.colors import Normalize

    if colours not in ("auto", "linear", "rank"):
        raise ValueError(f"colours must be 'auto', 'linear' or 'rank', got {colours!r}")
    numbers = np.asarray(values, dtype=float)[np.isfinite(values)]
    if numbers.size and (colours == "rank" or (colours == "auto" and is_crowded(numbers))):
        return _rank_norm(numbers)
    return Normalize(float(numbers.min()), float(numbers.max())) if numbers.size else Normalize()


def is_by_rank(norm: Normalize) -> bool:
    """Whether a norm of `colour_norm` shows ranks."""
    return getattr(norm, "by_rank", False)


def plot_matrix(
    matrix: Float[np.ndarray, "m n"],
    ax: Axes,
    *,
    label: str = "distance",
    names: Sequence[str] | None = None,
    columns: Sequence[str] | Int[np.ndarray, " n"] | None = None,
    colours: Colours | Normalize = "auto",
) -> Axes:
    """Draw a matrix of distances as colours, row 0 on top, with a colour bar.

    Args:
        matrix: The distances; row x holds those from state x.
        ax: Where to draw.
        label: What the colours mean, on the colour bar.
        names: Names of the states, written at the axes where they fit.
        columns: Names, or numbers, of the states of the columns, where they are those of another model.
        colours: See `colour_norm`; a norm makes several pictures share one scale.

    Returns:
        The Axes.
    """
    from matplotlib.ticker import MaxNLocator

    norm = colour_norm(matrix, colours) if isinstance(colours, str) else colours
    high, wide = matrix.shape
    aspect = "equal" if max(high, wide) <= _OBLONG * min(high, wide) else "auto"
    _add_colour_bar(ax.imshow(matrix, cmap=_colour_map(), norm=norm, aspect=aspect), ax, label)
    ax.set_xlabel("state y" if columns is None else "state y of the other model")
    ax.set_ylabel("state x")
    of_columns = names if columns is None else columns
    for axis, labels, turn in ((ax.xaxis, of_columns, 90), (ax.yaxis, names, 0)):
        if labels is not None and not isinstance(labels, np.ndarray) and len(labels) <= _MOST_NAMES:
            axis.set_ticks(range(len(labels)), labels, rotation=turn, parse_math=False)
        else:
            axis.set_major_locator(MaxNLocator(6, integer=True))
    return ax


def plot_map(
    image: Float[np.ndarray, "H W"],
    ax: Axes,
    *,
    label: str | None = "distance",
    marks: Mapping[tuple[int, int], str] | None = None,
    colours: Colours | Normalize = "auto",
) -> Axes:
    """Draw one value per cell of a map, whose walls are NaN, with a colour bar.

    Args:
        image: The values, as `Layout.paint` makes them.
        ax: Where to draw.
        label: What the colours mean, on the colour bar; None for no bar, where several maps share one.
        marks: Matplotlib markers by (row, column), such as `map_marks` makes.
        colours: See `colour_norm`; a norm makes several pictures share one scale.

    Returns:
        The Axes.
    """
    norm = colour_norm(image, colours) if isinstance(colours, str) else colours
    drawn = ax.imshow(np.ma.masked_invalid(image), cmap=_colour_map(), norm=norm, interpolation="nearest")
    if label is not None:
        _add_colour_bar(drawn, ax, label)
    for (row, column), marker in (marks or {}).items():
        ax.plot(column, row, marker, color="white", markeredgecolor="black", markersize=11, linestyle="none")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    return ax


def plot_row(
    row: Float[np.ndarray, " S"],
    ax: Axes,
    *,
    label: str = "distance",
    names: Sequence[str] | None = None,
    origin: int | None = None,
) -> Axes:
    """Draw the distances from one state as bars, or as points where bars would be too narrow.

    Args:
        row: A distance to each state.
        ax: Where to draw.
        label: What the values are, on the vertical axis.
        names: Names of the states, written below the bars.
        origin: The state that the distances are from, drawn in another colour.

    Returns:
        The Axes.
    """
    from matplotlib.ticker import MaxNLocator

    states = np.arange(len(row))
    shades = ["C1" if state == origin else "C0" for state in states]
    if len(row) <= _MOST_NAMES:
        ax.bar(states, row, color=shades)
        ax.set_xticks(states, names or [str(state) for state in states], rotation=90 if names else 0, parse_math=False)
    else:
        ax.scatter(states, row, c=shades, s=12, linewidths=0)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_ylim(bottom=min(0.0, float(row.min())))
    ax.set_xlabel("state")
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def map_marks(layout: Layout, origin: int | None = None) -> dict[tuple[int, int], str]:
    """Markers for `plot_map`: a circle at the origin, a star at each goal."""
    circles, stars = layout.cells == origin, np.isin(layout.cells, layout.goals)
    spots = [*((spot, "o") for spot in np.argwhere(circles)), *((spot, "*") for spot in np.argwhere(stars))]
    return {(int(row), int(column)): marker for (row, column), marker in spots}


def add_shared_colour_bar(figure: Figure, axes: Any, norm: Normalize, label: str = "distance") -> Any:
    """Add one colour bar for several pictures that were drawn with one norm.

    Args:
        figure: The figure of the pictures.
        axes: Their Axes, as an array.
        norm: The norm of `colour_norm` that they were drawn with.
        label: What the colours mean.

    Returns:
        The colour bar of Matplotlib.
    """
    from matplotlib.cm import ScalarMappable

    bar: Any = figure.colorbar(ScalarMappable(norm, _colour_map()), ax=axes, label=_bar_label(label, norm), aspect=30)
    _label_ticks(bar, norm)
    return bar


def checked_axes(ax: Axes | None) -> Axes:
    """The Axes as given; for None those of a new figure of pyplot, which scripts show and notebooks display."""
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(layout="constrained")[1]
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise ValueError(f"ax must be an Axes of Matplotlib, got {ax!r}")
    return ax


def _colour_map() -> Any:
    """Perceptually uniform; walls are grey, which it never is."""
    from matplotlib import colormaps

    return colormaps["viridis"].with_extremes(bad="0.86")


def _add_colour_bar(image: AxesImage, ax: Axes, label: str) -> None:
    """A colour bar of the height of the picture."""
    norm: Any = image.norm
    bar: Any = ax.figure.colorbar(image, cax=ax.inset_axes((1.04, 0, 0.05, 1)), label=_bar_label(label, norm))
    _label_ticks(bar, norm)
    bar.outline.set_visible(False)


def _bar_label(label: str, norm: Normalize) -> str:
    """The label of a colour bar, which says so where colours are by rank."""
    return f"{label} (colours by rank)" if is_by_rank(norm) else label


def _label_ticks(bar: Any, norm: Normalize) -> None:
    """Mark the quarters of a colour bar by rank with the values that have these ranks."""
    if is_by_rank(norm):
        ticks = np.unique(np.asarray(norm.inverse(np.array(_QUARTERS))))
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
        bar.ax.minorticks_off()


def _rank_norm(values: np.ndarray) -> Normalize:
    """Colours that rise evenly with the rank of a value among the given ones; equal values share their mean rank."""
    from matplotlib.colors import FuncNorm

    numbers = np.sort(values)
    starts = np.flatnonzero(np.diff(numbers, prepend=-np.inf) > _EQUAL * (numbers[-1] - numbers[0]))
    levels, counts = numbers[starts], np.diff(starts, append=numbers.size)
    middle = np.cumsum(counts) - (counts + 1) / 2
    ranks = middle - middle[0]

    def forward(given: Any) -> Any:
        return np.ma.array(np.interp(np.ma.filled(given, levels[0]), levels, ranks), mask=np.ma.getmask(given))

    norm = FuncNorm((forward, lambda rank: np.interp(rank, ranks, levels)), float(levels[0]), float(levels[-1]))
    norm.by_rank = True  # pyright: ignore[reportAttributeAccessIssue]
    return norm
