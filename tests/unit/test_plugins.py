"""`--import MODULE`: modules of users, found, refused and told to worker processes."""

import sys

import pytest

from mico import cli
from mico._plugins import import_modules, imported_modules, split_imports
from trainings import FLAGS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MICO_IMPORT", "")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


def test_imports_are_taken_out_of_the_arguments():
    assert split_imports(["train", "--import", "a,b", "--env", "x", "--import=c"]) == (
        ["train", "--env", "x"],
        ["a", "b", "c"],
    )
    for words in (["--import"], ["--import", "--env", "x"]):
        with pytest.raises(ValueError, match="--import needs the name of a module"):
            split_imports(words)


def test_a_module_of_the_current_folder_is_imported_and_worker_processes_are_told(folder):
    (folder / "here_alone.py").write_text("value = 7\n")
    import_modules(["here_alone"])
    assert sys.modules.pop("here_alone").value == 7
    assert imported_modules() == ("here_alone",)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("no_such_module", "--import no_such_module: there is no module 'no_such_module'"),
        ("half_done", "--import half_done: ZeroDivisionError: division by zero"),
        ("broken.py", "--import must be the name of a module, without .py or folders, got 'broken.py'"),
        ("taken", "--import taken: ValueError: name must be one that no other agent has, got 'dqn'"),
    ],
)
def test_what_cannot_be_imported_is_one_line(folder, capsys, module, words):
    (folder / "half_done.py").write_text("1 / 0\n")
    taken = "import mico\nfrom mico.deep.agents import Rainbow\nmico.register_agent('dqn', Rainbow)\n"
    (folder / "taken.py").write_text(taken)
    with pytest.raises(SystemExit) as stop:
        cli.main(["list", "agents", "--import", module])
    said = capsys.readouterr()
    assert (stop.value.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1


def write_evil(folder, name):
    """A module of the search path that leaves a trace when it is imported, and registers an environment."""
    (folder / f"{name}.py").write_text(
        "import gymnasium, pathlib\n"
        f"pathlib.Path({str(folder)!r}, 'trace').touch()\n"
        "from gymnasium.envs.toy_text import FrozenLakeEnv\n"
        "gymnasium.register('Evil-v0', FrozenLakeEnv, max_episode_steps=20)\n"
    )


@pytest.mark.parametrize("place", ["toml", "flag", "config", "metric"])
def test_a_module_in_the_name_of_an_environment_is_imported_only_if_it_was_asked_for(
    folder, monkeypatch, capsys, place
):
    """`sweep --dry-run` once imported it from a file that somebody else wrote; evaluate from a config.json."""
    monkeypatch.syspath_prepend(str(folder))
    name = f"evil_{place}"
    write_evil(folder, name)
    if place == "toml":
        (folder / "sweep.toml").write_text(f'steps = 400\nenv = "gym/{name}:Evil-v0"\nagent = "dqn"\nseeds = [0]\n')
        argv = ["sweep", "sweep.toml", "--dry-run"]
    elif place == "flag":
        argv = ["train", "--env", f"gym/{name}:Evil-v0", "--seeds", "0", "--steps", "80", "--out", "out"]
    elif place == "config":
        cli.main(["train", "--env", "gym/CartPole-v1", "--seeds", "0", "--steps", "40", "--out", "out", *FLAGS])
        capsys.readouterr()
        config = next((folder / "out").glob("*/config.json"))
        config.write_text(config.read_text().replace("gym/CartPole-v1", f"gym/{name}:Evil-v0"))
        argv = ["evaluate", "out", "--episodes", "1"]
    else:
        argv = ["metric", f"{name}:Evil-v0", "--out", "out"]
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(argv)
    error = capsys.readouterr().err
    assert error.startswith("mico: ")
    assert (error.count("\n"), f"--import {name}" in error) == (1, True)
    assert not (folder / "trace").exists()
    if place in ("toml", "metric"):
        cli.main([*argv, "--import", name])
        assert (folder / "trace").exists()
