"""`mico experiment`: files, settings by flags, refusing and resuming, and a kill in the middle."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import pandas as pd
import pytest

from made_results import made_rows, write_results
from mico.cli import experiment, main
from mico.cli.text import PlainConsole
from mico.experiments import EXPERIMENTS, counterexamples, minatar_results

GAMES = ("breakout", "asterix")
FILES = {"config.json", *(f"counterexamples{end}" for end in (".csv", ".png", ".pdf", "-table.csv"))}


def stopped(capsys, *argv):
    """The line that a refused command says."""
    with pytest.raises(SystemExit) as stop:
        main(["experiment", *map(str, argv)])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an experiment that nobody stopped."""
    out = tmp_path_factory.mktemp("whole")
    main(["experiment", "counterexamples", "--workers", "1", "--out", str(out)])
    return out


def test_all_files_and_the_table_on_the_terminal(tmp_path, capsys):
    main(["experiment", "counterexamples", "--discount", "0.5", "--out", str(tmp_path / "x")])
    assert {path.name for path in (tmp_path / "x").iterdir()} == FILES
    shown = capsys.readouterr().out
    assert "no partial metric" in shown
    expected = counterexamples.run(counterexamples.Config(discount=0.5))
    found = pd.read_csv(tmp_path / "x" / "counterexamples.csv")
    pd.testing.assert_series_equal(found["computed"], expected["computed"], rtol=0, atol=1e-12)
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["config"] == {"discount": 0.5, "k": 2.0}


