"""Figures of scores: each takes data and an Axes, or a grid of them, and returns it."""

from collections.abc import Iterable, Mapping
from itertools import cycle, product
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Real
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from mico.evidence.curves import coinciding
from mico.evidence.intervals import mean_intervals
from mico.evidence.statistics import Band, Estimate
from mico.plotting.percent_ticks import LINEAR, Percents
from mico.plotting.plots import PALETTE

Style = Mapping[str, Any]

_GREY = {"color": "0.55", "linestyle": "-"}
DASHES = ("-", "--", ":", "-.", (4.5, (9, 4.3)))  # the last as two long ones in a legend
_DASH = 4  # widths of a line, of a dash that leaves room for lines beneath
_OVERLAID = "overlaid"
_LARGE = 50  # per cent: where none is larger, all are drawn to scale
_ROUND = [1, 2, 2.5, 5, 10]  # steps between ticks, times a power of ten


def styles(names: Iterable[Any]) -> dict[Any, Style]:
    """A colour for each name, with other dashes where it is used again: a name may look alike in several plots."""
    return {
        name: {"color": colour, "linestyle": dashes}
        for name, (dashes, colour) in zip(names, cycle(product(DASHES, PALETTE)))
    }


def arm_styles(runs: pd.DataFrame) -> dict[Any, Style]:
    """One for each `arm`: of several agents the colour tells what is added to an `agent`, if anything, dashes which.

    So all agents without a metric loss have one colour, and with MICo another, as those of a single agent.
    """
    arms = runs.drop_duplicates("arm")
    added = [str(arm).removeprefix(str(agent)) for arm, agent in zip(arms["arm"], arms["agent"])]
    agents, kinds = list(arms["agent"].unique()), sorted(set(added))
    if not (1 < len(agents) <= len(DASHES) and 1 < len(kinds) <= len(PALETTE)):
        return styles(arms["arm"])
    return {
        arm: {"color": PALETTE[kinds.index(kind)], "linestyle": DASHES[agents.index(agent)]}
        for arm, agent, kind in zip(arms["arm"], arms["agent"], added)
    }


def overlays(curves: pd.DataFrame, style_of: Mapping[Any, Style]) -> dict[Any, tuple[int, int]]:
    """For each arm whose line would hide another one: which line it is, from 1, of how many on one another.

    Drawn with dashes, each at its own place, all lines of such a group are seen, the first of them without dashes.
    Lines with different dashes are seen anyway.
    """
    found = {}
    for group in coinciding(curves):
        dashes = style_of[group[0]]["linestyle"]
        hiding = [arm for arm in group[1:] if style_of[arm]["linestyle"] in ("-", dashes)]
        found |= {arm: (place, len(hiding) + 1) for place, arm in enumerate(hiding, start=1)}
    return found


def legend_lines(axes: Iterable[Axes]) -> dict[str, Line2D]:
    """A line for each label, for one legend of several Axes; one that no other line lies under, if there is any."""
    shown: dict[str, Line2D] = {}
    for line in (line for ax in axes for line in ax.lines):
        label = str(line.get_label())
        if label not in shown or shown[label].get_gid() == _OVERLAID:
            shown[label] = line
    return shown


def aggregate_lines(
    curves: pd.DataFrame, ax: Axes, *, label: str, frame_skip: int = 1, style_of: Mapping[Any, Style] | None = None
) -> Axes:
    """A line for each `arm`: `value` against `step`, with a band from `low` to `high`."""
    style_of = style_of or styles(curves["arm"].unique())
    over = overlays(curves, style_of)
    for arm, own in curves.groupby("arm", sort=False):
        _band(ax, own["step"].to_numpy() * frame_skip, _columns(own), arm, style_of[arm], over.get(arm))
    _steps_axis(ax, frame_skip)
    ax.set_ylabel(label)
    ax.legend(frameon=False)
    return ax


