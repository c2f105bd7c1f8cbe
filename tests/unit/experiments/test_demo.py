"""The demo on a small grid: its table by loops over pairs, its figure against the metrics themselves."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mico.experiments import demo
from mico.tabular import METRICS, make, solve

CONFIG = demo.Config(problem="mirrored-rooms", discount=0.9)


@pytest.fixture(scope="module")
def grid():
    return make("mirrored-rooms", discount=0.9)


@pytest.fixture(scope="module")
def frame():
    return demo.run(CONFIG)


def values(mdp, on):
    """By plain sweeps: the value of the uniform policy, or the optimal one."""
    value = np.zeros(mdp.num_states)
    for _ in range(400):
        scores = [mdp.reward[:, a] + mdp.discount * (kernel @ value) for a, kernel in enumerate(mdp.kernels)]
        value = np.mean(scores, axis=0) if on == "policy" else np.max(scores, axis=0)
    return value


@pytest.mark.parametrize("name", METRICS)
def test_the_table_equals_loops_over_pairs(grid, frame, name):
    line = demo.table(frame).set_index("metric").loc[name]
    d, value = solve(name, grid.mdp).matrix, values(grid.mdp, METRICS[name].on)
    states = range(grid.mdp.num_states)
    gaps = [d[x, y] - abs(value[x] - value[y]) for x in states for y in states]
    assert line["broken"] == sum(gap < -1e-7 for gap in gaps) / len(gaps)
    assert line["mean_gap"] == pytest.approx(sum(gaps) / len(gaps), abs=1e-7)
    assert 0 <= line["error"] <= CONFIG.tolerance
    assert line["seconds"] > 0


def test_the_table_has_one_line_a_metric(frame):
    assert demo.table(frame)["metric"].tolist() == list(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_the_maps_are_distances_from_the_goal(grid, frame, name):
    cells = frame[frame["metric"] == name]
    row = solve(name, grid.mdp).matrix[grid.layout.goals[0]]
    free = cells[cells["cell"] != "wall"]
    assert len(cells) == grid.layout.cells.size
    assert free["state"].tolist() == list(range(grid.mdp.num_states))
    assert free["distance"].to_numpy() == pytest.approx(row, abs=1e-8)
    assert cells.loc[cells["cell"] == "wall", "distance"].isna().all()
    assert cells.loc[cells["cell"] == "goal", "state"].tolist() == sorted(grid.layout.goals)


def test_the_figure_shows_a_map_for_each_metric(grid, frame):
    figure = demo.plot(frame)
    assert isinstance(figure, Figure)
    shown = {ax.get_title(): ax.images[0].get_array() for ax in figure.axes if ax.images}
    assert list(shown) == list(METRICS)
    for name, image in shown.items():
        expected = grid.layout.paint(solve(name, grid.mdp).matrix[grid.layout.goals[0]])
        assert np.allclose(image.filled(np.nan), expected, atol=1e-8, equal_nan=True)


def test_progress_sees_every_metric():
    seen = []

    def track(names):
        for name in names:
            seen.append(name)
            yield name

    demo.run(CONFIG, track)
    assert seen == list(METRICS)


def test_a_problem_without_a_map_is_an_error():
    with pytest.raises(ValueError, match="problem must have a map with a goal, but 'two-state'"):
        demo.run(demo.Config(problem="two-state"))
