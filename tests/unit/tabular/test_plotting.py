"""Pictures of distances: what is drawn is what was given, and colours show what there is to see."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mico.tabular import make, plotting, solve
from mico.tabular.problems import Layout

MATRIX = np.array([[0.0, 1.5, 2.0], [1.5, 0.25, 3.0], [2.0, 3.0, 0.5]])
MAP = np.array([[np.nan, 1.0, 2.0], [3.0, np.nan, 4.0]])
LEVELS = 10.0 ** np.arange(-11, 1)  # twelve numbers of which eleven lie in the lowest tenth


@pytest.fixture
def ax():
    return Figure().subplots()


def bar_of(ax):
    return ax.images[0].colorbar


def test_plot_matrix_shows_the_matrix(ax):
    assert plotting.plot_matrix(MATRIX, ax, label="U") is ax
    assert np.array_equal(ax.images[0].get_array(), MATRIX)
    assert bar_of(ax).ax.get_ylabel() == "U"
    assert bar_of(ax).mappable is ax.images[0]


def test_plot_matrix_puts_names_on_both_axes(ax):
    plotting.plot_matrix(MATRIX, ax, names=("a", "b", "c"))
    for axis in (ax.xaxis, ax.yaxis):
        assert [tick.get_text() for tick in axis.get_ticklabels()] == ["a", "b", "c"]
        assert axis.get_ticklocs().tolist() == [0, 1, 2]


def test_plot_matrix_leaves_out_names_that_cannot_be_read(ax):
    plotting.plot_matrix(np.zeros((99, 99)), ax, names=tuple(f"state {i}" for i in range(99)))
    assert len(ax.get_xticks()) < 20


def test_plot_map_shows_the_map_and_masks_its_walls(ax):
    assert plotting.plot_map(MAP, ax, label="d") is ax
    shown = ax.images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), np.isnan(MAP))
    assert np.array_equal(shown.compressed(), [1, 2, 3, 4])
    assert bar_of(ax).ax.get_ylabel() == "d"


def test_walls_have_a_colour_that_no_value_has(ax):
    plotting.plot_map(MAP, ax)
    colours = ax.images[0].get_cmap()
    distance = np.abs(colours(np.linspace(0, 1, 256)) - colours.get_bad()).max(axis=1)
    assert distance.min() > 0.2


def test_plot_map_marks_rows_and_columns(ax):
    plotting.plot_map(MAP, ax, marks={(1, 0): "*", (0, 2): "o"})
    found = {(line.get_ydata()[0], line.get_xdata()[0]): line.get_marker() for line in ax.lines}
    assert found == {(1, 0): "*", (0, 2): "o"}


def test_marks_are_a_circle_at_the_origin_and_stars_at_goals():
    layout = Layout(np.array([[0, 1, -1], [2, 3, 4]]), goals=(1, 4))
    assert plotting.map_marks(layout, 3) == {(1, 1): "o", (0, 1): "*", (1, 2): "*"}
    assert plotting.map_marks(layout) == {(0, 1): "*", (1, 2): "*"}


def naive_crowded(values):
    """For each value, count those up to a twentieth of the range above it, and the different ones among them."""
    values = np.asarray(values, dtype=float).ravel()
    values = values[np.isfinite(values)]
    if len(values) < 2 or values.max() == values.min():
        return False
    span = values.max() - values.min()
    best = max(([w for w in values if v <= w <= v + span / 20] for v in values), key=len)
    return len(best) > 0.4 * len(values) and len({round((v - min(best)) / span * 1e5) for v in best}) >= 10


@pytest.mark.parametrize(
    ("values", "crowded"),
    [
        (np.linspace(0, 1, 50), False),
        (LEVELS, False),  # too few that differ by more than a millionth of the range
        (np.concatenate([np.linspace(0, 0.04, 30), np.linspace(0.1, 1, 44)]), True),
        (np.concatenate([np.linspace(0, 0.04, 30), np.linspace(0.1, 1, 46)]), False),  # just less than two fifths
        (np.concatenate([np.linspace(0.5, 0.54, 30), [0.0, 1.0]]), True),  # in the middle of the range
        (np.concatenate([np.linspace(0.96, 1, 30), [0.0]]), True),  # at its upper end
        (np.concatenate([np.zeros(90), np.linspace(0, 1, 10)]), False),  # equal values cannot be told apart
        (np.concatenate([np.linspace(0, 0.04, 30), [1.0, np.nan, np.inf]]), True),
        (np.full(9, 3.0), False),
        ([], False),
        ([1.0], False),
    ],
)
def test_linear_colours_hide_two_fifths_of_values_in_a_twentieth_of_the_range(values, crowded):
    assert plotting.is_crowded(values) is crowded
    assert naive_crowded(values) is crowded
    assert plotting.is_by_rank(plotting.colour_norm(values)) is crowded


def test_four_rooms_is_drawn_by_rank_where_its_left_half_would_be_one_colour():
    rooms = make("four-rooms", discount=0.99)
    reduced, worst = solve("reduced-mico", rooms), solve("bisimulation", make("mirrored-rooms"))
    for draw in (reduced.plot, lambda ax: reduced.plot_from(62, ax)):
        ax = draw(Figure().subplots())
        assert plotting.is_by_rank(ax.images[0].norm)
        assert bar_of(ax).ax.get_ylabel() == "distance (colours by rank)"
    ax = worst.plot(Figure().subplots())
    assert not plotting.is_by_rank(ax.images[0].norm)
    assert bar_of(ax).ax.get_ylabel() == "distance"
    assert plotting.is_by_rank(worst.plot(Figure().subplots(), colours="rank").images[0].norm)
    assert not plotting.is_by_rank(reduced.plot(Figure().subplots(), colours="linear").images[0].norm)


def test_colours_by_rank_rise_evenly_with_the_rank_and_are_equal_for_equals():
    norm = plotting.colour_norm([5.0, 1.0, 1.0, 1.0 + 1e-14, 2.0, np.nan], "rank")
    assert np.asarray(norm(np.array([1.0, 2.0, 5.0]))) == pytest.approx([0.0, 2 / 3, 1.0])
    assert float(norm(1.0 + 1e-14)) == pytest.approx(0.0, abs=1e-9)
    assert np.asarray(norm.inverse(np.array([0.0, 2 / 3, 1.0]))) == pytest.approx([1.0, 2.0, 5.0])
    masked = norm(np.ma.masked_invalid([1.0, np.nan]))
    assert np.ma.getmaskarray(masked).tolist() == [False, True]


def test_the_bar_of_ranks_is_marked_with_the_values_that_have_them(ax):
    plotting.plot_matrix(np.logspace(-8, 0, 25).reshape(5, 5), ax, colours="rank")
    ax.figure.canvas.draw()
    labels = [tick.get_text() for tick in bar_of(ax).ax.get_yticklabels()]
    assert labels == ["1e-08", "1e-06", "0.0001", "0.01", "1"]


def test_pictures_that_share_a_norm_have_one_bar():
    figure = Figure()
    axes = figure.subplots(1, 2, squeeze=False)
    norm = plotting.colour_norm([1.0, 4.0, 9.0], "linear")
    for number, one in enumerate(axes.flat):
        plotting.plot_map(MAP * (1 + number), one, label=None, colours=norm)
        assert one.images[0].colorbar is None
        assert one.images[0].get_clim() == (1.0, 9.0)
    bar = plotting.add_shared_colour_bar(figure, axes, norm, "d")
    assert bar.ax.get_ylabel() == "d"
    assert (bar.vmin, bar.vmax) == (1.0, 9.0)


def test_colours_that_do_not_exist_are_refused(ax):
    with pytest.raises(ValueError, match="colours must be 'auto', 'linear' or 'rank', got 'log'"):
        plotting.plot_matrix(MATRIX, ax, colours="log")  # pyright: ignore[reportArgumentType]


def test_a_row_is_bars_or_points(ax):
    assert plotting.plot_row(np.array([0.0, 2.0, 1.0]), ax, names=("a", "b", "c"), origin=0) is ax
    assert [bar.get_height() for bar in ax.patches] == [0, 2, 1]
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    many = Figure().subplots()
    plotting.plot_row(np.arange(31.0), many, origin=3)
    assert not many.patches
    assert many.collections[0].get_offsets().tolist() == [[x, x] for x in range(31)]