def training_grid(
    curves: pd.DataFrame,
    axes: np.ndarray,
    *,
    level: float = 0.75,
    frame_skip: int = 1,
    style_of: Mapping[Any, Style] | None = None,
) -> np.ndarray:
    """An Axes for each `env` with a line for each `arm`: the mean of `value` over seeds, and its interval (Student)."""
    style_of = style_of or styles(curves["arm"].unique())
    groups = list(curves.groupby("env", sort=True))
    if len(groups) > axes.size:
        raise ValueError(f"axes must be one for each of the {len(groups)} environments, but are {axes.size}")
    for ax, title, (_, own) in zip(axes.flat, _short([env for env, _ in groups]), groups):
        means = mean_intervals(own.sort_values("step", kind="stable"), ["arm", "step"], level)
        over = overlays(means, style_of)
        for arm in own["arm"].unique():
            line = means[means["arm"] == arm]
            _band(ax, line["step"].to_numpy() * frame_skip, _columns(line), arm, style_of[arm], over.get(arm))
        _steps_axis(ax, frame_skip)
        ax.set_title(title, fontsize="medium")
    for ax in axes.flat[len(groups) :]:
        ax.set_axis_off()
    return _outlined(axes)


def sweep_grid(
    curves: pd.DataFrame,
    axes: np.ndarray,
    *,
    row: str = "metric.alpha",
    line: str = "metric.beta",
    level: float = 0.75,
    frame_skip: int = 1,
) -> np.ndarray:
    """A row of Axes for each value of one field, a column for each `env`, and a line for each value of another field.

    Runs without a metric are the baseline, a grey line that is the same in every row.
    """
    swept, base = curves[curves["metric"] != "none"], curves[curves["metric"] == "none"]
    rows, lines, envs = (sorted(swept[name].dropna().unique()) for name in (row, line, "env"))
    if axes.shape != (len(rows), len(envs)):
        raise ValueError(f"axes must be {len(rows)} × {len(envs)}, but their shape is {axes.shape}")
    for arms in (base["arm"], *(own["arm"] for _, own in swept.groupby([row, line]))):
        if arms.nunique() > 1:
            raise ValueError(f"curves must have one arm to a line, but have {' and '.join(arms.unique()[:2])}")
    style_of = styles(lines)
    for (i, value), (j, env) in product(enumerate(rows), enumerate(envs)):
        ax = axes[i, j]
        here = swept[(swept[row] == value) & (swept["env"] == env)]
        for arm, own in base[base["env"] == env].groupby("arm"):
            _mean_band(ax, own, level, frame_skip, label=arm, style=_GREY)
        for other, own in here.groupby(line):
            _mean_band(ax, own, level, frame_skip, label=_setting(line, other), style=style_of[other])
        if i == 0:
            ax.set_title(_short(envs)[j], fontsize="medium")
        if j == 0:
            ax.set_ylabel(_setting(row, value))
    return _outlined(axes)


