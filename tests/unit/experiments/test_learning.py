"""Learning curves: arms, gains and intervals by hand, and a small fleet."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mico.deep.config.run import Schedule
from mico.experiments import learning

pytestmark = pytest.mark.usefixtures("quick_compilation")

ARMS = ("DQN", "DQN + MICo, α = 0.5")


@pytest.fixture
def frame():
    """Two arms, two seeds, five rows; the last alone is of the last fifth."""
    returns = {("DQN", 0): [1, 1, 1, 1, 2], ("DQN", 1): [1, 1, 1, 1, 6]}
    returns |= {(ARMS[1], 0): [1, 1, 1, 2, 5], (ARMS[1], 1): [1, 1, 1, 1, 7]}
    rows = [
        {"arm": arm, "seed": seed, "step": 10 * (number + 1), "name": name, "value": float(value + (name == "q"))}
        for (arm, seed), values in returns.items()
        for number, value in enumerate(values)
        for name in ("return", "q")
    ]
    return pd.DataFrame(rows).assign(env="minatar/breakout")


def test_gains_are_over_the_same_seed_at_the_same_step(frame):
    gains = learning.gains(frame).pivot(index="seed", columns="step", values="value")
    assert gains.to_numpy().tolist() == [[0, 0, 0, 1, 3], [0, 0, 0, 0, 1]]


def test_the_table_is_of_the_last_fifth(frame):
    table = learning.table(frame).set_index("arm")
    t = 12.706  # Student's for one degree of freedom; two numbers a, b have a standard error of |a − b| / 2
    assert table.loc["DQN", ["score", "score_low", "score_high"]].tolist() == pytest.approx(
        [4, 4 - 2 * t, 4 + 2 * t], rel=1e-3
    )
    assert table.loc[ARMS[1], "score"] == 6
    assert table.loc[ARMS[1], ["gain", "gain_low", "gain_high"]].tolist() == pytest.approx([2, 2 - t, 2 + t], rel=1e-3)
    assert np.isnan(table.loc["DQN", "gain"])
    assert table["seeds"].tolist() == [2, 2]


def test_the_figure_shows_returns_and_gains_in_the_same_colours(frame):
    figure = learning.plot(frame)
    assert isinstance(figure, Figure)
    left, right = figure.axes
    lines = {line.get_label(): line for line in left.lines}
    assert tuple(lines) == ARMS
    assert lines["DQN"].get_ydata().tolist() == [1, 1, 1, 1, 4]
    assert right.lines[0].get_ydata().tolist() == [0, 0, 0, 0.5, 2]
    assert right.lines[0].get_color() == lines[ARMS[1]].get_color() != lines["DQN"].get_color()
    assert left.get_title() == "minatar/breakout"


def test_a_small_fleet(tmp_path):
    schedule = Schedule(learning_starts=100, log_period=100)
    config = learning.Config("mdp/two-state", schedule=schedule, alphas=(0.5, 0.0), seeds=(3, 4), steps=400)
    heard = []
    frame = learning.run(config, tmp_path / "runs", heard.append)
    assert set(zip(frame["arm"], frame["metric.alpha"], frame["seed"])) == {
        (arm, alpha, seed) for arm, alpha in zip(ARMS, (0.0, 0.5)) for seed in (3, 4)
    }
    assert sorted(frame["step"].unique()) == [100, 200, 300, 400]
    assert (heard[-1].step, heard[-1].steps) == (400, 400)
    first = frame[(frame["name"] == "return") & (frame["step"] == 100)].set_index(["arm", "seed"])["value"]
    for seed in (3, 4):  # before learning starts the arms of a seed are one
        assert first[ARMS[0], seed] == first[ARMS[1], seed]


def test_a_comparison_needs_a_baseline():
    with pytest.raises(ValueError, match="alphas must have a 0 among them"):
        learning.Config(alphas=(0.1, 0.5))