def test_every_experiment_is_listed(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["experiment"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in EXPERIMENTS)


def test_bad_input_is_one_line(tmp_path, capsys):
    out = ("--out", tmp_path / "x")
    assert "did you mean counterexamples?" in stopped(capsys, "counterexample", *out)
    assert "discount must lie in [0, 1), but is 1.0" in stopped(capsys, "counterexamples", "--discount", 1, *out)
    assert "workers must be at least 1, but is 0" in stopped(capsys, "counterexamples", "--workers", 0, *out)
    assert not (tmp_path / "x").exists()


def test_another_folder_is_refused_and_resuming_names_what_differs(whole, tmp_path, capsys):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    argv = ["experiment", "counterexamples", "--out", str(tmp_path)]
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "--resume continues" in stopped(capsys, *argv[1:])
    line = stopped(capsys, *argv[1:], "--resume", "--k", 3)
    assert "k is 3.0, but 2.0 in the experiment that --resume continues" in line
    (tmp_path / "cells").mkdir()  # as if it had been killed before these went
    (tmp_path / "cells" / "0.csv").write_text("x\n1\n")
    main([*argv, "--resume"])
    assert "All was measured before" in capsys.readouterr().out
    assert first == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("text", ["{", "[1]", '{"config": 3}'])
def test_a_damaged_configuration_is_named(tmp_path, capsys, text):
    (tmp_path / "config.json").write_text(text)
    line = stopped(capsys, "counterexamples", "--out", tmp_path, "--resume")
    assert f"{tmp_path / 'config.json'} is not the configuration of an experiment" in line


@pytest.mark.parametrize("file", ["counterexamples.csv", "cells/0.csv"])
@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_data_that_no_configuration_tells_of_is_nobodys(tmp_path, capsys, file, more):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("a,b\n1,2\n")
    line = stopped(capsys, "counterexamples", "--out", tmp_path, *more)
    assert f"{tmp_path / file} is there, but no config.json says what it is of" in line
    assert (tmp_path / file).read_text() == "a,b\n1,2\n"
    assert not (tmp_path / "config.json").exists()


def test_results_without_their_configuration_are_not_taken_for_others(whole, tmp_path, capsys):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").unlink()
    assert "counterexamples.csv is there" in stopped(capsys, "counterexamples", "--k", 3, "--out", tmp_path)


def test_no_word_of_the_table_is_cut(whole, tmp_path, capsys, monkeypatch):
    """In a pipe rows are as long as they are; a narrow terminal shows the same letters in more rows."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    shown = {}
    for terminal in (False, True):
        narrow = partial(PlainConsole, force_terminal=terminal, width=40, color_system=None)
        monkeypatch.setattr(experiment, "PlainConsole", narrow)
        main(["experiment", "counterexamples", "--resume", "--out", str(tmp_path)])
        shown[terminal] = capsys.readouterr().out.splitlines()[1:-1]  # the table, between two sentences
    row = "no discount U(x, y) of two states, by the equation as printed 2.00 1.82 slip"
    assert row in [" ".join(row.split()) for row in shown[False]]
    assert max(map(len, shown[True])) == 40
    letters = [Counter("".join("".join(rows).replace("─", " ").split())) for rows in shown.values()]
    assert letters[0] == letters[1]


def test_a_damaged_cell_is_named(whole, tmp_path, capsys):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    argv = ["counterexamples", "--out", str(tmp_path)]
    (tmp_path / "counterexamples.csv").unlink()
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "0.csv").write_text("")
    assert f"{tmp_path / 'cells' / '0.csv'} is no table" in stopped(capsys, *argv, "--resume")


def test_what_cannot_be_measured_leaves_the_folder_free(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    out = ["--out", tmp_path / "out"]
    assert "results must have runs of qr-dqn on pong" in stopped(
        capsys, "dopamine", "--quick", "--results", tmp_path / "empty", *out
    )
    main(["experiment", "dopamine", "--quick", *map(str, out)])
    assert (tmp_path / "out" / "dopamine.png").exists()


def test_a_first_measurement_that_fails_leaves_no_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(counterexamples, "run", lambda config, evaluate: evaluate(int, ["x"]))
    line = stopped(capsys, "counterexamples", "--workers", "1", "--out", tmp_path / "out")
    assert "invalid literal for int()" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_at_some_cell_it_goes_on_to_the_same_files(whole, tmp_path, how):
    cut = tmp_path / "cut"
    command = [sys.executable, "-m", "mico.cli", "experiment", "counterexamples", "--workers", "1", "--out"]
    process = subprocess.Popen([*command, cut], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list(cut.glob("cells/*.csv")) and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(process.pid, how)
    _, said = process.communicate()
    if process.returncode:  # it may have been done already
        assert (process.returncode, "--resume continues" in said) == (
            (130, True) if how == signal.SIGINT else (-9, False)
        )
    subprocess.run([*command, cut, "--resume"], check=True, capture_output=True)
    for name in FILES:
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


def test_further_tables_and_figures_and_what_an_experiment_says_of_itself(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(minatar_results, "PACKAGED", tmp_path / "none")
    made = [made_rows("dqn", game, (0, 1), [(0.01, 0.1)], steps=4_000, points=10) for game in ("breakout", "asterix")]
    write_results(tmp_path / "results" / "study", made)
    words = "--games breakout asterix freeway --agents dqn --seeds 0 1 --steps 4000 --points 10 --phases study"
    out = tmp_path / "out"
    main(["experiment", "minatar", *words.split(), "--results", str(tmp_path / "results"), "--out", str(out)])
    shown = capsys.readouterr().out
    assert "study-dqn-freeway-a0.01b0.1: 4 of 4 runs are missing" in shown
    assert "No heat maps over α and β: there are no runs of the sweep." in shown
    assert {path.name for path in (out / "tables").iterdir()} == {
        *("aggregates.csv", "by-environment.csv", "comparisons.csv", "differences.csv", "left-out.csv")
    }
    stems = {path.stem for path in (out / "figures").iterdir()} - {"captions"}
    assert {"curves", "intervals", "representations-dqn", "improvement-dqn-mico-paper"} <= stems
    assert {path.name for path in (out / "figures").iterdir()} == {
        *(f"{stem}.{end}" for stem in stems for end in ("png", "pdf", "csv")),
        "captions.md",
    }
    captions = (out / "figures" / "captions.md").read_text().splitlines()
    assert {line.split("**")[1] for line in captions} == stems
    assert not logging.getLogger("mico.experiments").handlers


def test_an_experiment_that_reads_results_reads_them_again_whatever_the_manner_of_training(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(minatar_results, "PACKAGED", tmp_path / "none")
    games = {game: made_rows("dqn", game, (0, 1), [(0.01, 0.1)], steps=4_000, points=10) for game in GAMES}
    words = f"minatar --games {' '.join(GAMES)} --agents dqn --seeds 0 1 --steps 4000 --points 10 --phases study"
    argv = ["experiment", *words.split(), "--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")]
    for game, more in zip(GAMES, [["--seconds", "300"], ["--resume", "--max-runs", "3"]]):
        write_results(tmp_path / "results" / "study", [games[game]])
        main([*argv, *more])
        assert f"minatar/{game}" in (tmp_path / "out" / "minatar.csv").read_text()
    assert "points is 5, but 10" in stopped(capsys, *argv[1:], "--resume", "--points", "5")
