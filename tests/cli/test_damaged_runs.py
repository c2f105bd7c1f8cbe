"""Runs and tables of others with any damage: a report names them and goes on, and every command says one line."""

import json
import os
import re

import pytest

from mico import cli
from mico.cli import report_writing
from written_runs import write_run

DIGITS = "9" * 400
LOGS = {
    "step-text": '{"step": "x", "return": 1}',
    "step-list": '{"step": [1], "return": 1}',
    "step-fraction": '{"step": 1.5, "return": 1}',
    "step-infinite": '{"step": 1e999, "return": 1}',
    "step-negative": '{"step": -1, "return": 1}',
    "step-of-300-digits": f'{{"step": {DIGITS[:300]}, "return": 1}}',
    "step-of-5000-digits": f'{{"step": {"9" * 5000}, "return": 1}}',
    "return-object": '{"step": 1, "return": {}}',
    "return-of-400-digits": f'{{"step": 4, "return": {DIGITS}}}',
    "return-null": '{"step": 4, "return": null}',
    "frozen-text": '{"step": 4, "not_finite_at": "NaN"}',
    "frozen-infinite": '{"step": 4, "not_finite_at": 1e999}',
    "episodes-infinite": '{"step": 4, "return": 1, "episodes": 1e999}',
    "deep": '{"step": 4, "return": ' + "[" * 5000 + "]" * 5000 + "}",
}
ENTRIES = {
    "seed-of-40-digits": {"seed": 10**40},
    "seed-true": {"seed": True},
    "steps-of-30-digits": {"steps": 10**30},
    "surrogate": {"env": "e\ud800", "agent": "\ud800"},
    "escape": {"env": "\x1b]0;PWN\x07"},
    "long": {"agent": "a" * 70_000},
    "settings-metric-number": {"settings": {"metric": 5}},
    "settings-agent-name-list": {"settings": {"agent": {"name": ["x"]}}},
    "settings-network-number": {"settings": {"network": 5}},
    "settings-of-400-digits": {"settings": {"agent": {"name": "dqn", "width": int(DIGITS)}}},
    "settings-surrogate": {"settings": {"agent": {"name": "dqn", "encoder": "\udfff"}}},
    "varied-list": {"varied": {"metric.alpha": [1]}},
    "starts-step-text": {"starts": [{"step": "x"}]},
    "starts-versions-list": {"starts": [{"step": 0, "versions": ["x"]}]},
}
CONFIGS = {"deep-config": '{"run":' * 4000, "array-config": "[]", "not-utf-8": b"\xff\xfe", "empty": ""}


@pytest.fixture
def runs(tmp_path):
    """A good run, one whose settings a file of an environment may have, and one to be damaged."""
    write_run(tmp_path / "runs/good", [1.0, 2.0])
    return tmp_path / "runs"


