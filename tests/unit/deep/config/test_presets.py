"""The presets, number by number."""

import dataclasses

import pytest

from mico.deep.agents import AGENTS, VALUE_AGENTS
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import Run
from mico.deep.envs import ENVS
from mico.deep.metric_losses import METRIC_LOSSES, KSMe, MICo, SimSR
from point_mass import PointMass
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
ALPHAS = {"dqn": 0.01, "rainbow": 0.01, "qr-dqn": 0.5, "iqn": 0.5, "m-iqn": 0.5, "sac": 1e-5}
RATES = {"dqn": 6.25e-5, "rainbow": 6.25e-5, "qr-dqn": 5e-5, "iqn": 5e-5, "m-iqn": 5e-5}
ADAM_EPSILONS = {"dqn": 1.5e-4, "rainbow": 1.5e-4, "qr-dqn": 3.125e-4, "iqn": 3.125e-4, "m-iqn": 3.125e-4}


def values(settings):
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def expected_agent(name):
    """What presets share, but for the discount factor of `table`."""
    shared = {"horizon": HORIZONS[name], "discount": 0.99, "reward_clip": None}
    return shared | {"importance": IMPORTANCE[name], "priorities": "combined"} | OWN[name]


def network(name, **fields):
    usual = {"width": 128, "latent": 0, "squash": "tanh", "precision": "float32"}
    return usual | {"initialiser": "xavier" if name == "dqn" else "fan-in"} | fields


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
    assert schedule == {
        "log_period": 250_000,  # an iteration
        "learning_starts": 20_000,
        "update_period": 4,
        "target_period": 8_000,
        "epsilon": 0.01,
        "epsilon_decay": 250_000,
        "acting": "after-learning",  # as Dopamine
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
        "acting": "after-learning",  # as Dopamine
    }


SAC = {
    "horizon": 1,
    "discount": 0.99,
    "learning_rate": 3e-4,
    "adam_epsilon": 1e-8,
    "reward_clip": None,
    "importance": "weighted",
    "priorities": "combined",
    "target_rate": 0.005,
    "reward_scale": 0.1,
    "entropy": -0.5,
    "initial_temperature": 1.0,
    "temperature_loss": "log-temperature",
    "log_std": "bounded",
    "next_action": "sampled",
    "critics_read": "representation",
    "actor_projection": "learnt",
}
EACH_STEP = {"update_period": 1, "target_period": None, "epsilon": 0.0, "epsilon_decay": 0, "log_period": 1_000}
EACH_STEP |= {"acting": "after-learning"}


def test_control():
    """As the paper has it, with room for 100,000 steps and the last frames of their 400 episodes."""
    preset = PRESETS["control"]["sac"]
    assert values(preset.agent) == SAC
    sizes = {"width": 1_024, "hidden": 1_024, "latent": 50}
    assert values(preset.network) == network("sac", encoder="control", initialiser="orthogonal", **sizes)
    memory = values(preset.replay)
    assert memory.pop("capacity") >= 100_000 + 400
    assert memory == {"batch_size": 256, "stack": 3, "sampling": "uniform", "next": "true-frame"}
    assert values(preset.schedule) == EACH_STEP | {"learning_starts": 10_000}
    assert preset.alpha == 1e-5


def test_an_actor_on_vectors():
    preset = PRESETS["vector"]["sac"]
    assert values(preset.agent) == SAC | {"learning_rate": 1e-3, "reward_scale": 1.0}
    sizes = {"width": 128, "hidden": 128, "latent": 50}
    assert values(preset.network) == network("sac", encoder="mlp", initialiser="orthogonal", **sizes)
    memory = {"capacity": 100_000, "batch_size": 128, "stack": 1, "sampling": "uniform", "next": "true-frame"}
    assert values(preset.replay) == memory
    assert values(preset.schedule) == EACH_STEP | {"learning_starts": 1_000}


def differences(one, other):
    """The fields in which one of two modules differs from the other, with its values."""
    return {name: value for name, value in values(one).items() if value != values(other)[name]}


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_atari_as_released(name):
    """The preset `atari`, save for shared fractions, frames as the replay wrote them, and Rainbow's priorities."""
    ours, released = PRESETS["atari"][name], PRESETS["atari-released"][name]
    shared = {"fractions": "shared"} if "iqn" in name else {}
    assert differences(released.agent_beside("mico"), ours.agent_beside("mico")) == shared
    td = {"priorities": "td"} if name == "rainbow" else {}
    assert differences(released.agent_beside("none"), ours.agent_beside("none")) == shared | td
    assert differences(released.replay, ours.replay) == {"next": "reset-frame"}
    assert (released.network, released.schedule, released.alpha) == (ours.network, ours.schedule, ours.alpha)
    assert released.metric_loss("mico") == ours.metric_loss("mico")


