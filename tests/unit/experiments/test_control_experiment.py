"""Continuous control, of made-up runs: means by hand, what is drawn, what is refused."""

import math

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mico.experiments.control import Config, plot, run, table
from mico.runs.archive import COLUMNS, Condensed, write


@pytest.fixture
def results(tmp_path):
    """Ten points of a curve: without MICo 10, 20, … 100, with it twice that, and a run that was cut short."""

    def lines(metric, seed, scores, env="control/cartpole-swingup"):
        about = {"agent": "sac", "metric": metric, "env": env, "seed": seed}
        return [about | {"step": 10 * (at + 1), "score": score, "episodes": at + 1} for at, score in enumerate(scores)]

    rising = [10 * (at + 1) for at in range(10)]
    made = lines("none", 0, rising) + lines("mico", 0, [2 * score for score in rising])
    made += lines("mico", 1, [200 + 2 * score for score in rising]) + lines("mico", 2, [1000.0] * 9)
    made += lines("none", 0, [5.0] * 10, "control/humanoid-run") + lines("ksme", 0, [7.0] * 10)
    for arm, rows in {"pixels": made, "states": lines("none", 0, [8.0] * 10)}.items():
        write(Condensed(pd.DataFrame(rows, columns=list(COLUMNS)), []), tmp_path / arm)
    return str(tmp_path)


def test_the_table_by_hand(results):
    found = table(run(Config(results=results))).set_index(["task", "arm", "algorithm"])
    assert list(found.index) == [
        ("cartpole-swingup", "pixels", "SAC"),
        ("cartpole-swingup", "pixels", "SAC + MICo"),
        ("cartpole-swingup", "pixels", "SAC + MICo"),
        ("cartpole-swingup", "states", "SAC"),
        ("humanoid-run", "pixels", "SAC"),
    ]
    alone, short, both, states, other = (line for _, line in found.iterrows())
    # Over episodes: Σ 10 k·k / Σ k = 10·385/55 = 70, with MICo 140 and 340, whose deviation is 200/√2.
    assert alone[["runs", "steps", "all", "last tenth", "paper"]].tolist() == [1, 100, "70", "100", 600]
    assert both[["runs", "all", "last tenth", "paper"]].tolist() == [2, "240 ± 141", "300 ± 141", 710]
    assert short[["runs", "steps", "all", "last tenth"]].tolist() == [1, 90, "1000", "1000"]
    assert states["all"] == "8"
    assert other["all"] == "5"
    assert math.isnan(states["paper"]), "the paper's are from pixels"
    assert math.isnan(other["paper"])


def test_all_is_drawn(results):
    figure = plot(run(Config(results=results)))
    swingup, states, humanoid = figure.axes
    assert swingup.get_title() == "cartpole-swingup, pixels\n1 run of SAC; 3 runs of SAC + MICo"
    curves = {line.get_label(): line.get_xydata().tolist() for line in swingup.lines}
    assert curves["SAC"] == [[10.0 * k, 10.0 * k] for k in range(1, 11)]
    # Its mean ends where the run that was cut short does.
    mean = [[10.0 * k, pytest.approx((20 * k + 200 + 20 * k + 1000) / 3)] for k in range(1, 10)]
    assert curves["SAC + MICo"] == mean
    dotted = sorted(line.get_ydata()[0] for line in swingup.lines if line.get_linestyle() == ":")
    assert dotted == [600, 710]
    for ax, title in ((states, "cartpole-swingup, states"), (humanoid, "humanoid-run, pixels")):
        assert ax.get_title() == f"{title}\n1 run of each"
        assert not [line for line in ax.lines if line.get_linestyle() == ":"]


@pytest.mark.parametrize(
    ("tasks", "entries"),
    [((), ["SAC", "SAC + MICo", "the paper's curve at its end"]), (("humanoid-run",), ["SAC"])],
)
def test_one_legend_beside_the_panels_has_all_that_is_drawn(results, tasks, entries):
    figure = plot(run(Config(tasks=tasks, results=results)))
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == entries
    dotted = [line.get_linestyle() == ":" for line in legend.get_lines()]
    assert dotted == ["paper" in entry for entry in entries]
    assert not any(ax.get_legend() or legend.get_window_extent().overlaps(ax.get_tightbbox()) for ax in figure.axes)


def test_tasks_are_chosen(results):
    assert set(run(Config(tasks=("humanoid-run",), results=results))["task"]) == {"humanoid-run"}


def test_many_panels_are_in_rows(results):
    frame = run(Config(results=results))
    many = pd.concat([frame.assign(task=f"task-{index}") for index in range(2)])
    figure = plot(many)
    assert figure.get_size_inches() == pytest.approx([3 * 5.6, 2 * 4.0])
    assert [ax.axison for ax in figure.axes] == [True] * 4 + [False] * 2


def test_what_is_refused(tmp_path, results):
    with pytest.raises(ValueError, match=r"tasks must all be different, but are \('a', 'a'\)"):
        Config(tasks=("a", "a"))
    with pytest.raises(ValueError, match=r"results must be a folder, but is '.*nowhere'"):
        Config(results=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"results must have whole episodes of finger-spin, .* but .* has none"):
        run(Config(tasks=("finger-spin", "humanoid-run"), results=results))
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "pixels"):  # without arms, and one of them itself
        with pytest.raises(
            ValueError, match=r"of the control suite, in a folder of `mico collect` for each arm, .* none"
        ):
            run(Config(results=str(folder)))


def test_runs_that_cannot_be_told_apart_and_without_an_episode_are_refused(tmp_path):
    line = {"agent": "sac", "metric": "mico", "env": "control/cartpole-swingup", "seed": 3, "step": 10, "score": 1.0}
    line |= {"episodes": 1}
    lines = pd.DataFrame([line | {"metric.alpha": alpha} for alpha in (0.1, 0.2)], columns=list(COLUMNS))
    write(Condensed(lines, []), tmp_path / "two" / "pixels")
    with pytest.raises(ValueError, match=r"several of task cartpole-swingup, arm pixels, metric mico, seed 3"):
        run(Config(results=str(tmp_path / "two")))
    write(Condensed(lines[:1].assign(score=None, episodes=0), []), tmp_path / "none" / "pixels")
    with pytest.raises(ValueError, match="must have whole episodes of the control suite"):
        run(Config(results=str(tmp_path / "none")))
