"""Figures of scores: what came in goes out, and shows the numbers that were given."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mico.evidence.statistics import Band, Estimate
from mico.plotting import score_plots
from mico.plotting.plots import PALETTE

T_75 = 2.4142  # Student's quantile of 87.5% for one degree of freedom, tan(3π/8)


@pytest.fixture
def ax():
    return Figure().subplots()


def grid(rows, columns):
    return Figure(layout="constrained").subplots(rows, columns, squeeze=False)


def band_of(ax, index=0):
    """The lowest and the highest point of a band."""
    extents = ax.collections[index].get_paths()[0].get_extents()
    return extents.y0, extents.y1


def points_of(line):
    return list(zip(line.get_xdata().tolist(), line.get_ydata().tolist()))


def legend_of(axes):
    return [text.get_text() for text in axes.flat[0].figure.legends[0].get_texts()]


def curves(values_of, **more):
    """Rows of training curves by (arm, env), a list of two seeds' values at each step."""
    return pd.DataFrame(
        [
            {"arm": arm, "env": env, "seed": seed, "step": 10 * step, "value": value, **more}
            for (arm, env), steps in values_of.items()
            for step, values in enumerate(steps, start=1)
            for seed, value in enumerate(values)
        ]
    )


def test_styles_differ_beyond_the_palette():
    found = score_plots.styles(range(24))
    assert len({(style["color"], style["linestyle"]) for style in found.values()}) == 24
    assert [found[place]["color"] for place in range(6)] == list(PALETTE)
    assert score_plots.styles("ab")["b"] == score_plots.styles("xb")["b"] != score_plots.styles("a")["a"]


def test_dashes_can_be_told_apart_by_their_longest_strokes():
    known = {"--": rcParams["lines.dashed_pattern"], "-.": rcParams["lines.dashdot_pattern"]}
    known |= {":": rcParams["lines.dotted_pattern"], "-": [np.inf]}
    strokes = sorted(max((known[dash] if isinstance(dash, str) else dash[1])[::2]) for dash in score_plots.DASHES)
    assert all(longer > 1.3 * shorter for shorter, longer in pairwise(strokes))


def looks_of(*arms):
    """Colour and dashes of arms that are given as an agent and what is added to it."""
    runs = pd.DataFrame([{"arm": agent + added, "agent": agent} for agent, added in arms for _ in range(2)])
    found = score_plots.arm_styles(runs)
    return {arm: (found["".join(arm)]["color"], found["".join(arm)]["linestyle"]) for arm in arms}


def test_colours_of_several_agents_tell_what_is_added_and_dashes_which_agent_it_is():
    names = ("dqn", "rainbow", "qr-dqn", "iqn", "m-iqn")
    arms = [(agent, added) for agent in names for added in ("", " + mico (paper)", " + mico (chosen)")]
    found = looks_of(*arms[1:])  # the first agent is not there alone
    for place, kinds in enumerate((names, ("", " + mico (paper)", " + mico (chosen)"))):
        looks = [{look[1 - place] for arm, look in found.items() if arm[place] == kind} for kind in kinds]
        assert all(len(one) == 1 for one in looks)
        assert len(set.union(*looks)) == len(kinds)
    assert found["iqn", ""][0] == PALETTE[0]


@pytest.mark.parametrize(
    "arms",
    [
        [("dqn", ""), ("dqn", " + mico"), ("dqn", " + ksme")],
        [("dqn", ""), ("iqn", ""), ("rainbow", "")],
        [(agent, f" + mico (metric.alpha={alpha})") for agent in ("dqn", "iqn") for alpha in range(7)],
        [(f"agent {index}", added) for index in range(6) for added in ("", " + mico")],
    ],
)
def test_arms_of_one_agent_of_one_kind_or_too_many_have_the_palette_in_turn(arms):
    found = list(looks_of(*arms).values())
    assert len(set(found)) == len(found)
    assert tuple(colour for colour, _ in found) == (3 * PALETTE)[: len(found)]


