"""Pages of the documentation: links lead to files and headings, and the blocks of python.md run."""

import itertools
import json
import re
from pathlib import Path

import pytest

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


def test_the_map_names_every_page():
    shown = (ROOT / "docs" / "README.md").read_text()
    for page in PAGES[2:]:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "README.md" or f"({name}" in shown, name


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
