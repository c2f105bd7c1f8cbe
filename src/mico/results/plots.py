"""Figures: each plot takes data and an Axes and returns the Axes; no global figure is ever open."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

_COLOURS = colormaps["viridis"].with_extremes(bad="0.86")  # perceptually uniform; walls are grey, which it never is
_MOST_NAMES = 30  # more than this many on an axis cannot be read


def heat_map(
    matrix: Float[np.ndarray, "m n"], ax: Axes, *, label: str = "distance", names: Sequence[str] | None = None
) -> Axes:
    """A matrix as colours, row 0 on top, with a colour bar; `names` of the states mark the axes where they fit."""
    _with_bar(ax.imshow(matrix, cmap=_COLOURS), ax, label)
    ax.set_xlabel("state y")
    ax.set_ylabel("state x")
    if names is not None and len(names) <= _MOST_NAMES:
        ax.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
        ax.set_yticks(range(len(names)), names, parse_math=False)
    else:
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    return ax


def map_view(
    image: Float[np.ndarray, "H W"],
    ax: Axes,
    *,
    label: str = "distance",
    marks: Mapping[tuple[int, int], str] | None = None,
) -> Axes:
    """Values on a map whose walls are NaN, with a colour bar; `marks` puts a marker at (row, column)."""
    _with_bar(ax.imshow(np.ma.masked_invalid(image), cmap=_COLOURS, interpolation="nearest"), ax, label)
    for (row, column), marker in (marks or {}).items():
        ax.plot(column, row, marker, color="white", markeredgecolor="black", markersize=11, linestyle="none")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    return ax


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and as PDF beside it; the same figure gives the same bytes."""
    files = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf")]
    figure.savefig(files[0], dpi=150, bbox_inches="tight")
    figure.savefig(files[1], bbox_inches="tight", metadata={"CreationDate": None})
    return files


def _with_bar(image: AxesImage, ax: Axes, label: str) -> None:
    """A colour bar of the height of the picture."""
    bar = ax.figure.colorbar(image, cax=ax.inset_axes((1.04, 0, 0.05, 1)), label=label)
    bar.outline.set_visible(False)
