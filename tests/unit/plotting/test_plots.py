"""Plots: the Axes that came in goes out, and shows the data that was given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mico.plotting import plots

MATRIX = np.array([[0.0, 1.5, 2.0], [1.5, 0.25, 3.0], [2.0, 3.0, 0.5]])


@pytest.fixture
def ax():
    return Figure().subplots()


def test_a_figure_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, ax):
    files = plots.save(ax.figure, tmp_path / "figure")
    old = [file.read_bytes() for file in files]
    ax.plot([0, 1], [0, 1])

    def broken(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("mico.runs.files.os.fsync", broken)
        with pytest.raises(OSError, match="No space"):
            plots.save(ax.figure, tmp_path / "figure")
    assert [file.read_bytes() for file in files] == old
    assert set(tmp_path.iterdir()) == set(files)


def test_save_writes_png_and_pdf_and_always_the_same_bytes(tmp_path):
    files = []
    for name in ("one.v1", "two.v1"):
        figure = Figure()
        figure.subplots().imshow(MATRIX)
        files.append(plots.save(figure, tmp_path / name))
    assert [path.name for path in files[0]] == ["one.v1.png", "one.v1.pdf"]
    png, pdf = (path.read_bytes() for path in files[0])
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert [png, pdf] == [path.read_bytes() for path in files[1]]


def test_curves_show_means_and_intervals_over_runs(ax):
    values = {"a": [[1.0, 3.0], [2.0, 2.0]], "b": [[0.0, 0.0], [5.0, 9.0]], "c": [[-20.0, 40.0]]}  # two runs each
    rows = [
        (arm, 10 * step, value) for arm, steps in values.items() for step, runs in enumerate(steps) for value in runs
    ]
    frame = pd.DataFrame(rows, columns=["arm", "step", "value"])
    assert plots.curves(frame, ax, by="arm") is ax
    a, b, c = ax.lines
    assert (a.get_label(), b.get_label(), c.get_label()) == ("a", "b", "c")
    assert (a.get_xdata().tolist(), a.get_ydata().tolist()) == ([0, 10], [2, 2])
    assert b.get_ydata().tolist() == [0, 7]
    t = 12.706  # Student's, for one degree of freedom: the standard error of 1, 3 is 1, that of 5, 9 is 2
    bands = [band.get_paths()[0].get_extents() for band in ax.collections]
    assert (bands[0].y0, bands[0].y1) == pytest.approx((2 - t, 2 + t), rel=1e-3)
    assert (bands[1].y0, bands[1].y1) == pytest.approx((7 - 2 * t, 7 + 2 * t), rel=1e-3)
    assert (bands[2].y0, bands[2].y1) == (-20, 40)  # not 10 ± 30 t: no return was so low or so high
    assert a.get_color() != b.get_color()


def test_curves_say_what_they_show(ax):
    rows = {"metric.alpha": [np.nan, 0.0, 0.1], "step": 0, "name": "return", "value": 1.0}
    plots.curves(pd.DataFrame(rows), ax, by="metric.alpha")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("steps", "return")
    assert ax.get_legend().get_title().get_text() == "metric.alpha"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none", "0", "0.1"]
    ax.clear()
    plots.curves(pd.DataFrame(rows).drop(columns="name"), ax, by="metric.alpha")
    assert ax.get_ylabel() == "value"


def test_curves_take_colours(ax):
    frame = pd.DataFrame({"arm": ["a", "a"], "step": [0, 1], "value": [1.0, 2.0]})
    plots.curves(frame, ax, by="arm", colour_of={"a": "red"})
    assert ax.lines[0].get_color() == "red"
    assert plots.colours(["x", "y"])["y"] == plots.colours(["z", "y"])["y"] != plots.colours(["x"])["x"]


def test_agreement_shows_points_and_the_diagonal_of_a_square(ax):
    groups = {"one": np.array([[0.0, 1.0], [2.0, 3.0]]), "two": np.array([[1.0, 5.0]])}
    assert plots.agreement(groups, ax) is ax
    one, two, diagonal = ax.lines
    assert (one.get_label(), one.get_xdata().tolist(), one.get_ydata().tolist()) == ("one", [0, 2], [1, 3])
    assert (two.get_xdata().tolist(), two.get_ydata().tolist()) == ([1], [5])
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 5]
    assert ax.get_aspect() == 1
