"""Committed results say with which reading of every field they were made: a new default relabels none of them."""

import dataclasses
import json
from pathlib import Path

import pytest

from mico import experiments
from mico.deep.agents import AGENTS
from mico.deep.config.run import Schedule
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay

DATA = Path(experiments.__file__).parent / "data"
SETTINGS = [
    pytest.param(settings, id=f"{file.relative_to(DATA)}-{record['fleet']}-{metric}")
    for file in sorted(DATA.rglob("*.json"))
    for record in json.loads(file.read_bytes())["fleets"]
    for metric, settings in record["settings"].items()
]
WEIGHTS = {"alpha", "beta"}  # stated with each run


def test_there_are_results():
    assert len(SETTINGS) > 20


def names(kind):
    return {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_state_every_field(settings):
    kinds = {"network": NetworkConfig, "replay": Replay, "schedule": Schedule}
    for part, kind in kinds.items():
        assert set(settings[part]) == names(kind)
    agent, metric = settings["agent"], settings["metric"]
    assert set(agent) == {"name"} | names(AGENTS[agent["name"]])
    if metric is not None:
        assert set(metric) == {"name"} | names(METRIC_LOSSES[metric["name"]]) - WEIGHTS


@pytest.mark.parametrize("settings", SETTINGS)
def test_actors_were_trained_by_the_readings_of_their_time(settings):
    agent, metric = settings["agent"], settings["metric"] or {}
    if agent["name"] == "sac":
        own = {name: agent[name] for name in ("initial_temperature", "temperature_loss", "log_std", "actor_projection")}
        assert [*own.values()] == [1.0, "temperature", "bounded", "learnt"]
    if "dbc" in metric.get("name", ""):
        own = [metric[name] for name in ("variant", "initialiser", "reward_input")]
        assert own == ["paper", "fan-in", "latent-action"]
