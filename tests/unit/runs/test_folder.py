"""Folders of runs as tidy frames: what is read, what is named instead, and that every reader scores them alike."""

import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from mico.cli import main
from mico.evidence.run_scores import final_scores
from mico.evidence.scores import tabulate, with_arms
from mico.runs.archive import condense, read, write
from mico.runs.folder import read_runs, run_folders
from mico.runs.log import COLUMNS, Log
from mico.runs.sources import read_sources
from mico.runs.tables import read_scores
from written_runs import write_fleet

ROWS = [{"step": 4, "loss": 0.1, "return": 3}, {"step": 8, "loss": 1e-300}]


def add_run(folder, rows, **config):
    folder.mkdir(parents=True)
    config = {"run": folder.name, "agent": "dqn", "metric": "mico", "env": "breakout", "seed": 0, "varied": {}} | config
    (folder / "config.json").write_text(json.dumps(config | {"versions": {"jax": "0"}}))
    Log(folder / "log.jsonl").append(rows)


def test_runs_are_one_tidy_table(tmp_path):
    add_run(tmp_path / "demo/a", [ROWS[0] | {"episodes": 5}, ROWS[1]], seed=1, varied={"metric.alpha": 0.5})
    add_run(tmp_path / "demo/b", [{"step": 4, "loss": math.inf}], seed=2, varied={"metric.alpha": 0.1}, env="pong")
    table = read_runs(tmp_path / "demo")
    assert list(table.columns) == [*COLUMNS, "metric.alpha"]
    assert table["episodes"].dtype == float
    assert table[table["name"] == "return"]["episodes"].tolist() == [5]
    assert table["episodes"].count() == 1  # of returns alone
    table = table[table["name"] != "episodes"]
    assert table.drop(columns="episodes").values.tolist() == [
        ["demo", "a", "dqn", "mico", "breakout", 1, 4, "loss", 0.1, 0.5],
        ["demo", "a", "dqn", "mico", "breakout", 1, 4, "return", 3.0, 0.5],
        ["demo", "a", "dqn", "mico", "breakout", 1, 8, "loss", 1e-300, 0.5],
        ["demo", "b", "dqn", "mico", "pong", 2, 4, "loss", math.inf, 0.1],
    ]
    assert table["value"].dtype == float
    assert table["step"].dtype == table["seed"].dtype == np.int64


