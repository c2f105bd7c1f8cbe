"""Plots: the Axes that came in goes out, and shows the data that was given."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mico.results import plots

MATRIX = np.array([[0.0, 1.5, 2.0], [1.5, 0.25, 3.0], [2.0, 3.0, 0.5]])
MAP = np.array([[np.nan, 1.0, 2.0], [3.0, np.nan, 4.0]])


@pytest.fixture
def ax():
    return Figure().subplots()


def bar_of(ax):
    return ax.images[0].colorbar


def test_heat_map_shows_the_matrix(ax):
    assert plots.heat_map(MATRIX, ax, label="U") is ax
    assert np.array_equal(ax.images[0].get_array(), MATRIX)
    assert bar_of(ax).ax.get_ylabel() == "U"
    assert bar_of(ax).mappable is ax.images[0]


def test_heat_map_puts_names_on_both_axes(ax):
    plots.heat_map(MATRIX, ax, names=("a", "b", "c"))
    for axis in (ax.xaxis, ax.yaxis):
        assert [tick.get_text() for tick in axis.get_ticklabels()] == ["a", "b", "c"]
        assert axis.get_ticklocs().tolist() == [0, 1, 2]


def test_heat_map_leaves_out_names_that_cannot_be_read(ax):
    plots.heat_map(np.zeros((99, 99)), ax, names=tuple(f"state {i}" for i in range(99)))
    assert len(ax.get_xticks()) < 20


def test_map_view_shows_the_map_and_masks_its_walls(ax):
    assert plots.map_view(MAP, ax, label="d") is ax
    shown = ax.images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), np.isnan(MAP))
    assert np.array_equal(shown.compressed(), [1, 2, 3, 4])
    assert bar_of(ax).ax.get_ylabel() == "d"


def test_walls_have_a_colour_that_no_value_has(ax):
    plots.map_view(MAP, ax)
    colours = ax.images[0].get_cmap()
    distance = np.abs(colours(np.linspace(0, 1, 256)) - colours.get_bad()).max(axis=1)
    assert distance.min() > 0.2


def test_map_view_marks_rows_and_columns(ax):
    plots.map_view(MAP, ax, marks={(1, 0): "*", (0, 2): "o"})
    found = {(line.get_ydata()[0], line.get_xdata()[0]): line.get_marker() for line in ax.lines}
    assert found == {(1, 0): "*", (0, 2): "o"}


def test_save_writes_png_and_pdf_and_always_the_same_bytes(tmp_path):
    files = []
    for name in ("one.v1", "two.v1"):
        figure = Figure()
        plots.heat_map(MATRIX, figure.subplots())
        files.append(plots.save(figure, tmp_path / name))
    assert [path.name for path in files[0]] == ["one.v1.png", "one.v1.pdf"]
    png, pdf = (path.read_bytes() for path in files[0])
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert [png, pdf] == [path.read_bytes() for path in files[1]]