def test_aggregate_lines_show_values_and_bands(ax):
    rows = [("dqn", 10, 1.0, 0.5, 1.5), ("dqn", 20, 2.0, 1.0, 4.0), ("iqn", 10, 3.0, 3.0, 3.0)]
    frame = pd.DataFrame(rows, columns=["arm", "step", "value", "low", "high"])
    assert score_plots.aggregate_lines(frame, ax, label="IQM") is ax
    assert [points_of(line) for line in ax.lines] == [[(10, 1), (20, 2)], [(10, 3)]]
    assert band_of(ax) == (0.5, 4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("steps", "IQM")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["dqn", "iqn"]
    assert ax.lines[0].get_color() != ax.lines[1].get_color()


def lines_of(**arms):
    rows = [(arm, step, value) for arm, values in arms.items() for step, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["arm", "step", "value"]).assign(low=0.0, high=1.0)


def test_lines_on_one_another_are_all_seen(ax):
    """Each of three has a dash of its own in every period, and the first is whole beneath them."""
    score_plots.aggregate_lines(lines_of(a=[0, 1, 1], b=[0, 1, 1], c=[1, 0, 0], d=[0, 1, 1]), ax, label="")
    a, b, c, d = ax.lines
    assert (a.get_linestyle(), c.get_linestyle()) == ("-", "-")
    places = [_painted(line, period=12) for line in (b, d)]
    assert [len(place) for place in places] == [4, 4]
    assert not places[0] & places[1]


def _painted(line, period):
    """The units of a period on which a dashed line is drawn."""
    offset, dashes = line._unscaled_dash_pattern
    assert sum(dashes) == period
    return {unit for unit in range(period) if (unit + offset) % period < dashes[0]}


def test_points_on_one_another_are_a_dot_and_rings(ax):
    score_plots.aggregate_lines(lines_of(a=[1], b=[1], c=[1]), ax, label="")
    sizes = [line.get_markersize() for line in ax.lines]
    assert sizes == sorted(set(sizes))
    assert [line.get_fillstyle() for line in ax.lines] == ["full", "none", "none"]


def test_lines_with_dashes_of_their_own_stay_as_they_are(ax):
    look = {"a": {"color": "r", "linestyle": "-"}, "b": {"color": "g", "linestyle": ":"}}
    score_plots.aggregate_lines(lines_of(a=[0, 1], b=[0, 1]), ax, label="", style_of=look)
    assert [line.get_linestyle() for line in ax.lines] == ["-", ":"]


def test_legends_have_the_line_that_lies_on_no_other():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    score_plots.aggregate_lines(lines_of(a=[0, 1], b=[0, 1]), left, label="")
    score_plots.aggregate_lines(lines_of(a=[0, 1], b=[1, 0]), right, label="")
    found = score_plots.legend_lines([left, right])
    assert list(found) == ["a", "b"]
    assert found["b"] is right.lines[1]
    assert score_plots.legend_lines([left])["b"] is left.lines[1]


def test_a_single_point_is_seen(ax):
    lines = pd.DataFrame({"arm": "a", "step": [100], "value": [1.0], "low": [0.5], "high": [1.5]})
    score_plots.aggregate_lines(lines, ax, label="IQM")
    assert ax.lines[0].get_marker() == "o"


def test_steps_become_frames_and_styles_may_be_given(ax):
    frame = pd.DataFrame({"arm": "dqn", "step": [10, 20], "value": 1.0, "low": 0.0, "high": 2.0})
    style = {"dqn": {"color": "red", "linestyle": ":"}}
    score_plots.aggregate_lines(frame, ax, label="mean", frame_skip=4, style_of=style)
    assert ax.lines[0].get_xdata().tolist() == [40, 80]
    assert ax.get_xlabel() == "frames"
    assert (ax.lines[0].get_color(), ax.lines[0].get_linestyle()) == ("red", ":")


def test_a_training_grid_has_an_axes_for_each_environment():
    frame = curves(
        {
            ("dqn", "atari/b"): [[1.0, 3.0], [5.0, 9.0]],
            ("iqn", "atari/b"): [[0.0, 0.0]],
            ("dqn", "atari/a"): [[4.0, 4.0]],
        }
    )
    axes = grid(2, 2)
    assert score_plots.training_grid(frame, axes) is axes
    assert [ax.get_title() for ax in axes.flat] == ["a", "b", "", ""]
    assert [ax.axison for ax in axes.flat] == [True, True, False, False]
    b = axes[0, 1]
    assert [points_of(line) for line in b.lines] == [[(10, 2), (20, 7)], [(10, 0)]]
    assert band_of(b) == pytest.approx((min(2 - T_75, 7 - 2 * T_75), 7 + 2 * T_75), abs=1e-3)
    assert legend_of(axes) == ["dqn", "iqn"]
    assert to_hex(axes[0, 0].lines[0].get_color()) == to_hex(b.lines[0].get_color())


def test_a_training_grid_takes_levels_frames_and_styles():
    frame = curves({("dqn", "minatar/a"): [[1.0, 3.0]], ("dqn", "atari/a"): [[1.0, 3.0]]})
    axes = grid(1, 2)
    style = {"dqn": {"color": "red", "linestyle": "-"}}
    score_plots.training_grid(frame, axes, level=0.5, frame_skip=4, style_of=style)
    assert band_of(axes[0, 0]) == pytest.approx((1, 3))  # Student's quantile of 75% for one degree of freedom is 1
    assert axes[0, 0].lines[0].get_xdata().tolist() == [40]
    assert axes[0, 0].lines[0].get_color() == "red"
    assert [ax.get_title() for ax in axes.flat] == ["atari/a", "minatar/a"]  # without their families they are the same


def test_grids_that_are_too_small_are_refused():
    frame = curves({("dqn", env): [[1.0, 2.0]] for env in "abc"})
    with pytest.raises(ValueError, match="axes must be one for each of the 3 environments, but are 2"):
        score_plots.training_grid(frame, grid(1, 2))
    with pytest.raises(ValueError, match="level must lie between 0 and 1, but is 75"):
        score_plots.training_grid(frame, grid(1, 3), level=75.0)


def swept():
    """Two values of α, two of β and a baseline on two games; the value tells which is which."""
    parts = [
        curves(
            {(f"dqn + mico ({a}, {b})", env): [[a + b, a + b]]}, metric="mico", **{"metric.alpha": a, "metric.beta": b}
        )
        for a in (0.1, 0.5)
        for b in (1.0, 2.0)
        for env in ("atari/x", "atari/y")
    ]
    base = curves({("dqn", "atari/x"): [[9.0, 9.0]], ("dqn", "atari/y"): [[8.0, 8.0]]}, metric="none")
    return pd.concat([*parts, base], ignore_index=True)


def test_a_sweep_grid_has_a_row_for_alpha_a_line_for_beta_and_the_baseline_in_grey():
    axes = grid(2, 2)
    assert score_plots.sweep_grid(swept(), axes) is axes
    shown = [[[line.get_ydata()[0] for line in ax.lines] for ax in row] for row in axes]
    assert shown == [[[9, 1.1, 2.1], [8, 1.1, 2.1]], [[9, 1.5, 2.5], [8, 1.5, 2.5]]]
    grey, *others = (to_hex(line.get_color()) for line in axes[1, 1].lines)
    assert grey[1:3] == grey[3:5] == grey[5:7]
    assert others == list(PALETTE[:2])
    assert legend_of(axes) == ["dqn", "β = 1", "β = 2"]
    assert [ax.get_title() for ax in axes[0]] == ["x", "y"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["α = 0.1", "α = 0.5"]


def test_a_sweep_grid_of_other_fields_levels_and_frames():
    axes = grid(2, 2)
    score_plots.sweep_grid(swept(), axes, row="metric.beta", line="metric.alpha", frame_skip=4)
    assert [line.get_ydata()[0] for line in axes[1, 0].lines] == [9, 2.1, 2.5]
    assert axes[0, 0].lines[0].get_xdata().tolist() == [40]
    assert axes[1, 0].get_xlabel() == "frames"
    wide = swept().assign(value=lambda frame: frame["value"] + 2 * frame["seed"])  # 1 on either side of the mean
    for level, half in ((0.5, 1.0), (0.75, T_75)):
        axes = grid(2, 2)
        score_plots.sweep_grid(wide, axes, level=level)
        assert band_of(axes[0, 0]) == pytest.approx((10 - half, 10 + half), abs=1e-3)
    words = (
        swept().rename(columns={"metric.alpha": "metric.pairs"}).replace({"metric.pairs": {0.1: "all", 0.5: "some"}})
    )
    axes = grid(2, 2)
    score_plots.sweep_grid(words, axes, row="metric.pairs")
    assert axes[0, 0].get_ylabel() == "metric.pairs = all"


def test_sweeps_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"axes must be 2 × 2, but their shape is \(2, 3\)"):
        score_plots.sweep_grid(swept(), grid(2, 3))
    other = swept().replace({"arm": {"dqn + mico (0.1, 1.0)": "iqn + mico"}})
    both = pd.concat([swept(), other[other["arm"] == "iqn + mico"]], ignore_index=True)
    with pytest.raises(ValueError, match=r"one arm to a line, but have dqn \+ mico \(0.1, 1.0\) and iqn \+ mico"):
        score_plots.sweep_grid(both, grid(2, 2))


def test_improvement_bars_are_sorted_and_counted(ax):
    percent = pd.Series({"atari/a": -5.0, "atari/b": 1000.0, "atari/c": 0.0, "atari/d": 20.0})
    assert score_plots.improvement_bars(percent, ax) is ax
    assert [bar.get_height() for bar in ax.patches] == [1000, 20, 0, -5]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["b", "d", "c", "a"]
    assert ax.get_title() == "mean +253.8%, 2 of 4 improved"
    assert ax.get_yscale() == "symlog"
    colours = [to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert colours == [PALETTE[0], PALETTE[0], PALETTE[1], PALETTE[1]]


@pytest.mark.parametrize(
    ("largest", "least", "height"),
    [(2500, -220, 3.8), (2500, -220, 12), (320, -7.9, 3.8), (320, -0.3, 3.8), (0.3, -80, 3.8), (90, 60, 3.8)],
)
def test_large_improvements_have_ticks_on_both_sides_and_none_over_another(largest, least, height):
    """Of sixty games with long names, which leave the bars little room."""
    figure = Figure(figsize=(15.9, height), layout="constrained")
    percent = pd.Series(np.linspace(largest, least, 60), index=[f"montezuma-revenge-{game}" for game in range(60)])
    ax = score_plots.improvement_bars(percent, figure.subplots())
    FigureCanvasAgg(figure).draw()
    low, high = ax.get_ylim()
    labels = [label for label, tick in zip(ax.get_yticklabels(), ax.get_yticks()) if low <= tick <= high]
    boxes = [label.get_window_extent() for label in labels]
    assert all(upper.y0 > lower.y1 for lower, upper in pairwise(boxes))
    ticks = [float(label.get_text().replace("−", "-").rstrip("%")) for label in labels]
    assert ticks == sorted(ticks)
    assert 0 in ticks
    assert (min(ticks) < 0) == (least < 0)
    assert max(ticks) > 0
    assert max(ticks) > largest / 10


def test_a_tall_figure_has_more_ticks_than_a_low_one():
    counts = []
    for height in (2.4, 12):
        figure = Figure(figsize=(6, height), layout="constrained")
        ax = score_plots.improvement_bars(pd.Series({"a": 2500.0, "b": -220.0}), figure.subplots())
        FigureCanvasAgg(figure).draw()
        counts.append(len(ax.get_yticks()))
    assert counts[1] > counts[0]


def test_small_improvements_are_to_scale_with_whole_numbers(ax):
    score_plots.improvement_bars(pd.Series({"a": 12.9, "b": -6.2}), ax)
    assert ax.get_yscale() == "linear"
    ticks = ax.get_yticks()
    assert (ticks == ticks.round()).all()
    assert (ticks < 0).any()


def test_interval_bars_show_dots_and_ends(ax):
    estimates = {"dqn": Estimate(1.0, 0.5, 2.0), "one seed": Estimate(3.0, np.nan, np.nan)}
    assert score_plots.interval_bars(estimates, ax, label="IQM") is ax
    bar, dot, _, lone = ax.lines
    assert (points_of(bar), points_of(dot), points_of(lone)) == ([(0.5, 0), (2, 0)], [(1, 0)], [(3, 1)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["dqn", "one seed"]
    low, high = ax.get_ylim()
    assert low > high  # the first is on top
    assert ax.get_xlabel() == "IQM"
    score_plots.interval_bars({"dqn": estimates["dqn"]}, ax, label="IQM", style_of={"dqn": {"color": "red"}})
    assert [line.get_color() for line in ax.lines[-2:]] == ["red", "red"]


def test_profile_lines_show_shares_and_bands(ax):
    thresholds = np.array([0.0, 1.0, 2.0])
    shares = Band(np.array([1.0, 0.5, 0.25]), np.array([0.9, 0.25, 0.0]), np.array([1.0, 0.75, 0.5]))
    style = {"dqn": {"color": "red", "linestyle": "--"}}
    assert score_plots.profile_lines({"dqn": shares}, thresholds, ax, label="score τ", style_of=style) is ax
    assert points_of(ax.lines[0]) == [(0, 1), (1, 0.5), (2, 0.25)]
    assert band_of(ax) == (0, 1)
    assert ax.lines[0].get_color() == "red"
    assert (ax.get_xlabel(), ax.get_ylim(), ax.get_xlim()) == ("score τ", (0, 1), (0, 2))
