"""The whole demo, made short: what it prints and leaves behind, also the second time."""

import signal

import pandas as pd
import pytest

from mico import cli
from mico.deep import load
from mico.experiments import learning
from mico.runs.folder import run_folders
from mico.tabular import METRICS

pytestmark = pytest.mark.usefixtures("quick_compilation")

FIGURES = ("mirrored-rooms", "learning", "learnt-metric")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    (folder / "runs" / "mine").mkdir(parents=True)
    (folder / "runs" / "mine" / "notes.txt").write_text("keep")
    return folder


@pytest.mark.parametrize("time", ["first", "second"])
def test_demo(out, capsys, time):
    cli.main(["demo", "--quick", "--out", str(out)])
    printed = capsys.readouterr().out
    figures = {f"{name}.{ending}" for name in FIGURES for ending in ("png", "pdf", "csv")}
    assert {path.name for path in out.iterdir()} == {
        *figures, "metrics.csv", "correlations.csv", "summary.csv", "runs"
    }  # fmt: skip
    for name in (*METRICS, "minatar/breakout", "garnet", "released-with-td"):
        assert f" {name}" in printed
    assert str(out) in printed.splitlines()[-1]
    assert (out / "runs" / "mine" / "notes.txt").read_text() == "keep"


def test_runs_of_others_are_not_replaced(tmp_path, capsys):
    theirs = tmp_path / "runs" / "learning" / "mine" / "log.jsonl"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("keep")
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["demo", "--quick", "--out", str(tmp_path)])
    assert f"no demo made, but has {tmp_path / 'runs' / 'learning'}" in capsys.readouterr().err
    assert theirs.read_text() == "keep"


def test_stopped_while_it_trains(tmp_path, monkeypatch, capsys):
    train = learning.run
    monkeypatch.setattr(
        learning, "run", lambda config, out, _: train(config, out, lambda progress: signal.raise_signal(signal.SIGINT))
    )
    with pytest.raises(SystemExit, match=r"^130$"):
        cli.main(["demo", "--quick", "--out", str(tmp_path)])
    assert capsys.readouterr().err == "mico: stopped; the same command begins the demo anew\n"


def test_the_table_at_the_end_says_what_the_files_say(out):
    summary = pd.read_csv(out / "summary.csv").set_index(["where", "what"])
    correlations = pd.read_csv(out / "correlations.csv")
    for line in correlations.itertuples():
        shown = summary.loc[("garnet", f"r of {line.loss}, {line.pairs}")]
        assert shown.tolist() == pytest.approx([line.pearson, line.lowest, line.highest])
    assert summary.loc[("mirrored-rooms", "share of pairs with |ΔV| > U"), "value"] == 0
    rows = pd.read_csv(out / "learning.csv")
    late = rows[(rows["name"] == "return") & (rows["step"] == rows["step"].max())]
    for arm, returns in late.groupby("arm"):
        assert summary.loc[("minatar/breakout", f"return of {arm}"), "value"] == pytest.approx(returns["value"].mean())


def test_the_runs_are_there_to_be_loaded(out):
    found = {path.name: load(path) for path in run_folders(out / "runs" / "learning")}
    assert sorted(found) == [f"dqn-mico-alpha{alpha}-seed{seed}" for alpha in (0.0, 0.01) for seed in (0, 1)]
    assert {run.step for run in found.values()} == {800}
    assert {path.parent.name for path in run_folders(out / "runs" / "learnt-metric")} == {
        "released", "released-with-td"
    }  # fmt: skip
