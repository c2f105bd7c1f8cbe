"""Atari against Dopamine, of made-up runs: iterations and tests by hand, what is drawn, what is refused."""

import math

import numpy as np
import pandas as pd
import pytest

from mico.experiments.dopamine import PUBLISHED, Config, Published, iterations, plot, run, table
from mico.runs.archive import COLUMNS, Condensed, write


def write_arm(folder, scores, *, env="atari/breakout", agent="dqn", episodes=(1, 3), metric="none"):
    """Runs of 125,000 steps a point, with few and many episodes in turn."""
    lines = [
        {"agent": agent, "metric": metric, "env": env, "seed": seed, "step": 125_000 * (place + 1), "score": score}
        | {"episodes": episodes[place % 2]}
        for seed, own in enumerate(scores)
        for place, score in enumerate(own)
    ]
    write(Condensed(pd.DataFrame(lines, columns=list(COLUMNS)), []), folder)


@pytest.fixture
def results(tmp_path):
    write_arm(tmp_path / "plain", [[2.0, 6.0, 8.0], [0.0, 4.0, 6.0], [1.0, 9.0]])
    write_arm(tmp_path / "other", [[1.0, 1.0]])
    write_arm(tmp_path / "third", [[7.0, 7.0]], metric="mico")
    write_arm(tmp_path / "fourth", [[7.0, 7.0]], env="atari/pong")  # which is not compared with DQN
    return str(tmp_path)


def test_iterations_are_means_over_episodes(results):
    found = iterations(run(Config(results=results))).query("arm == 'plain'")
    assert found["score"].tolist() == [5.0, 8.0, 3.0, 6.0, 7.0]  # (2 + 3·6) / 4 of the first run
    assert found["steps"].tolist() == [250_000, 125_000, 250_000, 125_000, 250_000]
    assert found["episodes"].tolist() == [4, 1, 4, 1, 4]


def test_the_table_by_hand(results):
    found = table(run(Config(results=results))).set_index(["arm", "iteration"])
    assert list(found.index) == [("other", 0), ("plain", 0), ("plain", 1)]
    line = found.loc["plain", 0]
    assert line[["game", "runs", "ours", "Dopamine"]].tolist() == ["breakout", 3, "5.00 ± 2.00", "1.81 ± 0.10"]
    # Welch: t = 3.19 / √(4/3 + .10²/5), with (almost) two degrees of freedom, whose distribution is elementary.
    statistic = (5 - PUBLISHED["breakout"].means[0]) / math.sqrt(4 / 3 + 0.09**2 / 4)
    assert line["p"] == pytest.approx(1 - statistic / math.sqrt(2 + statistic**2), rel=0.01)
    assert math.isnan(found.loc[("plain", 1), "p"]), "half an iteration is not tested"
    assert math.isnan(found.loc[("other", 0), "p"]), "one run has no deviation"
    assert found.loc[("other", 0), "ours"] == "1.00"


def test_published_numbers_are_as_precise_as_p_is_printed():
    """Half a unit of their last digit is less than a hundredth of the spread of runs."""
    for published in PUBLISHED.values():
        for mean, spread in zip(published.means, published.spreads):
            for number in (mean, spread):
                assert 0.5 * 10.0 ** -len(str(number).partition(".")[2]) < 0.01 * spread


def test_published_spreads_are_of_a_whole_population():
    numbers = np.array([1.5, 2.0, 2.5, 3.5, 7.0])
    published = Published("dqn", (0.0,), (numbers.std(),))
    assert published.deviations == pytest.approx([numbers.std(ddof=1)])


def test_runs_that_were_cut_short_do_not_take_the_whole_ones_with_them(tmp_path):
    write_arm(tmp_path / "plain", [[2.0, 6.0], [0.0, 4.0], [9.0]])
    found = table(run(Config(results=str(tmp_path)))).set_index("steps")
    assert found["runs"].to_dict() == {125_000: 1, 250_000: 2}
    assert found["ours"].to_dict() == {125_000: "9.00", 250_000: "4.00 ± 1.41"}
    assert found["p"].notna().to_dict() == {125_000: False, 250_000: True}


def test_all_is_drawn(results):
    (ax,) = plot(run(Config(results=results))).axes
    labels = ax.get_legend_handles_labels()[1]
    assert labels == ["Dopamine, 5 runs", "ours, 1 run, other", "ours, 3 runs, plain"]
    assert ax.get_title() == "DQN on Breakout"
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [line.get_xydata().tolist() for line in dots] == [[[125_000, 1]], [[125_000, 5], [125_000, 3], [125_000, 7]]]


def test_what_is_refused(tmp_path, results):
    with pytest.raises(ValueError, match="games must be of breakout, freeway, pong, but has 'tennis'"):
        Config(games=("tennis",))
    with pytest.raises(ValueError, match="all of them different"):
        Config(games=("pong", "pong"))
    with pytest.raises(ValueError, match=r"results must be a folder, but is '.*nowhere'"):
        Config(results=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"results must have runs of rainbow on freeway without .* but .* has none"):
        run(Config(games=("freeway",), results=results))
