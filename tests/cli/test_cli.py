"""The command line: what it prints, what it imports, and how it fails."""

import errno
import functools
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

from mico import cli
from mico.cli.text import summary
from mico.experiments import EXPERIMENTS
from mico.tabular import METRICS, PROBLEMS, option_help
from written_runs import write_fleet

HEAVY = ("jax", "umap", "ot", "matplotlib", "numpy", "pandas", "rich", "tyro")


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def imported(code):
    """Which of the heavy packages a fresh interpreter has imported after the code."""
    done = python("-c", f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))")
    assert done.returncode == 0
    return set(HEAVY) & set(done.stderr.split())


@pytest.fixture
def fails(capsys, tmp_path, monkeypatch):
    """Run in an empty folder: the exit code must be 2, the error one line, and nothing else printed."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        with pytest.raises(SystemExit) as stop:
            cli.main(argv)
        printed = capsys.readouterr()
        assert stop.value.code == 2
        assert printed.out == ""
        assert printed.err.startswith("mico: ")
        assert printed.err.count("\n") == 1
        return printed.err

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_every_command_and_needs_only_the_standard_library(arguments):
    done = python("-m", "mico.cli", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for name, (_, line) in cli.COMMANDS.items():
        assert name in done.stdout
        assert line in done.stdout
    assert imported(f"from mico import cli; cli.main({arguments!r})") == set()


def test_version():
    done = python("-m", "mico.cli", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "mico 0.1.0\n", "")
    assert imported("from mico import cli; cli.main(['--version'])") == set()


@pytest.mark.parametrize("module", ["mico", "mico.tabular"])
def test_the_library_imports_no_package_that_is_slow_to_load(module):
    assert imported(f"import {module}") <= {"numpy"}


def test_warnings_lose_the_colours_that_gymnasium_gives_them(capsys, monkeypatch):
    def warn(argv):
        warnings.warn("\x1b[33mWARN: The environment is out of date.\x1b[0m", stacklevel=1)

    monkeypatch.setattr("mico.cli.list.main", warn)
    cli.main(["list"])
    assert capsys.readouterr().err == "mico: WARN: The environment is out of date.\n"


def test_an_unknown_command_names_the_nearest():
    done = python("-m", "mico.cli", "metrc")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mico: unknown command 'metrc': did you mean metric?\n"


def test_an_unknown_command_like_no_other_names_all(fails):
    assert all(name in fails("xyzzy") for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert f"usage: mico {command}" in capsys.readouterr().out


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_its_options_as_flags(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["metric", name, "--help"])
    printed = capsys.readouterr().out
    assert stop.value.code == 0
    for flag in ("--discount", "--metric", "--policy", "--out"):
        assert flag in printed
    words = " ".join(printed.replace("│", " ").split())
    for sentence in option_help(name).values():
        assert " ".join(sentence.split()) in words


@pytest.mark.parametrize("source", [*PROBLEMS, "mine.npz", "FrozenLake-v1", "--help"])
@pytest.mark.parametrize("command", ["metric", "explore"])
def test_help_has_a_sentence_for_every_option_and_no_riddles(command, source, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([command, source, "--help"] if source != "--help" else [command, "--help"])
    printed = capsys.readouterr().out
    for riddle in ("{None}", "(default: )", "(default: None)", "of the problem"):
        assert riddle not in printed
    _, *options = re.split(r"^[│ ] +(?=--)", printed, flags=re.MULTILINE)
    assert len(options) >= 5
    for option in options:
        about = re.sub(r"^--\S+( .*?)?\s{2,}", "", option)
        assert re.match(r"[A-Z`][^.]{10,}", about), f"no sentence: {option!r}"


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_summary_is_plain_text(name):
    assert summary(PROBLEMS[name])
    assert not set(summary(PROBLEMS[name])) & set("$\\\n{}")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_explains_itself_in_plain_text(name, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main(["experiment", name, "--help"])
    printed = capsys.readouterr().out
    assert f"mico experiment {name}" in printed
    assert not set(printed) & set("$\\")


def test_list_names_every_problem_and_metric(capsys):
    for kind in ("problems", "metrics"):
        cli.main(["list", kind])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    first = {words[0]: words for words in lines if words}
    assert {*PROBLEMS, *METRICS} <= set(first)
    assert first["garnet"][-1] == "needed"
    assert first["taxi"][-1] == "–"


def test_metric_as_a_process():
    done = python("-m", "mico.cli", "metric", "nowhere.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mico: nowhere.npz: No such file or directory\n"


def test_a_tolerance_out_of_reach_is_one_line_of_warning(tmp_path):
    done = python("-m", "mico.cli", "metric", "two-state", "--tolerance", "1e-30", "--out", str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.startswith("mico: mico: the certified error is ")
    assert done.stderr.count("\n") == 1


def test_unknown_problem(fails):
    assert "'four-roms'" in fails("metric", "four-roms")
    assert "four-rooms" in fails("metric", "four-roms")


def test_no_problem(fails):
    assert "PROBLEM" in fails("metric")
    assert "PROBLEM" in fails("metric", "--metric", "mico")


def test_unknown_metric(fails):
    line = fails("metric", "two-state", "--metric", "micco")
    assert line.startswith("mico: --metric must be one of mico, ")
    assert "got 'micco': did you mean mico" in line


def test_a_policy_for_a_metric_of_the_mdp_alone(fails):
    line = fails("metric", "two-state", "--metric", "bisimulation", "--policy", "uniform")
    assert line == "mico: --policy uniform must be left out: bisimulation is a metric of the MDP alone\n"


@pytest.mark.parametrize("file", ["broken.npz", "broken.json", "broken"])
def test_broken_file(fails, tmp_path, file):
    (tmp_path / file).write_bytes(b"PK\x03\x04 is no archive\n\n")
    assert file in fails("metric", file)


@pytest.mark.parametrize("file", ["missing.npz", "missing.json"])
def test_missing_file(fails, file):
    assert f"{file}: No such file" in fails("metric", file)


@pytest.mark.parametrize("discount", ["1.0", "-0.1", "nan"])
def test_bad_discount(fails, discount):
    assert "discount" in fails("metric", "two-state", "--discount", discount)


@pytest.mark.parametrize("tolerance", ["0", "-1", "nan"])
def test_bad_tolerance(fails, tolerance):
    assert "tolerance" in fails("metric", "two-state", "--tolerance", tolerance)


def test_bad_state(fails):
    assert "104" in fails("metric", "four-rooms", "--state", "104")
    assert "map" in fails("metric", "two-state", "--state", "0")


def test_bad_policies(fails, tmp_path):
    np.save(tmp_path / "shape.npy", np.full((3, 2), 0.5))
    np.save(tmp_path / "sum.npy", np.full((2, 2), 0.4))
    np.savez(tmp_path / "name.npz", other=np.eye(2))
    (tmp_path / "noise.npy").write_bytes(b"noise")
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04noise")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.txt").write_text("0.5 0.5")
    for file in ("shape.npy", "sum.npy", "name.npz", "noise.npy", "noise.npz", "empty.npy", "text.txt"):
        assert "policy" in fails("metric", "bound-example", "--policy", file)
    assert "missing.npy: No such file" in fails("metric", "bound-example", "--policy", "missing.npy")
    assert "best" in fails("metric", "bound-example", "--policy", "best")
    assert "--policy-seed" in fails("metric", "bound-example", "--policy", "random")
    assert "policy-seed" in fails("metric", "bound-example", "--policy", "uniform", "--policy-seed", "0")
    assert "no policy" in fails("metric", "two-state", "--policy", "problem")


@pytest.mark.parametrize(
    "command",
    [
        "metric two-state",
        "demo",
        "train --env mdp/two-state --steps 40",
        "sweep --env mdp/two-state --steps 40",
        "experiment counterexamples",
        "collect runs",
        "report results.csv",
    ],
)
def test_out_that_cannot_be_a_folder(fails, tmp_path, command):
    (tmp_path / "file").write_text("")
    (tmp_path / "results.csv").write_text("agent,env,seed,step,score\ndqn,pong,0,1,2\ndqn,pong,1,1,3\n")
    write_fleet(tmp_path / "runs", range(2), lambda seed: [1.0, 2.0])
    before = sorted(tmp_path.rglob("*"))
    for out in ("file", "file/folder"):
        line = fails(*command.split(), "--out", out)
        assert line == "mico: out must be a folder, but file is a file\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_more_states_than_a_matrix_should_have(fails):
    line = fails("metric", "open-grid", "--height", "60", "--width", "60")
    assert "3600" in line
    assert "method='factored'" in line
    assert "max_states is 103" in fails("metric", "four-rooms", "--max-states", "103")


@pytest.mark.parametrize(
    ("flags", "states"),
    [
        ("garnet --num-states 100000", "100000"),
        ("sparse-garnet --num-states 1000000000000", "1000000000000"),
        ("open-grid --height 100000 --width 1000", "100000000"),
        ("small-breakout --height 50 --width 6 --brick-rows 1", ""),
    ],
)
@pytest.mark.parametrize("command", ["metric", "explore"])
def test_too_many_states_are_refused_before_the_problem_is_built(fails, monkeypatch, command, flags, states):
    name, *options = flags.split()
    seed = ["--seed", "0"] if "garnet" in name else []

    @functools.wraps(PROBLEMS[name])
    def built(**_):
        pytest.fail("it was built")

    monkeypatch.setitem(PROBLEMS, name, built)
    line = fails(command, name, *options, *seed)
    assert f"and {flags} has at least {states}" in line
    assert "--max-states allows it" in line


def test_a_problem_that_memory_cannot_hold(fails):
    flags = "open-grid --height 1000000000 --width 1000000000"
    line = fails("metric", *flags.split(), "--max-states", str(10**18))
    assert f"{flags} takes more memory than there is: Unable to allocate" in line


def test_memory_that_is_not_there(fails, monkeypatch):
    monkeypatch.setattr("mico.cli.list.main", lambda _: np.empty(2**58))
    assert "Unable to allocate 2.00 EiB" in fails("list")


def test_a_device_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    flags = ["--env", "mdp/dayan", "--steps", "100", "--out", str(tmp_path / "out")]
    done = python("-m", "mico.cli", "train", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mico: JAX finds no device of the kind JAX_PLATFORMS=cuda asks for: unset it to take any\n"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_an_error_that_is_ours_stays_what_it_is(monkeypatch, kind):
    def wrong(_):
        raise kind("this is wrong")

    monkeypatch.setattr("mico.cli.list.main", wrong)
    with pytest.raises(kind, match="this is wrong"):
        cli.main(["list"])


@pytest.mark.parametrize("name", ["x.toml", "x.json"])
def test_files_that_are_nested_too_deeply_are_refused_in_a_line(fails, tmp_path, name):
    (tmp_path / name).write_text(("env = " if name == "x.toml" else "") + "[" * 100_000)
    assert f"mico: {tmp_path / name} is " in fails("sweep", str(tmp_path / name), "--dry-run")


def test_a_recursion_without_end_is_a_line(fails, monkeypatch):
    def nested(argv):
        return nested(argv)

    monkeypatch.setattr("mico.cli.list.main", nested)
    assert "mico: what was given is nested too deeply" in fails("list")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["metric", "--help"]])
def test_a_reader_that_has_had_enough_ends_it_without_a_word(arguments, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    command, env = [sys.executable, "-m", "mico.cli", *arguments], os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=env, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_pipe_that_is_not_the_output_is_an_error(monkeypatch, capsys):
    def broken(_):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("mico.cli.list.main", broken)
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["list"])
    assert capsys.readouterr().err == "mico: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize(("arguments", "code"), [("list", 0), ("metric nowhere", 2)])
def test_an_output_that_is_closed_is_none(arguments, code):
    command = f"{sys.executable} -m mico.cli {arguments} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_interrupted(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mico.cli.list.main", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main(["list"])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "mico: interrupted\n"
