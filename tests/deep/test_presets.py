"""The presets, number by number."""

import dataclasses

import pytest

from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS
from mico.deep.presets import FAMILY_PRESETS, PRESETS
from mico.deep.settings import Run
from small_runs import lake

AGENT_NAMES = ("dqn", "rainbow", "qr-dqn", "iqn", "m-iqn")
QUANTILES = {
    "num_quantiles": 64,
    "num_target_quantiles": 64,
    "num_policy_quantiles": 32,
    "num_cosines": 64,
    "kappa": 1.0,
    "fractions": "each",
}
OWN = {
    "dqn": {"error": "squared"},
    "rainbow": {"num_atoms": 51},
    "qr-dqn": {"num_quantiles": 200, "kappa": 1.0},
    "iqn": QUANTILES,
    "m-iqn": QUANTILES | {"temperature": 0.03, "munchausen": 0.9, "clip": -1.0},
}
HORIZONS = {"dqn": 1, "rainbow": 3, "qr-dqn": 3, "iqn": 3, "m-iqn": 3}
SAMPLING = {"dqn": "uniform", "rainbow": "prioritised", "qr-dqn": "prioritised", "iqn": "uniform", "m-iqn": "uniform"}
IMPORTANCE = {"dqn": "weighted", "rainbow": "weighted", "qr-dqn": "none", "iqn": "weighted", "m-iqn": "weighted"}
ALPHAS = {"dqn": 0.01, "rainbow": 0.01, "qr-dqn": 0.5, "iqn": 0.5, "m-iqn": 0.5}
RATES = {"dqn": 6.25e-5, "rainbow": 6.25e-5, "qr-dqn": 5e-5, "iqn": 5e-5, "m-iqn": 5e-5}
ADAM_EPSILONS = {"dqn": 1.5e-4, "rainbow": 1.5e-4, "qr-dqn": 3.125e-4, "iqn": 3.125e-4, "m-iqn": 3.125e-4}


def values(settings):
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def expected_agent(name):
    """What every preset shares."""
    shared = {"horizon": HORIZONS[name], "discount": 0.99, "reward_clip": None}
    return shared | {"importance": IMPORTANCE[name], "priorities": "combined"} | OWN[name]


def network(name, **fields):
    return {"width": 128, "initialiser": "xavier" if name == "dqn" else "fan-in", "precision": "float32"} | fields


def replay(name, **fields):
    return {"batch_size": 32, "stack": 1, "sampling": SAMPLING[name], "next": "true-frame"} | fields


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_atari(name):
    preset = PRESETS["atari"][name]
    atoms = {"support": 10.0} if name == "rainbow" else {}
    adam = {"learning_rate": RATES[name], "adam_epsilon": ADAM_EPSILONS[name], "reward_clip": 1.0}
    assert values(preset.agent) == expected_agent(name) | atoms | adam
    assert values(preset.network) == network(name, encoder="nature", hidden=512)
    assert values(preset.replay) == replay(name, capacity=1_000_000, stack=4)
    assert preset.alpha == ALPHAS[name]
    schedule = values(preset.schedule)
    assert schedule.pop("log_period") > 0
    assert schedule == {
        "learning_starts": 20_000,
        "update_period": 4,
        "target_period": 8_000,
        "epsilon": 0.01,
        "epsilon_decay": 250_000,
    }


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_minatar(name):
    preset = PRESETS["minatar"][name]
    atoms = {"support": 100.0} if name == "rainbow" else {}
    assert values(preset.agent) == expected_agent(name) | atoms | {"learning_rate": 2.5e-4, "adam_epsilon": 3.125e-4}
    assert values(preset.network) == network(name, encoder="minatar", hidden=128)
    assert values(preset.replay) == replay(name, capacity=100_000)
    assert preset.alpha == ALPHAS[name]
    schedule = values(preset.schedule)
    assert schedule.pop("log_period") > 0
    assert schedule == {
        "learning_starts": 1_000,
        "update_period": 4,
        "target_period": 1_000,
        "epsilon": 0.01,
        "epsilon_decay": 250_000,
    }


@pytest.mark.parametrize("family", PRESETS)
def test_each_preset_is_of_its_agent_and_makes_a_run(family):
    assert tuple(PRESETS[family]) == tuple(AGENTS) == AGENT_NAMES
    for name, (agent, network, replay, schedule, alpha) in PRESETS[family].items():
        assert type(agent) is AGENTS[name]
        assert Run(agent, None, lake(), network, replay, schedule, 0).schedule is schedule
        assert alpha == ALPHAS[name]


def test_every_family_of_environments_has_a_preset():
    assert set(FAMILY_PRESETS) == set(ENVS)
    assert set(FAMILY_PRESETS.values()) <= set(PRESETS)
