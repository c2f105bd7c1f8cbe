"""`mico collect`: runs and small files into small files, again and again; what is no source is one line."""

import pandas as pd
import pytest

from mico.cli import main
from mico.commands import report_writing
from mico.results.condensed import read
from written_runs import write_fleet


def collect(*argv):
    main(["collect", *map(str, argv)])


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        collect(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_runs_and_files_add_up(tmp_path, capsys):
    for agent, seeds in (("dqn", [0, 1]), ("iqn", [0])):
        write_fleet(tmp_path / "runs" / agent, seeds, lambda seed: [1.0, 2.0, 3.0, 4.0], agent=agent)
    write_fleet(tmp_path / "other" / "fleet", [2], lambda seed: [5.0, 6.0, 7.0, 8.0])
    collect(tmp_path / "runs", "--out", tmp_path / "one", "--points", "2")
    shown = capsys.readouterr().out
    assert f"{tmp_path / 'one' / 'dqn.csv'}: 2 runs" in shown
    assert f"{tmp_path / 'one' / 'iqn.csv'}: 1 runs" in shown
    assert read(tmp_path / "one").rows["score"].tolist() == [1.5, 3.5] * 3
    collect(tmp_path / "other", "--out", tmp_path / "two", "--points", "2")
    collect(tmp_path / "two", "--out", tmp_path / "one")
    found = read(tmp_path / "one")
    assert found.rows.groupby("agent")["seed"].nunique().to_dict() == {"dqn": 3, "iqn": 1}
    assert [record["fleet"] for record in found.records] == ["dqn", "fleet", "iqn"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*.*")}
    collect(tmp_path / "two", tmp_path / "other", "--out", tmp_path / "one", "--points", "2")
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*.*")} == before


def test_curves_have_fifty_points_unless_told(tmp_path):
    write_fleet(tmp_path / "runs" / "fleet", [0], lambda seed: [float(n) for n in range(100)])
    collect(tmp_path / "runs", "--out", tmp_path / "small")
    assert len(pd.read_csv(tmp_path / "small" / "dqn.csv")) == 50


def test_logs_with_few_rows_are_scored_as_the_runs_themselves(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report_writing, "drawings", lambda study: iter(()))
    for seed in (0, 1):
        write_fleet(tmp_path / "runs" / str(seed), [seed], lambda seed: [1.0, 2.0, 3.0, 4.0 + seed], period=500)
    collect(tmp_path / "runs", "--out", tmp_path / "small")
    ends = []
    for source in (tmp_path / "runs", tmp_path / "small" / "dqn.csv", tmp_path / "small"):
        main(["report", str(source), "--out", str(tmp_path / "report")])
        ends.append(pd.read_csv(tmp_path / "report" / "tables" / "by-environment.csv")["value"].tolist())
        assert "note" not in capsys.readouterr().out
    assert ends == [[pytest.approx((10 + 11) / 8)]] * 3


def test_arms_that_the_files_cannot_tell_apart_are_refused(tmp_path, capsys):
    for error in ("huber", "squared"):
        write_fleet(tmp_path / "runs" / error, [0], lambda seed: [1.0], metric="mico", error=error)
    assert "metric.error of dqn with mico" in refused(capsys, tmp_path / "runs", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_runs_that_have_just_begun_are_named(tmp_path, capsys):
    write_fleet(tmp_path / "runs" / "fleet", [0, 1], lambda seed: [1.0], steps=100_000)
    collect(tmp_path / "runs", "--out", tmp_path / "small")
    shown = capsys.readouterr()
    lines = [f"mico: fleet/run-seed{seed} is left out: it is at step 1,000 of 100,000" for seed in (0, 1)]
    assert [line.partition(",000, ")[0] + ",000" for line in shown.err.splitlines()] == lines
    assert shown.out == ""


def test_what_is_no_source_is_refused(tmp_path, capsys):
    assert "SOURCE is missing" in refused(capsys, "--out", tmp_path / "x")
    assert "nowhere is no folder" in refused(capsys, tmp_path / "nowhere", "--out", tmp_path / "x")
    (tmp_path / "empty").mkdir()
    assert "empty holds no run" in refused(capsys, tmp_path / "empty", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
