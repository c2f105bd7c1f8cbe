"""The guide's Python runs, at toy size."""

import re
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
GUIDE = (Path(__file__).parents[3] / "docs" / "plugin.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_its_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = re.sub(r"learn\([\d_]+", "learn(150", code)
    names = {}
    exec(compile(small, "plugin.md", "exec"), names)
    assert {"model", "loss"} & set(names)
    if "agreement" in names:
        assert names["matrix"].shape == (400, 400)
        assert -1 <= names["agreement"](names["matrix"], names["returns"]).correlation <= 1


def test_it_names_what_the_agents_log():
    from mico.torch.sb3 import MICoDQN

    model = MICoDQN("MlpPolicy", "CartPole-v1", learning_starts=20, seed=0).learn(60)
    logged = {name for name in model.logger.name_to_value if name.startswith("metric/")}
    assert logged == set(re.findall(r"`(metric/\w+)`", GUIDE))


def test_its_table_has_every_field():
    from dataclasses import fields

    from mico.torch import MICoLoss

    assert {field.name for field in fields(MICoLoss)} <= set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE))
