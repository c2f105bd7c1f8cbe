"""`mico collect`: runs and small files into small files, again and again; what is no source is one line."""

import json

import pandas as pd
import pytest

from mico.cli import main, report_writing
from mico.runs.archive import read
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
    assert f"{tmp_path / 'one' / 'iqn.csv'}: 1 run," in shown
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
    assert ends == [[4.5]] * 3


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
    assert "SOURCE must be a folder, got" in refused(capsys, tmp_path / "nowhere", "--out", tmp_path / "x")
    (tmp_path / "empty").mkdir()
    assert "empty holds no run" in refused(capsys, tmp_path / "empty", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("agent", ["../settings", "{tmp}/settings"])
def test_an_agent_that_is_a_path_overwrites_nothing(tmp_path, capsys, agent):
    """What others called their agent is the name of a file: settings.json beside OUT stays as it is."""
    agent = agent.replace("{tmp}", str(tmp_path))
    fleet = write_fleet(tmp_path / "theirs" / "fleet", [0], lambda seed: [1.0, 2.0], agent=agent)
    (tmp_path / "settings.json").write_text("mine")
    assert "must be a plain name" in refused(capsys, tmp_path / "theirs", "--out", tmp_path / "coll")
    assert (tmp_path / "settings.json").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["settings.json", "theirs"]
    config = json.loads((fleet / "run-seed0" / "config.json").read_text())
    assert config["agent"] == agent


def test_counts_are_read_as_people_type_them(tmp_path, capsys):
    write_fleet(tmp_path / "runs" / "fleet", [0], lambda seed: [1.0] * 4)
    collect(tmp_path / "runs", "--out", tmp_path / "small", "--points", "0.002k")
    assert len(read(tmp_path / "small").rows) == 2
    assert "points must be from 1 to 1,000,000, got 1000000000" in refused(
        capsys, tmp_path / "runs", "--out", tmp_path / "x", "--points", "1e9"
    )