def damage(runs, kind):
    run = write_run(runs / "bad", [3.0, 4.0], seed=1)
    config = json.loads((run / "config.json").read_text())
    if kind in LOGS:
        (run / "log.jsonl").write_text(LOGS[kind] + "\n")
    elif kind in CONFIGS:
        content = CONFIGS[kind]
        (run / "config.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        entries = ENTRIES[kind]
        if "settings" in entries:
            entries = {"settings": config["settings"] | entries["settings"]}
        (run / "config.json").write_text(json.dumps(config | entries))


@pytest.mark.parametrize("kind", [*LOGS, *ENTRIES, *CONFIGS])
def test_one_damaged_run_takes_no_report_down(runs, tmp_path, monkeypatch, capsys, kind):
    """Several of these once ended as OverflowError, TypeError or AttributeError, or as an exit code for all runs."""
    monkeypatch.setattr(report_writing, "drawings", lambda study: iter(()))
    damage(runs, kind)
    cli.main(["report", str(runs), "--resamples", "100", "--out", str(tmp_path / "report")])
    printed = capsys.readouterr()
    assert "bad is left out, for it is damaged:" in " ".join(printed.out.split())
    assert printed.err == ""
    assert len((tmp_path / "report/tables/cells.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("kind", [*LOGS, *ENTRIES, *CONFIGS, "alpha"])
def test_a_damaged_run_is_one_line_of_collect(runs, tmp_path, capsys, kind):
    if kind == "alpha":
        write_run(runs / "bad", [3.0], seed=1, metric="mico", alpha="much")
    else:
        damage(runs, kind)
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["collect", str(runs), "--points", "2", "--out", str(tmp_path / "small")])
    assert re.fullmatch(r"mico: [^\n]*bad/(config\.json|log\.jsonl)[^\n]*\n", capsys.readouterr().err)
    assert not [*(tmp_path / "small").glob("*")]


def test_steps_beyond_those_of_the_run_are_refused_by_collect(runs, tmp_path, capsys):
    write_run(runs / "bad", [3.0, 4.0], seed=1, steps=1000)
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["collect", str(runs), "--points", "2", "--out", str(tmp_path / "small")])
    assert "bad/log.jsonl has step 2,000, beyond the 1,000 of its run" in capsys.readouterr().err


def test_a_pipe_in_place_of_a_table_is_named(runs, tmp_path, monkeypatch, capsys):
    """To read one waits for a writer, for ever."""
    monkeypatch.setattr(report_writing, "drawings", lambda study: iter(()))
    cli.main(["collect", str(runs), "--points", "2", "--out", str(runs)])
    (runs / "dqn.csv").unlink()
    os.mkfifo(runs / "dqn.csv")
    cli.main(["report", str(runs), "--resamples", "100", "--out", str(tmp_path / "report")])
    assert "dqn.csv is left out, for it is damaged: it is no regular file" in capsys.readouterr().out


@pytest.mark.parametrize("env", [{"name": "mine.npz"}, {"name": "mdp/garnet", "mirrored": True}])
def test_settings_that_name_no_file_or_no_option_are_shown_as_they_are(runs, tmp_path, monkeypatch, capsys, env):
    monkeypatch.setattr(report_writing, "drawings", lambda study: iter(()))
    config = json.loads((runs / "good/config.json").read_text())
    config["settings"]["env"] = env
    (runs / "good/config.json").write_text(json.dumps(config))
    cli.main(["report", str(runs), "--resamples", "100", "--out", str(tmp_path / "report")])
    assert "left out" not in capsys.readouterr().out


TABLES = {
    "score-of-400-digits": ("a,e,0,10,@\n", r"numbers that float64 can hold as score, but one is 9{80}, in row 1"),
    "score-of-5000-digits": (f"a,e,0,10,{'9' * 5000}\n", r"score"),
    "step-of-19-digits": ("a,e,0,9223372036854775807,1e308\n", r"numbers from 0 to 2⁵³ as step"),
    "step-negative": ("a,e,0,-1,1\n", r"numbers from 0 to 2⁵³ as step, but one is -1"),
    "agent-escape": ("\x1b]0;PWN\x07,e,0,1,1\n", r"names of at most 500 letters.* as agent, but one is '\\x1b\]0;PWN"),
    "agent-long": ("a" * 70_000 + ",e,0,1,1\n", r"names of at most 500 letters"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_that_nothing_can_hold_are_refused(tmp_path, capsys, kind):
    rows, message = TABLES[kind]
    (tmp_path / "theirs.csv").write_text("agent,env,seed,step,score\n" + rows.replace("@", DIGITS))
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["report", str(tmp_path / "theirs.csv"), "--out", str(tmp_path / "report")])
    assert re.fullmatch(rf"mico: [^\n]*theirs\.csv must have [^\n]*{message}[^\n]*\n", capsys.readouterr().err)
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    "record",
    [
        {"agent": "dqn", "env": "e", "steps": 5, "settings": {"none": {}}, "runs": [{}]},
        {"agent": "dqn", "env": [], "steps": 5, "settings": {"none": {}}, "runs": [5]},
        {"agent": "dqn", "env": "e", "steps": 5, "settings": [1], "runs": [{}]},
        {"agent": "dqn", "env": "e", "settings": {"none": {}}, "runs": []},
    ],
)
def test_records_of_an_archive_that_are_none_are_named(runs, tmp_path, capsys, record):
    small = tmp_path / "small"
    cli.main(["collect", str(runs), "--points", "2", "--out", str(small)])
    (small / "dqn.json").write_text(json.dumps({"fleets": [record]}))
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["collect", str(small), "--out", str(tmp_path / "again")])
    assert re.fullmatch(r"mico: [^\n]*dqn\.json does not say where runs are from[^\n]*\n", capsys.readouterr().err)
