"""Learnt against exact distances: the table and the figure by hand, and a small fleet."""

import numpy as np
import pandas as pd
import pytest

from mico.deep import load
from mico.deep.metric_losses import MICo
from mico.experiments import learnt_metric
from mico.tabular import make, solve

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def frame():
    """Three states; seed 0 learns 2U + 1 and seed 1 learns −U, but for one self-distance."""
    exact = np.array([[0.0, 1, 2], [1, 3, 4], [2, 4, 6]])
    x, y = (axis.ravel() for axis in np.indices((3, 3)))
    parts = []
    for seed, learnt in ((0, 2 * exact + 1), (1, -exact)):
        learnt[2, 2] = 100
        pairs = {"x": x, "y": y, "exact": exact.ravel(), "learnt": learnt.ravel()}
        parts.append(pd.DataFrame({"loss": "mine", "seed": seed} | pairs))
    return pd.concat(parts, ignore_index=True)


def test_the_table_tells_pairs_of_one_state_from_pairs_of_two(frame):
    two, one = learnt_metric.table(frame).to_dict("records")
    assert (two["loss"], two["pairs"], one["pairs"]) == ("mine", "two states", "one state")
    assert [two[name] for name in ("pearson", "lowest", "highest", "spearman")] == pytest.approx([0, -1, 1, 0])
    errors = [np.sqrt((4 + 9 + 25) / 3), np.sqrt((4 + 16 + 64) / 3)]
    assert two["error"] == pytest.approx(np.mean(errors))
    assert one["spearman"] == pytest.approx((1 + 0.5) / 2)  # ranks 0 1 2, and 1 0 2
    by_hand = [np.corrcoef([0, 3, 6], [1, 7, 100])[0, 1], np.corrcoef([0, 3, 6], [0, -3, 100])[0, 1]]
    assert one["pearson"] == pytest.approx(np.mean(by_hand))


def test_the_figure_has_a_panel_for_each_loss(frame):
    both = pd.concat([frame, frame.assign(loss="other", learnt=frame["exact"])])
    figure = learnt_metric.plot(both)
    assert [ax.get_title() for ax in figure.axes] == ["mine", "other"]
    two, one, diagonal = figure.axes[1].lines
    assert two.get_label() == "two states, r = 1.00"
    assert one.get_label() == "one state, r = 1.00"
    assert sorted(two.get_xdata()) == sorted(two.get_ydata()) == [1, 1, 2, 2, 4, 4]
    assert sorted(one.get_xdata()) == [0, 0, 3, 3, 6, 6]
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 6]


def test_a_small_fleet_leaves_out_absorbing_states(tmp_path):
    losses = {"one": MICo(alpha=1.0), "other": MICo(alpha=0.5)}
    options = {"discount": 0.7, "goal": 2}
    config = learnt_metric.Config("mirrored-rooms", options, losses, seeds=(5,), steps=1_200)
    heard = []
    frame = learnt_metric.run(config, tmp_path, heard.append)
    assert sum(progress.step == 1_200 for progress in heard) == 2
    mdp = make("mirrored-rooms", **options).mdp
    states = [state for state in range(mdp.num_states) if state != 2]
    assert sorted(frame["x"].unique()) == sorted(frame["y"].unique()) == states
    exact = solve("mico", mdp, reward="sampled").matrix
    for name in losses:
        part = frame[frame["loss"] == name]
        assert len(part) == len(states) ** 2
        assert part["exact"].to_numpy() == pytest.approx(exact[part["x"], part["y"]])
        trained = load(tmp_path / name / "dqn-mico-seed5")
        assert (trained.settings.agent.discount, trained.settings.schedule.epsilon) == (0.7, 1.0)
        seen = np.eye(mdp.num_states, dtype=bool)
        for line in part.iloc[[0, 1, 40, 80]].itertuples():
            assert line.learnt == pytest.approx(float(trained.distance(seen[line.x], seen[line.y])), rel=1e-5)
