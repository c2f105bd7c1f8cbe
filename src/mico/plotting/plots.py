"""Figures: each plot takes data and an Axes and returns the Axes; no global figure is ever open."""

import io
from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from mico.evidence.intervals import mean_interval
from mico.runs.files import write_whole

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by all (Okabe and Ito)


def colours(names: Iterable[Any]) -> dict[Any, str]:
    """A colour for each name, so that it may have the same one in several plots."""
    return dict(zip(names, cycle(PALETTE)))


def curves(frame: pd.DataFrame, ax: Axes, *, by: str, colour_of: Mapping[Any, str] | None = None) -> Axes:
    """Draw a line for each value of a column: the mean of `value` over runs at each `step`, and its 95% interval.

    Args:
        frame: Rows with `step`, `value` and the column `by`, such as those of `mico.runs.log.read_runs` of one
            name; a column `name` with a single name labels the vertical axis.
        ax: Where to draw.
        by: The column that tells the lines apart, such as "agent" or "metric.alpha"; the legend has it as its title.
            Rows without a value in it are one line, "none".
        colour_of: A colour for each value of the column.

    Returns:
        The Axes. Bands are cut at the smallest and the largest value in the frame: Student's interval of few runs
        would go beyond any return that there can be.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> rows = pd.DataFrame({"agent": "dqn", "step": [1, 1, 2, 2], "name": "return", "value": [0.0, 1, 1, 1]})
        >>> curves(rows, Figure().subplots(), by="agent").get_ylabel()
        'return'
    """
    lines = frame[by].astype(object).where(frame[by].notna(), "none")
    colour_of = colour_of or colours(lines.unique())
    least, most = np.nanmin(frame["value"]), np.nanmax(frame["value"])
    for name, arm in frame.groupby(lines, sort=False):
        colour = colour_of[name]
        steps = np.sort(arm["step"].unique())
        at_steps = [arm.loc[arm["step"] == step, "value"].to_numpy(dtype=float) for step in steps]
        mean, low, high = np.transpose([mean_interval(values) for values in at_steps])
        ax.plot(steps, mean, color=colour, label=f"{name:g}" if isinstance(name, float) else str(name))
        ax.fill_between(steps, low.clip(least, most), high.clip(least, most), color=colour, alpha=0.2, linewidth=0)
    names = frame["name"].unique() if "name" in frame.columns else []
    ax.set_ylabel(str(names[0]) if len(names) == 1 else "value")
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlim(left=0)
    ax.set_xlabel("steps")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, title=by)
    return ax


def runs_and_mean(rows: pd.DataFrame, ax: Axes, *, colour: str, label: str) -> None:
    """Scores of each seed against steps (thin), and their mean as far as all go.

    `label` has a place for how many runs there are: "ours, {}".
    """
    count = rows["seed"].nunique()
    for _, one in rows.groupby("seed"):
        ax.plot(one["step"], one["score"], color=colour, linewidth=0.8, alpha=0.4)
    at = rows.groupby("step")["score"]
    mean = at.mean()[at.count() == count]  # it would jump where runs drop out
    ax.plot(mean.index, mean, color=colour, label=label.format("1 run" if count == 1 else f"{count} runs"))


def agreement(groups: Mapping[str, Float[np.ndarray, "N 2"]], ax: Axes) -> Axes:
    """Points of two numbers that should be equal, a colour for each group, on a square with its diagonal."""
    for name, colour in colours(groups).items():
        ax.plot(*groups[name].T, "o", color=colour, markersize=4, alpha=0.4, markeredgewidth=0, label=name)
    every = np.concatenate(list(groups.values()))
    ends = every.min(), every.max()
    ax.plot(ends, ends, color="0.5", linewidth=1, zorder=0)
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and as PDF beside it; the same figure gives the same bytes."""
    files = {path.with_name(f"{path.name}{ending}"): data for ending, data in drawn(figure).items()}
    for file, data in files.items():
        write_whole(file, data)
    return list(files)


def drawn(figure: Figure) -> dict[str, bytes]:
    """The content of a figure's files, by their endings."""
    png, pdf, layout = io.BytesIO(), io.BytesIO(), figure.get_layout_engine()
    figure.savefig(png, format="png", dpi=150, bbox_inches="tight")
    figure.set_layout_engine("none")  # all has its place now, and finding it is a third of the work
    try:
        figure.savefig(pdf, format="pdf", bbox_inches="tight", metadata={"CreationDate": None})
    finally:
        figure.set_layout_engine(layout)
    return {".png": png.getvalue(), ".pdf": pdf.getvalue()}
