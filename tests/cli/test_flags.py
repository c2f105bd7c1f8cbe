"""Mistakes in flags: one line that names the flag, exit code 2, and nothing left behind."""

import pytest

from mico import cli

TRAIN = ["train", "--env", "mdp/four-rooms", "--out", "out"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([*TRAIN, "--steps", "1.5"], "--steps: count must be a whole number"),
        ([*TRAIN, "--steps", "abc"], "got 'abc'"),
        ([*TRAIN, "--steps"], "--steps"),
        ([*TRAIN, "--steps", "100", "--agent.lerning-rate", "1"], "did you mean --agent.learning-rate?"),
        ([*TRAIN, "--steps", "100", "--agent.error", "hubber"], "--agent.error must be one of squared, huber"),
        ([*TRAIN, "--steps", "100", "--seeds", "a"], "--seeds"),
        (["train", "--steps", "100"], "--out must be given"),
        (["report"], "--out must be given"),
        (["report", "results.csv", "--bogus", "3"], "unknown option --bogus"),
        (["collect"], "--out must be given"),
        (["metric", "four-rooms", "--tolerence", "1", "--out", "out"], "did you mean --tolerance?"),
        (["metric", "four-rooms", "--tolerance"], "--tolerance must have a value"),
        (["watch", "run", "--fps", "x", "--out", "a.gif"], "--fps"),
        (["sweep", "--jobs", "2", "--out", "out"], "unknown option --jobs"),
        (["experiment", "value-gap", "--ns", "2"], "unknown option --ns"),
        (["demo", "now"], "unknown argument now"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(argv, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")  # a narrow terminal wraps nothing of it
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert printed.err.startswith("mico: ")
    assert printed.err.count("\n") == 1
    assert says in printed.err
    assert not any(tmp_path.iterdir())
