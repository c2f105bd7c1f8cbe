"""What `--help` says: a sentence for every option, and no words of the machinery."""

import dataclasses
import importlib
import re
from typing import get_args, get_type_hints

import pytest

from mico import cli
from mico.cli import collect, demo, evaluate, experiment, explore, metric, report, sweep_options, train_options, watch
from mico.deep.agents import AGENTS, VALUE_AGENTS
from mico.deep.config.choices import Choice
from mico.deep.config.run import Schedule
from mico.deep.envs import ENVS, Atari, Control, Gym, MinAtar, Tabular
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.experiments import EXPERIMENTS
from mico.tabular import PROBLEMS

SETTINGS = {**AGENTS, **METRIC_LOSSES, "minatar": MinAtar, "atari": Atari, "control": Control, "gym": Gym}
SETTINGS |= {"mdp": Tabular, "network": NetworkConfig, "replay": Replay, "schedule": Schedule}
MACHINERY = [
    r"\{None\}",
    r"\(default:\s*\)",
    r"\(default: None\)",
    "of the problem",
    r"<class ",
    "NoneType",
    "Annotated",
    r"\[INT \[",
    r"\bSTR\b",
]


def printed_help(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        cli.main([*argv, "--help"])
    assert stop.value.code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("name", SETTINGS)
def test_every_field_has_a_sentence(name):
    fields = [field for field in dataclasses.fields(SETTINGS[name]) if "help" in field.metadata]
    assert fields or name in ("atari", "gym")
    for field in fields:
        assert re.fullmatch(r"[A-Z].{10,}\.", field.metadata["help"], re.DOTALL), field.name


def test_every_setting_that_can_be_chosen_is_described():
    """Of agents, losses, networks and schedules all fields; of environments those that are flags."""
    for name, kind in SETTINGS.items():
        described = {field.name for field in dataclasses.fields(kind) if "help" in field.metadata}
        if name not in ENVS:
            assert described == {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_option_of_every_problem_has_a_sentence(name):
    options = Choice(f"mdp/{name}", "dqn", "none", None).options()["env"]
    assert {option.name for option in options} >= {"observation", "max_steps", "start"}
    for option in options:
        assert re.fullmatch(r"[A-Z`].{10,}\.", option.purpose, re.DOTALL), option.name
        assert option.default is not None or option.usual, f"{option.name} has no word for its default"


def sentences(documented):
    """The help of each annotated parameter or field, by its name."""
    hints = get_type_hints(documented, include_extras=True)
    return {name: [one.help for one in get_args(hint) if getattr(one, "help", None)] for name, hint in hints.items()}


OPTIONS = [collect, demo, evaluate, experiment, explore, metric, report, sweep_options, train_options, watch]


@pytest.mark.parametrize("module", OPTIONS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_option_of_every_command_has_a_sentence(module):
    found = sentences(module.Options)
    assert found
    for name, [sentence] in found.items():
        assert re.fullmatch(r"[A-Z].{10,}\.", sentence, re.DOTALL), name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_option_of_every_experiment_has_a_sentence(name):
    config = importlib.import_module(EXPERIMENTS[name]).Config
    found = sentences(config)
    assert {*found} == {field.name for field in dataclasses.fields(config)}
    for option, [sentence] in found.items():
        assert re.fullmatch(r"[A-Z`].{10,}\.", sentence, re.DOTALL), option


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_commands_speak_of_no_machinery(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    shown = printed_help(capsys, command)
    for word in MACHINERY:
        assert not re.search(word, shown), word


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("metric", ["none", *METRIC_LOSSES])
def test_trainings_speak_of_no_machinery(capsys, monkeypatch, command, agent, metric):
    monkeypatch.setenv("COLUMNS", "100")
    envs = ["mdp/four-rooms", "minatar/breakout"] if agent in VALUE_AGENTS else ["gym/Pendulum-v1"]
    for env in envs:
        shown = printed_help(capsys, command, "--env", env, "--agent", agent, "--metric", metric)
        for word in MACHINERY:
            assert not re.search(word, shown), word


@pytest.mark.parametrize("name", PROBLEMS)
def test_environments_of_problems_speak_of_no_machinery(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "100")
    shown = printed_help(capsys, "train", "--env", f"mdp/{name}")
    for word in MACHINERY:
        assert not re.search(word, shown), word


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_speak_of_no_machinery(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "100")
    shown = printed_help(capsys, "experiment", name)
    for word in MACHINERY:
        assert not re.search(word, shown), word
