"""The comparison runs at toy size, goes on where it was stopped, and its summary says what the runs say."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from mico.runs.log import COLUMNS, Log, read_rows

PATH = Path(__file__).parents[2] / "examples" / "sb3_comparison.py"
DONE, STOPPED, *_ = RUNS = [
    f"cartpole-{arm}-1400-seed{seed}" for arm in ("absorbing", "bootstrap", "plain") for seed in (0, 1)
]
STEPS = range(70, 1401, 70)
FLAGS = ["--steps=1400", "--seeds=2", "--tasks", "cartpole", "--arms", "absorbing", "bootstrap"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A comparison that goes on: one run was done, with returns of 7, and one was stopped while it was written."""
    folder = tmp_path_factory.mktemp("comparison")
    for name in (DONE, STOPPED):
        (folder / name).mkdir()
        Log(folder / name / "log.jsonl").append([{"step": step, "return": 7.0} for step in STEPS])
    varied = {"metric.alpha": 0.01, "metric.beta": 0.1, "metric.terminals": "absorbing"}
    about = {"run": DONE, "agent": "dqn", "metric": "mico", "env": "CartPole-v1", "seed": 0, "varied": varied}
    (folder / DONE / "config.json").write_text(json.dumps(about))
    command = [sys.executable, str(PATH), f"--out={folder}", *FLAGS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    ran = [line.removeprefix("done: ") for line in done.stdout.splitlines() if line.startswith("done: ")]
    assert sorted(ran) == [name for name in RUNS if name != DONE]
    return folder


def test_every_evaluation_is_a_tidy_row(out):
    frame = pd.read_csv(out / "returns.csv", keep_default_na=False)
    assert list(frame.columns) == [*COLUMNS, "metric.alpha", "metric.beta", "metric.terminals"]
    assert sorted(frame["run"].unique()) == RUNS
    assert all(own["step"].tolist() == list(STEPS) for _, own in frame.groupby("run"))
    assert frame[["name", "env"]].drop_duplicates().to_numpy().tolist() == [["return", "CartPole-v1"]]
    seven = frame["value"].eq(7).groupby(frame["run"]).all()
    assert seven[seven].index.tolist() == [DONE]
    first = frame[(frame["step"] == 70) & (frame["run"] != DONE)].groupby("seed")["value"].nunique()
    assert (first == 1).all()  # arms of one seed start as the same network, in the same episodes


def test_losses_are_logged_beside_returns(out):
    """Of the metric in its own runs alone, and once there has been an update."""
    for name in RUNS[1:]:
        first, *_, last = read_rows(out / name / "log.jsonl")
        metric = set() if "plain" in name else {"metric/loss", "metric/distance", "metric/target", "metric/norm"}
        assert first.keys() == {"step", "return"}
        assert last.keys() == {"step", "return", "train/loss"} | metric


def test_the_summary_has_every_arm(out):
    returns, found = (pd.read_csv(out / f"{name}.csv") for name in ("returns", "summary"))
    label = "dqn + mico (metric.terminals={})".format
    arms = {"dqn": "plain", label("absorbing"): "absorbing", label("bootstrap"): "bootstrap"}
    assert [*zip(found["training"], found["arm"])] == [(when, arm) for when in ("end", "all") for arm in arms]
    assert set(found["seeds"]) == {2}
    means = {}
    for when, since in (("end", 1050), ("all", 0)):
        for arm, key in arms.items():
            mine = returns[(returns["run"].str.startswith(f"cartpole-{key}")) & (returns["step"] > since)]
            means[when, arm] = mine["value"].mean()
    for row in found.itertuples():
        assert row.mean == pytest.approx(means[row.training, row.arm])
        assert row.mean_low <= row.mean <= row.mean_high
        if row.arm != "dqn":
            assert row.difference == pytest.approx(row.mean - means[row.training, "dqn"])
            assert 0 <= row.improvement_low <= row.improvement <= row.improvement_high <= 1
    assert (out / "curves.png").stat().st_size > 10_000
