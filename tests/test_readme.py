"""What the README shows is what happens: its Python runs, its commands run, its links lead somewhere."""

import itertools
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import mico
from mico import cli

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
IN_ORDER = re.findall(r"^(mico .*)$", SHELL, re.MULTILINE)
INLINE = sorted(set(re.findall(r"`(mico [^`]+)`", README)))


def test_it_shows_python_and_commands():
    assert PYTHON
    shown = {command.split()[1] for command in IN_ORDER}
    assert shown >= {"list", "metric", "explore", "experiment", "train", "evaluate"}


@pytest.mark.parametrize(
    ("code", "says"), [*zip(PYTHON, [r"for 100% of pairs[^$]*is 9899, above", "gradient: [1-9]"], strict=True)]
)
def test_its_python_runs(code, says, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert re.search(says, capsys.readouterr().out)


def test_the_guide_draws_curves_of_the_runs_it_trains(tmp_path, monkeypatch):
    guide = (ROOT / "docs" / "training.md").read_text()
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1]
    for seed, alpha in itertools.product((0, 1), (0.0, 0.01)):
        folder = tmp_path / "runs" / "dqn-breakout" / f"alpha{alpha}-seed{seed}"
        folder.mkdir(parents=True)
        names = {"experiment": "x", "run": folder.name, "agent": "dqn", "metric": "mico", "env": "minatar/breakout"}
        about = names | {"seed": seed, "varied": {"metric.alpha": alpha}}
        (folder / "config.json").write_text(json.dumps(about))
        (folder / "log.jsonl").write_text("".join(f'{{"step": {step}, "return": {step}}}\n' for step in (1, 2)))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "training.md", "exec"), {})
    assert {path.name for path in tmp_path.glob("curves.*")} == {"curves.png", "curves.pdf"}


def run(command, capsys):
    arguments = shlex.split(re.sub(r"--steps \d+", "--steps 1000", command))[1:]
    if "--help" in arguments:
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main(arguments)
    else:
        cli.main(arguments)
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", INLINE)
def test_its_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(command, capsys)


def test_its_commands_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in IN_ORDER:
        run(command, capsys)


def test_its_targets_are_in_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = {*re.findall(r"^    make (\w+)$", README, re.MULTILINE), *re.findall(r"`make (\w+)`", README)}
    assert {"demo", "test"} <= shown <= set(targets)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", README))
def test_its_links_lead_to_files(link):
    assert (ROOT / link).is_file()


@pytest.mark.parametrize("figure", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_its_figures_are_small(figure):
    assert (ROOT / figure).stat().st_size < 200_000


def test_every_place_says_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert project["version"] == mico.__version__
    assert cited is not None
    assert cited.group(1) == mico.__version__
