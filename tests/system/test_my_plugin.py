"""The package of docs/extending.md, from the command line: train, evaluate, watch, sweep, report, and contracts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "my_plugin"
NAMES = "--env river-swim --agent mellow-dqn --metric l1"
SMALL = "--network.encoder two-wide --network.width 8 --network.hidden 8 --schedule.learning-starts 100 --env.length 4"


def python(code, folder, *paths):
    """The output of code in a process of its own."""
    own = os.environ | {
        "COLUMNS": "200",
        "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=own, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*lines):
    return "from mico import cli\n" + "\n".join(f"cli.main({line.split()!r})" for line in lines)


def test_the_guide_shows_the_files_of_the_package():
    guide = (ROOT / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    for file in sorted((PACKAGE / "my_plugin").glob("*.py")):
        assert file.read_text() in blocks, file.name
    assert len(blocks) == 6


def test_all_four_are_trained_evaluated_watched_swept_and_reported(tmp_path):
    sweep = f"--import my_plugin --env river-swim --agent dqn mellow-dqn --metric none l1 {SMALL} --metric.scale 2"
    said = python(
        commands(
            f"train --import my_plugin {NAMES} {SMALL} --metric.scale 0.5 2 --seeds 0 1 --steps 1000 --out runs",
            "evaluate --import my_plugin runs --episodes 2",
            "watch --import my_plugin runs/mellow-dqn-l1-scale0.5-seed0 --out play.gif",
            f"sweep {sweep} --seeds 0 --steps 600 --processes 2 --out sweep",
            "report runs sweep --out page",
        ),
        tmp_path,
        PACKAGE,
    )
    config = json.loads((tmp_path / "runs" / "mellow-dqn-l1-scale2.0-seed1" / "config.json").read_text())["settings"]
    assert config["agent"]["class"] == "my_plugin.agent:MellowDQN"
    assert (config["env"]["name"], config["env"]["length"]) == ("river-swim", 4)
    assert config["network"]["encoder"] == "two-wide"
    assert config["agent"]["learning_rate"] == 2e-3
    assert (tmp_path / "play.gif").read_bytes()[:3] == b"GIF"
    assert all(f"mellow-dqn-l1-scale{scale}-seed{seed}" in said for scale in (0.5, 2.0) for seed in (0, 1))
    assert {file.parent.name for file in (tmp_path / "sweep").glob("*/*/log.jsonl")} == {
        f"{agent}-{metric}-seed0" for agent in ("dqn", "mellow-dqn") for metric in ("none", "l1")
    }
    assert "mellow-dqn + l1" in (tmp_path / "page" / "report.html").read_text()


def test_an_installed_package_needs_no_import(tmp_path):
    about = tmp_path / "site" / "my_plugin-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 0.1.0\n")
    declared = (PACKAGE / "pyproject.toml").read_text()
    groups = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(\S+) = "(.*?)"', declared)
    assert len(groups) == 4
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {value}\n" for group, name, value in groups))
    lines = ("list agents", "list losses", "list envs", f"train {NAMES} {SMALL} --steps 400 --seeds 0 --out runs")
    said = python(commands(*lines), tmp_path, PACKAGE, about.parent)
    for name in ("mellow-dqn", "l1", "river-swim"):
        assert name in said
    assert (tmp_path / "runs" / "mellow-dqn-l1-seed0" / "config.json").exists()


@pytest.mark.slow
def test_the_package_keeps_the_contracts(tmp_path):
    guide = (ROOT / "docs" / "extending.md").read_text()
    block = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1]
    python(f"{block}\ntest_contracts()", tmp_path, PACKAGE)
