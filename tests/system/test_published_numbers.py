"""The numbers of the documentation are those of the committed results."""

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check():
    return runpy.run_path(str(ROOT / "docs" / "evidence.py"))["check"]


def test_text_and_data_agree(check):
    assert check() == []


def test_a_number_that_is_not_the_datas_is_named(check, tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("figures"))
    shutil.copy(ROOT / "README.md", tmp_path)
    page = tmp_path / "docs" / "results.md"
    text = page.read_text()
    page.write_text(text.replace("| 1.6% |", "| 1.7% |").replace("Of the 50 paired", "Of the 46 paired"))
    table, phrase = check(tmp_path / "docs")
    assert table == "results.md: the table 'minatar' is not the data's (--write)"
    assert phrase.startswith("results.md must say: Of the 50 paired differences")
    assert len(check(tmp_path / "docs", write=True)) == 1
    assert page.read_text() == text.replace("Of the 50 paired", "Of the 46 paired")
