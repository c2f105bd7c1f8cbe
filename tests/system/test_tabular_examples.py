"""The examples of exact metrics run as they are shown, in a folder of their own."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "says", "writes"),
    [
        ("four_rooms", ["Solution('mico', 104 states", "Solution('bisimulation'"], {"four_rooms.png"}),
        ("your_own_mdp", ["worn: value", "bounded: True"], {"machine.json", "machine.png"}),
        ("gymnasium_to_clusters", ["65", "40 clusters: largest error of a value 0.00"], set()),
    ],
)
def test_examples_of_exact_metrics(name, says, writes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert all(words in printed for words in says), printed
    assert {path.name for path in tmp_path.iterdir()} == writes
    assert all(path.stat().st_size > 200 for path in tmp_path.iterdir())
