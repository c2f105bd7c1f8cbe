"""The package of docs/extending.md, from the command line: train, evaluate, watch, sweep, report, and contracts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    assert len(blocks) == 8


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


def test_the_problem_and_the_metric_have_flags_help_and_files(tmp_path):
    lines = (
        "metric river --import my_plugin --length 8 --current 0.1 --metric value-gap --out here",
        "metric river --import my_plugin --metric bisimulation",
        "explore --import my_plugin river --metrics value-gap mico",
    )
    said = python(commands(*lines), tmp_path, PACKAGE)
    assert "holds for all pairs; the mean of d − |ΔV| is 0" in said
    stored = np.load(tmp_path / "here" / "river-value-gap.npz")
    value = by_sweeps(8, 0.1, 0.95)
    np.testing.assert_allclose(stored["matrix"], np.abs(value[:, None] - value), rtol=0, atol=1e-6)
    for line, words in (
        ("metric river --import my_plugin --help", "Probability of being carried back by a stroke upstream."),
        (
            "metric river --import my_plugin --length 4k",
            "and river --length 4000 has at least 4000 states",
        ),
    ):
        code = f"import sys; sys.stderr = sys.stdout\nfrom mico import cli\ntry: cli.main({line.split()!r})\n"
        code += "except SystemExit: pass"
        assert words in " ".join(python(code, tmp_path, PACKAGE).replace("│", " ").split())


def by_sweeps(length, current, discount):
    """The value of the uniform policy in the river, cell by cell."""
    value, cells = np.zeros(length), np.arange(length)
    for _ in range(600):
        ahead, back = np.append(value[1:], value[-1]), np.insert(value[:-1], 0, value[0])
        down = discount * back + 0.005 * (cells == 0)
        up = discount * (current * back + (0.65 - current) * value + 0.35 * ahead) + (cells == length - 1)
        value = (down + up) / 2
    return value


def test_an_installed_package_needs_no_import(tmp_path):
    about = tmp_path / "site" / "my_plugin-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 0.1.0\n")
    declared = (PACKAGE / "pyproject.toml").read_text()
    groups = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(\S+) = "(.*?)"', declared)
    assert len(groups) == 6
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{name} = {value}\n" for group, name, value in groups))
    tabular = "metric river --length 5 --metric value-gap"
    lines = (
        "list agents",
        "list losses",
        "list envs",
        "list problems",
        "list metrics",
        tabular,
        f"train {NAMES} {SMALL} --steps 400 --seeds 0 --out runs",
    )
    said = python(commands(*lines), tmp_path, PACKAGE, about.parent)
    for name in ("mellow-dqn", "l1", "river-swim", "river ", "value-gap"):
        assert name in said
    assert (tmp_path / "out" / "river-value-gap.npz").exists()
    assert (tmp_path / "runs" / "mellow-dqn-l1-seed0" / "config.json").exists()


@pytest.mark.slow
def test_the_package_keeps_the_contracts(tmp_path):
    guide = (ROOT / "docs" / "extending.md").read_text()
    block = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1]
    python(f"{block}\ntest_contracts()", tmp_path, PACKAGE)