DBC = {"variant": "rewrite", "weight": 1.0, "initialiser": "xavier", "reward_input": "latent"}
ANGLE = {"second": "online", "target_distance": "angle", "target_encoder": "online"}


@pytest.mark.parametrize("metric", ["none", "mico", "dbc", "dbc-det", "dbc-mico"])
def test_control_as_released(metric):
    """The preset `control`, save for the target policy's mean action, unbounded deviations, frames, and DBC."""
    ours, released = PRESETS["control"]["sac"], PRESETS["control-released"]["sac"]
    dbc = {"critics_read": "actor", "actor_projection": "fixed"} if "dbc" in metric else {}
    everywhere = {"next_action": "mean", "log_std": "unbounded"}
    assert differences(released.agent_beside(metric), ours.agent_beside(metric)) == everywhere | dbc
    assert differences(released.replay, ours.replay) == {"next": "reset-frame"}
    assert (released.network, released.schedule, released.alpha) == (ours.network, ours.schedule, ours.alpha)
    if metric != "none":
        found = differences(released.metric_loss(metric), ours.metric_loss(metric))
        assert found == (DBC if "dbc" in metric else {}) | (ANGLE if metric == "dbc-mico" else {})


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_table(name):
    """Ours, for small MDPs: an update each step, a smaller discount factor, and fewer sampled fractions."""
    preset = PRESETS["table"][name]
    own = {"support": 10.0} if name == "rainbow" else {}
    own |= {field: 16 for field in QUANTILES if field.startswith("num_") and field != "num_cosines" and "iqn" in name}
    adam = {"learning_rate": 1e-3, "adam_epsilon": 3.125e-4}
    assert values(preset.agent) == expected_agent(name) | {"discount": 0.95} | adam | own
    assert values(preset.network) == network(name, encoder="table", width=64, hidden=64)
    assert values(preset.replay) == replay(name, capacity=20_000)
    assert preset.alpha == ALPHAS[name]
    assert values(preset.schedule) == {
        "log_period": 5_000,  # at most: a fortieth of the steps
        "learning_starts": 1_000,
        "update_period": 1,
        "target_period": 100,
        "epsilon": 0.01,
        "epsilon_decay": 10_000,
        "acting": "after-learning",
    }


def test_which_agents_a_family_has():
    assert tuple(VALUE_AGENTS) == AGENT_NAMES
    agents = {family: tuple(presets) for family, presets in PRESETS.items()}
    assert agents.pop("control") == agents.pop("control-released") == ("sac",)
    assert agents.pop("vector") == (*AGENT_NAMES, "sac")
    assert set(agents.values()) == {AGENT_NAMES}


@pytest.mark.parametrize("family", PRESETS)
def test_each_preset_is_of_its_agent_and_makes_a_run(family):
    for name, (agent, network, replay, schedule, alpha, *_) in PRESETS[family].items():
        assert type(agent) is AGENTS[name]
        env = lake() if name in VALUE_AGENTS else PointMass()
        assert Run(agent, None, env, network, replay, schedule, 0).schedule is schedule
        assert alpha == ALPHAS[name]


@pytest.mark.parametrize(("family", "name"), [(family, name) for family in PRESETS for name in PRESETS[family]])
def test_metric_losses_have_the_presets_weight_or_their_own(family, name):
    """SimSR and models of DBC have their own; beside SAC MICo sees the second state with the frozen online network."""
    preset = PRESETS[family][name]
    found = {loss: preset.metric_loss(loss) for loss in METRIC_LOSSES}
    assert found["mico"] == MICo(alpha=ALPHAS[name], second="frozen" if name == "sac" else "target")
    assert found["ksme"] == KSMe(alpha=ALPHAS[name])
    assert found["simsr"] == SimSR()
    for loss in set(found) - {"mico", "ksme", "simsr", *PRESETS[family][name].losses}:
        assert found[loss] == METRIC_LOSSES[loss]()


def test_every_family_of_environments_has_a_preset():
    assert {env.preset for env in ENVS.values()} <= set(PRESETS)
