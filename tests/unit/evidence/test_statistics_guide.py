"""The guide to statistics: its Python runs on a file as it describes it, and its numbers hold."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

GUIDE = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_its_python_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    rng = np.random.default_rng(0)
    kinds = [(metric, env, seed) for metric in ("", "mico") for env in ("Pong", "Qbert", "Pooyan") for seed in range(3)]
    rows = [
        ("dqn", metric, env, seed, step, step + rng.normal())
        for metric, env, seed in kinds
        for step in range(10, 70, 10)
    ]
    table = pd.DataFrame(rows, columns=["agent", "metric", "env", "seed", "step", "score"])
    table.to_csv(tmp_path / "mine.csv", index=False)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "statistics.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "Pooyan is left out: no human score" in printed
    assert re.search(r"^dqn: IQM [\d.]+, 95% interval [\d.]+ … [\d.]+$", printed, re.MULTILINE)
    assert "difference of IQMs: Estimate(value=" in printed
    assert {path.name for path in tmp_path.glob("evidence.*")} == {"evidence.png", "evidence.pdf"}


def test_its_coverage_of_five_runs():
    """On many tasks the mean's error is normal, and the interval short by √(4/5)."""
    stated = int(re.search(r"hold the truth in about (\d+) of 100", GUIDE.replace("\n  ", " ")).group(1))
    assert stated == pytest.approx(100 * (1 - 2 * stats.norm.sf(1.96 * (4 / 5) ** 0.5)), abs=0.5)


def test_its_benchmark_runs():
    script = Path(__file__).parents[3] / "benchmarks" / "bootstrap.py"
    done = subprocess.run([sys.executable, script, "--resamples", "50"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("50 resamples of 60 tasks × 5 runs\n")
    assert len(re.findall(r"^iqm.* +\d\.\d{3} s( +\d+\.\d×)?$", done.stdout, re.MULTILINE)) == 3