def improvement_bars(percent: pd.Series, ax: Axes) -> Axes:
    """A bar for each environment, the largest improvement first; where some are large, by logarithms."""
    percent = percent.sort_values(ascending=False)
    ax.bar(range(len(percent)), percent, color=np.where(percent > 0, PALETTE[0], PALETTE[1]))
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    if percent.abs().max() > _LARGE:
        ax.set_yscale("symlog", linthresh=LINEAR)
        # Small bars on one side have a tick to be read by, however large those on the other are.
        ax.set_ylim(*(np.sign(end) * max(abs(end), LINEAR / 2) for end in ax.get_ylim()))
        ax.yaxis.set_major_locator(Percents(ax.yaxis))
    ax.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    ax.axhline(0, color="0.3", linewidth=0.8)
    ax.set_xticks(range(len(percent)), _short(percent.index), rotation=90, fontsize="small")
    ax.set_xlim(-0.7, len(percent) - 0.3)
    ax.set_ylabel("improvement")
    ax.set_title(f"mean {percent.mean():+.1f}%, {(percent > 0).sum()} of {len(percent)} improved")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def interval_bars(
    estimates: Mapping[Any, Estimate], ax: Axes, *, label: str, style_of: Mapping[Any, Style] | None = None
) -> Axes:
    """A dot and the bar of its interval for each arm, the first on top."""
    style_of = style_of or styles(estimates)
    for place, (arm, (value, low, high)) in enumerate(estimates.items()):
        colour = style_of[arm]["color"]
        ax.plot([low, high], [place, place], color=colour, linewidth=7, alpha=0.35, solid_capstyle="butt")
        ax.plot([value], [place], "o", color=colour)
    ax.set_yticks(range(len(estimates)), list(map(str, estimates)), parse_math=False)
    ax.set_ylim(len(estimates) - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=_ROUND))
    ax.set_xlabel(label)
    ax.grid(axis="x", color="0.9")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def profile_lines(
    profiles: Mapping[Any, Band],
    thresholds: Real[np.ndarray, " thresholds"],
    ax: Axes,
    *,
    label: str,
    style_of: Mapping[Any, Style] | None = None,
) -> Axes:
    """A line for each arm: the share of its runs above each threshold, with a band."""
    style_of = style_of or styles(profiles)
    for arm, shares in profiles.items():
        _band(ax, thresholds, shares, arm, style_of[arm])
    ax.set_ylim(0, 1)
    ax.set_xlim(thresholds[0], thresholds[-1])
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    ax.set_xlabel(label)
    ax.set_ylabel("runs above")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def _mean_band(ax: Axes, runs: pd.DataFrame, level: float, frame_skip: int, *, label: Any, style: Style) -> None:
    """The mean over runs at each step, and its interval."""
    means = mean_intervals(runs.sort_values("step"), ["step"], level)
    _band(ax, means["step"].to_numpy() * frame_skip, _columns(means), label, style)
    _steps_axis(ax, frame_skip)


def _columns(frame: pd.DataFrame) -> Band:
    return Band(*(frame[name].to_numpy(dtype=float) for name in Band._fields))


def _band(
    ax: Axes, x: np.ndarray, band: Band, label: Any, style: Style, overlay: tuple[int, int] | None = None
) -> None:
    (line,) = ax.plot(x, band.value, label=label, **style)
    if len(x) == 1:  # no line has one point
        line.set_marker("o")
    ax.fill_between(x, band.low, band.high, color=style["color"], alpha=0.2, linewidth=0)
    if overlay is not None:
        place, count = overlay
        line.set_linestyle(((count - place) * _DASH, (_DASH, (count - 1) * _DASH)))
        line.set(gid=_OVERLAID, fillstyle="none", markersize=line.get_markersize() + 5 * place)  # rings around a dot


def _steps_axis(ax: Axes, frame_skip: int) -> None:
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlim(left=0)
    ax.set_xlabel("steps" if frame_skip == 1 else "frames")
    ax.spines[["top", "right"]].set_visible(False)


def _outlined(axes: np.ndarray) -> np.ndarray:
    """A grid with one legend above, and the name of the horizontal axis below its last row alone."""
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    lines = legend_lines(axes.flat)
    columns = min(len(lines), 6)
    axes.flat[0].figure.legend(lines.values(), lines, loc="outside upper center", ncols=columns, frameon=False)
    return axes


def _short(envs: Iterable[str]) -> list[str]:
    """Names without the family, where all are of the same one."""
    names = list(envs)
    return (
        [name.rpartition("/")[2] for name in names] if len({name.rpartition("/")[0] for name in names}) == 1 else names
    )


def _setting(field: str, value: Any) -> str:
    """A field and its value, with a letter where the paper has one."""
    name = {"metric.alpha": "α", "metric.beta": "β"}.get(field, field)
    return f"{name} = {value:g}" if isinstance(value, Number) else f"{name} = {value}"
