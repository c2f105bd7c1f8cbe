"""The README is short, what it shows is what happens, and its links lead somewhere."""

import re
import shlex
import tomllib
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import mico
from mico import cli

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
CHAIN = [line for block in SHELL for line in block.splitlines() if line.startswith("mico ")]
INLINE = sorted(set(re.findall(r"`(mico [^`]+)`", README)))
PROSE = re.sub(r"```.*?```", "", README, flags=re.DOTALL)


def words(text):
    """The words that a reader reads: the text of a link, not where it leads."""
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).split()


def test_it_is_short():
    assert len(words(PROSE)) <= 900
    paragraphs = [part for part in PROSE.split("\n\n") if not part.startswith(("|", "* ", "    "))]
    assert max(len(words(part)) for part in paragraphs) <= 60
    assert max(len(words(item)) for item in re.findall(r"^\* .*$", PROSE, re.MULTILINE)) <= 60
    cells = [cell for line in README.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert max(map(len, cells)) <= 120
    assert max(block.count("\n") for block in (*PYTHON, *SHELL)) <= 12


def test_it_shows_each_way_in():
    assert [line.split()[1] for line in CHAIN] == ["train", "evaluate", "watch", "report"]
    code = "\n".join(PYTHON)
    assert all(part in code for part in ("mico.make", "mico.solve", "mico.torch.sb3", "mico.deep.metric_losses"))


@pytest.mark.parametrize(
    ("code", "says"), [*zip(PYTHON, [r"nearest to state 0:", r"^$", r"loss: \d"], strict=True)], ids=range(3)
)
def test_its_python_runs(code, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context():
        exec(compile(code, "README.md", "exec"), {})
    assert re.search(says, capsys.readouterr().out)


def run(command, capsys):
    """A command of the README, its trainings cut to a few steps."""
    arguments = shlex.split(re.sub(r"--steps \S+", "--steps 1200", command))[1:]
    if "--help" in arguments:
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main(arguments)
    else:
        cli.main(arguments)
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", INLINE)
def test_its_inline_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(command, capsys)


def test_its_commands_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in CHAIN:
        run(command, capsys)
    assert (tmp_path / "rooms.gif").stat().st_size
    assert (tmp_path / "report" / "report.html").stat().st_size


def test_its_targets_are_in_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = {*re.findall(r"^    make (\w+)$", README, re.MULTILINE), *re.findall(r"`make (\w+)`", README)}
    assert {"demo", "test"} <= shown <= set(targets)


def test_its_extras_are_in_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shown = re.findall(r"'\.\[(\w+)\]'", README)
    assert {*shown} == {*project["optional-dependencies"]} - {"dev"}


@pytest.mark.parametrize("figure", re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README))
def test_its_figures_are_small(figure):
    assert (ROOT / figure).stat().st_size < 200_000


def test_every_place_says_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert project["version"] == mico.__version__
    assert cited is not None
    assert cited.group(1) == mico.__version__


@pytest.mark.slow
def test_its_training_learns_and_its_arms_differ(tmp_path, monkeypatch, capsys):
    """The chain as it is printed: every run reaches the goal, curves have their points, and the arms differ."""
    monkeypatch.chdir(tmp_path)
    for command in CHAIN:
        cli.main(shlex.split(command)[1:])
    capsys.readouterr()
    arms = {}
    for run in sorted((tmp_path / "runs" / "rooms").glob("dqn-*")):
        returns = pd.read_json(run / "log.jsonl", lines=True)["return"].dropna()
        assert len(returns) >= 20
        assert mico.evaluate(run, episodes=20, seed=0).mean() > 0.9
        arms.setdefault(run.name.split("-seed")[0], []).append(returns.to_numpy())
    assert [len(curves) for curves in arms.values()] == [3, 3]
    assert not any(np.array_equal(plain, shaped) for plain, shaped in zip(*arms.values()))
    with Image.open(tmp_path / "rooms.gif") as video:
        assert video.n_frames >= 5
