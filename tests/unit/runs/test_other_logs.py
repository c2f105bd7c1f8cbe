"""Logs of other libraries: as the libraries themselves write them, and by hand."""

import sys

import numpy as np
import pandas as pd
import pytest

from mico.evidence.scores import tabulate
from mico.runs.other_logs import read_event_files, read_monitor
from mico.runs.tables import read_scores

HEAD = '#{"t_start": 100.0, "env_id": "CartPole-v1"}\nr,l,t\n'


def test_episodes_of_stable_baselines3_themselves(tmp_path):
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    gymnasium = pytest.importorskip("gymnasium")
    env = monitor.Monitor(gymnasium.make("CartPole-v1"), str(tmp_path / "monitor.csv"))
    env.reset(seed=0)
    returns, ends, step = [], [], 0
    while len(returns) < 6:
        _, _, terminated, truncated, info = env.step(step % 2)
        step += 1
        if terminated or truncated:
            returns.append(info["episode"]["r"])
            ends.append(step)
            env.reset()
    found = read_monitor(tmp_path / "monitor.csv", agent="dqn", seed=3)
    assert found["step"].tolist() == ends
    assert found["score"].tolist() == pytest.approx(returns)
    assert found.iloc[0][["agent", "metric", "env", "seed", "episodes"]].tolist() == [
        "dqn",
        "none",
        "CartPole-v1",
        3,
        1,
    ]


def test_several_environments_are_one_run_in_the_order_of_time(tmp_path):
    (tmp_path / "0.monitor.csv").write_text(HEAD + "1.0,10,5.0\n3.0,30,25.0\n")
    (tmp_path / "1.monitor.csv").write_text(HEAD.replace("100.0", "110.0") + "2.0,20,1.0\n")
    found = read_monitor(tmp_path, agent="ppo", seed=0, metric="mico", env="mine", **{"metric.alpha": 0.1})
    assert found[["step", "score"]].to_numpy().tolist() == [[10, 1], [30, 2], [60, 3]]
    assert found[["env", "metric", "metric.alpha"]].iloc[0].tolist() == ["mine", "mico", 0.1]


def test_scores_are_means_over_the_episodes_of_the_last_tenth(tmp_path):
    lengths, returns = np.full(50, 20), np.arange(50.0)
    rows = "".join(f"{one},{length},{time}\n" for time, (one, length) in enumerate(zip(returns, lengths)))
    (tmp_path / "monitor.csv").write_text(HEAD + rows)
    tables = tabulate(read_scores(read_monitor(tmp_path, agent="dqn", seed=0))).tables
    assert tables["dqn"].to_numpy().tolist() == [[np.mean([45, 46, 47, 48, 49])]]


def test_an_episode_that_is_still_being_written_is_left_out(tmp_path):
    (tmp_path / "monitor.csv").write_text(HEAD + "1.0,10,5.0\n2.0,2")
    assert read_monitor(tmp_path, agent="dqn", seed=0)["step"].tolist() == [10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a file of Stable-Baselines3's Monitor"),
        ("r,l,t\n1,2,3\n", "must be a file of Stable-Baselines3's Monitor"),
        (HEAD + "a,10,5.0\n", "must be a file of Stable-Baselines3's Monitor"),
        (HEAD, "must have whole episodes"),
        (HEAD.replace("CartPole-v1", "") + "1.0,10,5.0\n", "env must be given"),
    ],
)
def test_files_that_are_no_monitors_are_refused(tmp_path, text, message):
    (tmp_path / "monitor.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_monitor(tmp_path / "monitor.csv", agent="dqn", seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there is none"):
        read_monitor(tmp_path / "empty", agent="dqn", seed=0)


def test_scalars_of_event_files(tmp_path):
    pytest.importorskip("tensorboard")
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path))
    for step, value in ((100, 1.0), (200, 2.5), (200, 3.0), (300, 4.0)):
        writer.add_scalar("rollout/ep_rew_mean", value, step)
        writer.add_scalar("train/loss", 9.0, step)
    writer.close()
    found = read_event_files(tmp_path, agent="ppo", seed=1, env="CartPole-v1")
    assert found[["step", "score"]].to_numpy().tolist() == [[100, 1.0], [200, 3.0], [300, 4.0]]
    assert read_scores(found)["value"].tolist() == [1.0, 3.0, 4.0]
    assert read_event_files(tmp_path, agent="p", seed=1, env="e", tag="train/loss")["score"].tolist() == [9.0] * 3
    with pytest.raises(ValueError, match=r"tag must be a scalar of .*: it has rollout/ep_rew_mean, train/loss"):
        read_event_files(tmp_path, agent="p", seed=1, env="e", tag="returns")
    with pytest.raises(NotADirectoryError, match="folder must hold event files"):
        read_event_files(tmp_path / "nothing", agent="p", seed=1, env="e")


def test_event_files_need_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(ModuleNotFoundError, match=r"need TensorBoard: pip install .*\[torch\]"):
        read_event_files(tmp_path, agent="p", seed=0, env="e")


def test_several_runs_are_concatenated(tmp_path):
    tables = []
    for seed in (0, 1):
        (tmp_path / f"{seed}.monitor.csv").write_text(HEAD + f"{seed}.0,10,5.0\n")
        tables.append(read_monitor(tmp_path / f"{seed}.monitor.csv", agent="dqn", seed=seed))
    frame = read_scores(pd.concat(tables, ignore_index=True))
    assert frame["run"].nunique() == 2