def test_several_fleets_one_fleet_and_one_run_are_read_alike(tmp_path, monkeypatch):
    add_run(tmp_path / "one/a", ROWS, varied={"metric.alpha": 0.5})
    add_run(tmp_path / "two/b", ROWS[:1], metric=None, varied={"agent.learning-rate": 1e-3, "metric.alpha": None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_runs(tmp_path)
    assert table.groupby(["experiment", "metric"]).size().to_dict() == {("one", "mico"): 3, ("two", "none"): 2}
    assert list(table.columns) == [*COLUMNS, "agent.learning-rate", "metric.alpha"]
    assert table["metric.alpha"].isna().tolist() == [False] * 3 + [True] * 2
    for folder in (tmp_path / "one", tmp_path / "one/a"):
        assert read_runs(folder)["experiment"].tolist() == ["one"] * 3
    monkeypatch.chdir(tmp_path / "one/a")
    assert read_runs(type(tmp_path)("."))["experiment"].tolist() == ["one"] * 3


def test_what_varied_besides_the_fixed_columns_is_a_column(tmp_path):
    add_run(tmp_path / "out/a", ROWS, seed=3, varied={"seed": 3, "env": "breakout"})
    assert list(read_runs(tmp_path).columns) == list(COLUMNS)


def test_what_is_no_run_is_skipped(tmp_path):
    add_run(tmp_path / "out/good", ROWS)
    for name in ("checkpoints/5", "empty", "other", "begun"):
        (tmp_path / "out" / name).mkdir(parents=True)
    (tmp_path / "out/fleet.json").write_text("{}")
    (tmp_path / "out/begun/config.json").write_text('{"run": "begun"}')
    for name in ("config.json", "log.jsonl"):
        (tmp_path / "out/other" / name).write_text('{"step": 1}')
    with pytest.warns(UserWarning, match=r"^other is left out, for it is damaged: .*config\.json must tell run, agent"):
        assert read_runs(tmp_path / "out")["run"].unique().tolist() == ["good"]


def test_runs_that_a_fleet_names_and_that_lack_a_file_are_told(tmp_path):
    for name in "abcdef":
        add_run(tmp_path / "fleet" / name, ROWS)
    (tmp_path / "fleet" / "fleet.json").write_text(json.dumps({"runs": list("abcdef")}))
    (tmp_path / "fleet" / "a" / "config.json").unlink()
    (tmp_path / "fleet" / "b" / "log.jsonl").unlink()
    for folder in (tmp_path, tmp_path / "fleet"):
        with pytest.warns(UserWarning, match=r"^fleet: 2 of 6 runs are left out, .*config\.json or log\.jsonl: a, b$"):
            assert [run.name for run in run_folders(folder)] == list("cdef")
    (tmp_path / "fleet" / "fleet.json").write_text('{"runs": ')
    with pytest.warns(UserWarning, match=r"fleet\.json is damaged, and what it promises is not known"):
        assert len(run_folders(tmp_path)) == 4


def test_runs_still_going_are_read(tmp_path):
    add_run(tmp_path / "out/new", [])
    assert list(read_runs(tmp_path / "out").columns) == list(COLUMNS)
    add_run(tmp_path / "out/old", ROWS)
    with (tmp_path / "out/old/log.jsonl").open("ab") as file:
        file.write(b'{"step": 12, ')
    table = read_runs(tmp_path / "out")
    assert table["run"].unique().tolist() == ["old"]
    assert table["step"].max() == 8


def test_damaged_runs_are_named_and_the_others_are_read(tmp_path):
    for name in "abc":
        add_run(tmp_path / "out" / name, ROWS)
    (tmp_path / "out/a/config.json").write_text('{"run": "a", "metric": "mico", "env": "pong"}')
    (tmp_path / "out/b/log.jsonl").write_text('{"step": 1}\n{"step"\n{"step": 3}\n')
    with pytest.warns(UserWarning, match="is left out, for it is damaged") as told:
        assert set(read_runs(tmp_path)["run"]) == {"c"}
    first, second = sorted(str(one.message) for one in told)
    assert re.match(r"out/a is left out, for it is damaged: .*config\.json must tell run, agent", first)
    assert re.match(r"out/b is left out, for it is damaged: .*line 2", second)


def test_a_folder_without_runs_is_an_empty_table_and_no_folder_is_an_error(tmp_path):
    table = read_runs(tmp_path)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 0
    with pytest.raises(NotADirectoryError, match="none"):
        read_runs(tmp_path / "none")


def write_fleets(folder, *, steps=100_000, period=1_000):
    """Three fleets, two of which differ in α alone, with rows of few and many episodes, and one run that froze."""
    rng = np.random.default_rng(5)
    for place, described in {
        "plain": {},
        "weak": {"metric": "mico", "alpha": 0.01},
        "strong": {"metric": "mico", "alpha": 0.1},
    }.items():
        write_fleet(folder / place, range(3), lambda seed: [0.0] * (steps // period), **described, period=period)
        for log in (folder / place).glob("*/log.jsonl"):
            rows = []
            for step in range(period, steps + 1, period):
                episodes = int(rng.integers(0, 7))
                rows.append({"step": step, "episodes": episodes, "loss": rng.random()})
                if episodes:
                    rows[-1]["return"] = rng.normal(step / period)
            log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frozen = folder / "plain" / "run-seed2" / "log.jsonl"
    kept = frozen.read_text().splitlines(keepends=True)[:40]
    frozen.write_text("".join(kept) + '{"step": 42000, "not_finite_at": 40321}\n')


def test_every_reader_scores_the_same_runs_alike(tmp_path):
    """Directly, as a table, as an archive and in a report, with two fleets that differ in α."""
    write_fleets(tmp_path / "runs")
    direct = with_arms(read_runs(tmp_path / "runs"))
    expected, lost = final_scores(direct)
    arms = ["dqn", "dqn + mico (metric.alpha=0.01)", "dqn + mico (metric.alpha=0.1)"]
    assert sorted(expected["arm"].unique()) == arms
    assert [*map(str, lost)] == ["dqn: seed 2 of minatar/breakout is left out: it has come to step 40,321 of 100,000"]
    write(condense(tmp_path / "runs", points=50), tmp_path / "small")
    index = ["agent", "metric", "metric.alpha", "env", "seed", "step"]
    logged = direct[direct["name"].isin(("return", "episodes"))].fillna({"metric.alpha": -1.0})
    wide = logged.pivot(index=index, columns="name", values="value").reset_index().rename(columns={"return": "score"})
    sources = {
        "sources": read_sources([tmp_path / "runs"]).frame,
        "archive": read_scores(tmp_path / "small" / "dqn.csv"),
        "rows of the archive": read_scores(read(tmp_path / "small").rows.drop(columns="metric.beta")),
        "table": read_scores(wide.replace({"metric.alpha": -1.0}, np.nan)),
    }
    for name, frame in sources.items():
        frame = frame.drop(columns="metric.beta", errors="ignore")
        found, _ = final_scores(with_arms(frame))
        both = expected.merge(found, on=["arm", "env", "seed"], suffixes=("", " there"), how="outer")
        exact = {"rtol": 1e-12, "atol": 0}
        np.testing.assert_allclose(both["value"], both["value there"], **exact, err_msg=name)
    main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")])
    table = pd.read_csv(tmp_path / "report" / "tables" / "by-environment.csv").set_index("arm")["value"]
    assert table.to_dict() == pytest.approx(expected.groupby("arm")["value"].mean().to_dict(), rel=1e-12)
    tables = tabulate(read_runs(tmp_path / "runs")).tables
    assert {arm: len(one) for arm, one in tables.items()} == dict(zip(arms, (2, 3, 3)))
