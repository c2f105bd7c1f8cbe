"""Pages of the documentation: links lead to files and headings, and the blocks of python.md run."""

import itertools
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mico
from mico import cli
from mico.cli.train_options import parse

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page):
    """The anchors that a page's headings have: lower case, words joined by hyphens, without punctuation."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page):
    for path in re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]+)`", page.read_text()):
        assert "/mine" in path or (ROOT / path).exists(), path


def commands(page):
    """The commands of a page: indented, or in a block of the shell, without comments and joined where they go on.

    Those that import another package are run in the test of that package.
    """
    text = page.read_text().replace("\\\n", " ")
    blocks = [
        re.sub("^", "    ", block, flags=re.MULTILINE) for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    ]
    lines = re.findall(r"^ {4,}(mico [a-z].*?)(?: +#.*)?$", "\n".join([text, *blocks]), re.MULTILINE)
    return [line for line in lines if not re.search(r"--import|…|\.\.\.", line)]


SHOWN = sorted({(page.name, line) for page in PAGES for line in commands(page)})


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=[f"{page}: {line[:60]}" for page, line in SHOWN])
def test_commands_that_are_shown_have_the_options_that_they_use(page, line, capsys, monkeypatch):
    words = shlex.split(re.sub(r" [<>|] .*", "", line))[1:]
    if words[0] == "train" and not {"--like", "--help"} & {*words}:
        assert parse([*words[1:], *([] if "--out" in words else ["--out", "x"])]).runs
        return
    flags = [word for word in words if re.match(r"--[a-z]", word) and word != "--help"]
    chosen = [word for flag in ("--env", "--agent", "--metric") for word in last_value(words, flag)]
    monkeypatch.setenv("COLUMNS", "300")
    named = words[:2] if len(words) > 1 and not words[1].startswith("-") else words[:1]
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([*named, *(chosen if words[0] == "sweep" else []), "--help"])
    printed = capsys.readouterr().out
    for flag in flags:
        assert re.search(rf"{flag}\b", printed), flag


def last_value(words, flag):
    """A flag with the last of its values, if it is given."""
    given = re.search(rf"{flag} ((?:[^-]\S* ?)+)", " ".join(words))
    return [flag, given[1].split()[-1]] if given else []


def test_the_map_names_every_page():
    shown = (ROOT / "docs" / "README.md").read_text()
    for page in PAGES[2:]:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "README.md" or f"({name}" in shown, name


def test_the_architecture_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    flow = text.partition("## How a run flows")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. .*$", flow, flags=re.MULTILINE)
    named = set(re.findall(r"[a-z_/]+\.py", flow))
    assert len(steps) <= 20
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "mico" / "deep" / name).is_file()] == []
    packages = re.findall(r"^ +([a-z_]+)/  ", text.partition("## How a run flows")[0], flags=re.MULTILINE)
    known = {path.name for path in ROOT.glob("src/mico/**/") if path.is_dir()} | {"tests", "benchmarks", "examples"}
    assert set(packages) <= known


def test_the_questions_are_answered():
    parts = re.split(r"^### (.*)$", (ROOT / "docs" / "faq.md").read_text(), flags=re.MULTILINE)
    questions, answers = parts[1::2], parts[2::2]
    assert len(questions) >= 15
    assert all(question.endswith("?") for question in questions)
    assert all(len(answer.split()) >= 5 for answer in answers)


def test_the_python_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    names = {}
    stopped_at = None
    for number, block in enumerate(code):
        exec(compile(block, f"python.md, block {number}", "exec"), names)
        stopped_at = names["run"].step if "callbacks=enough" in block else stopped_at
    said = capsys.readouterr().out
    assert 3_000 <= stopped_at < 8_000
    assert "classes of bisimilar states" in said
    assert "report.html" in said
    assert (tmp_path / "runs" / "rooms" / "fleet.json").exists()


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


def test_a_trained_run_is_used_as_the_guide_says(tmp_path, monkeypatch):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)[0]
    out = tmp_path / "runs" / "x"
    mico.train("mdp/two-state", metric="mico", seeds=0, steps=400, out=out, progress=False)
    monkeypatch.chdir(tmp_path)
    states = np.eye(2, dtype=np.float32)
    names = {"observation": states[0], "observations": states, "others": states}
    exec(compile(code, "training.md", "exec"), names)
    assert names["run"].step == 400


def test_a_report_is_made_as_the_guide_says(tmp_path, monkeypatch):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.DOTALL)[-1]
    monkeypatch.chdir(tmp_path)
    mico.train("mdp/two-state", seeds=[0, 1], steps=400, out=tmp_path / "runs" / "x", progress=False)
    rows = [("dqn", "a", seed, step, seed + step) for seed in (0, 1, 2) for step in (100, 200, 300)]
    pd.DataFrame(rows, columns=["algo", "env", "seed", "timestep", "score"]).to_csv("results.csv", index=False)
    exec(compile(code, "report.md", "exec"), {})
    assert (tmp_path / "report" / "report.html").stat().st_size
