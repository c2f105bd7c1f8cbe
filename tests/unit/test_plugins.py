"""`--import MODULE`: modules of users, found, refused and told to worker processes."""

import sys

import pytest

from mico import cli
from mico._plugins import import_modules, imported_modules, split_imports


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
        ("broken", "--import broken: ZeroDivisionError: division by zero"),
        ("broken.py", "--import must be the name of a module, without .py or folders, got 'broken.py'"),
        ("taken", "--import taken: ValueError: name must be one that no other agent has, got 'dqn'"),
    ],
)
def test_what_cannot_be_imported_is_one_line(folder, capsys, module, words):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "taken.py").write_text("import mico\nfrom mico.deep.agents import DQN\nmico.register_agent('dqn', DQN)\n")
    with pytest.raises(SystemExit) as stop:
        cli.main(["list", "agents", "--import", module])
    said = capsys.readouterr()
    assert (stop.value.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
