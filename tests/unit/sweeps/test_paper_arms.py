"""Every field of every arm of the paper's sweeps, against tables typed from the paper and its released code."""

import pytest

from mico.deep.config.run import describe
from mico.deep.fields import flatten
from mico.sweeps.grid import cells
from mico.sweeps.manifest import Limits, planned
from mico.sweeps.named import SWEEPS
from mico.sweeps.readings import Difference, other_readings

# Dopamine's configurations of five agents on Atari, and what MICo's authors set beside them.
VALUE_AGENT = {
    "agent.discount": 0.99,
    "agent.reward_clip": 1.0,
    "env.sticky": 0.25,
    "env.frame_skip": 4,
    "env.actions": "minimal",
    "env.max_steps": 27_000,
    "network.encoder": "nature",
    "network.hidden": 512,
    "network.latent": 0,
    "network.squash": "tanh",  # of a projection, which there is none
    "network.precision": "float32",
    "replay.capacity": 1_000_000,
    "replay.batch_size": 32,
    "replay.stack": 4,
    "replay.next": "reset-frame",
    "schedule.learning_starts": 20_000,
    "schedule.update_period": 4,
    "schedule.target_period": 8_000,
    "schedule.epsilon": 0.01,
    "schedule.epsilon_decay": 250_000,
    "schedule.log_period": 250_000,
    "schedule.acting": "after-learning",
}
SLOW = {"agent.learning_rate": 5e-5, "agent.adam_epsilon": 3.125e-4}
FAST = {"agent.learning_rate": 6.25e-5, "agent.adam_epsilon": 1.5e-4}
UNIFORM = {"replay.sampling": "uniform", "agent.importance": "weighted", "agent.priorities": "combined"}
FRACTIONS = {
    "agent.num_quantiles": 64,
    "agent.num_target_quantiles": 64,
    "agent.num_policy_quantiles": 32,
    "agent.num_cosines": 64,
    "agent.kappa": 1.0,
    "agent.fractions": "shared",
    "agent.horizon": 3,
    "network.initialiser": "fan-in",
}
OWN = {
    "dqn": FAST | UNIFORM | {"agent.horizon": 1, "agent.error": "squared", "network.initialiser": "xavier"},
    "rainbow": FAST
    | {
        "agent.horizon": 3,
        "agent.num_atoms": 51,
        "agent.support": 10.0,
        "agent.importance": "weighted",
        "network.initialiser": "fan-in",
        "replay.sampling": "prioritised",
    },
    "qr-dqn": SLOW
    | {
        "agent.horizon": 3,
        "agent.num_quantiles": 200,
        "agent.kappa": 1.0,
        "agent.importance": "none",
        "agent.priorities": "combined",  # without MICo and importance weights those of the TD loss
        "network.initialiser": "fan-in",
        "replay.sampling": "prioritised",
    },
    "iqn": SLOW | UNIFORM | FRACTIONS,
    "m-iqn": SLOW | UNIFORM | FRACTIONS | {"agent.temperature": 0.03, "agent.munchausen": 0.9, "agent.clip": -1.0},
}
PRIORITIES = {"none": "td", "mico": "combined"}  # of Rainbow
ALPHAS = {"dqn": 0.01, "rainbow": 0.01, "qr-dqn": 0.5, "iqn": 0.5, "m-iqn": 0.5}
MICO = {
    "metric.name": "mico",
    "metric.beta": 0.1,
    "metric.pairs": "all",
    "metric.self_pairs": "include",
    "metric.second": "target",
    "metric.error": "huber",
    "metric.horizon": "n-step",
    "metric.terminals": "bootstrap",
}
# The released configurations of SAC and DBC on the control suite.
SAC = {
    "agent.name": "sac",
    "agent.horizon": 1,
    "agent.discount": 0.99,
    "agent.learning_rate": 3e-4,
    "agent.adam_epsilon": 1e-8,
    "agent.reward_clip": None,
    "agent.importance": "weighted",
    "agent.priorities": "combined",
    "agent.target_rate": 0.005,
    "agent.reward_scale": 0.1,
    "agent.entropy": -0.5,
    "agent.initial_temperature": 1.0,
    "agent.temperature_loss": "log-temperature",
    "agent.log_std": "unbounded",
    "agent.next_action": "mean",
    "env.observation": "pixels",
    "env.action_repeat": 4,
    "env.size": 84,
    "env.camera": 0,
    "env.max_steps": None,
    "network.encoder": "control",
    "network.latent": 50,
    "network.squash": "tanh",
    "network.hidden": 1_024,
    "network.initialiser": "orthogonal",
    "network.precision": "float32",
    "replay.capacity": 101_000,
    "replay.batch_size": 256,
    "replay.stack": 3,
    "replay.sampling": "uniform",
    "replay.next": "reset-frame",
    "schedule.learning_starts": 10_000,
    "schedule.update_period": 1,
    "schedule.target_period": None,
    "schedule.epsilon": 0.0,
    "schedule.epsilon_decay": 0,
    "schedule.log_period": 1_000,
    "schedule.acting": "after-learning",
}
PLAIN = {"agent.critics_read": "representation", "agent.actor_projection": "learnt"}
REWRITE = {
    "agent.critics_read": "actor",
    "agent.actor_projection": "fixed",
    "metric.variant": "rewrite",
    "metric.weight": 1.0,
    "metric.hidden": 512,
    "metric.initialiser": "xavier",
    "metric.reward_input": "latent",
}
ANGLE = {"metric.beta": 0.1, "metric.second": "online", "metric.target_distance": "angle"}
LOSSES = {
    "none": PLAIN | {"metric": None},
    "mico": PLAIN | MICO | {"metric.alpha": 1e-5, "metric.second": "frozen"},
    "dbc": REWRITE | {"metric.name": "dbc"},
    "dbc-det": REWRITE | {"metric.name": "dbc-det"},
    "dbc-mico": REWRITE | ANGLE | {"metric.name": "dbc-mico", "metric.target_encoder": "online"},
}
TASKS = {
    "cartpole": ("balance", "balance_sparse", "swingup"),
    "cheetah": ("run",),
    "finger": ("spin",),
    "hopper": ("stand", "hop"),
    "pendulum": ("swingup",),
    "point_mass": ("easy",),
    "walker": ("stand", "walk", "run"),
}


def runs(name, *, of):
    """For each agent and metric loss the fields of the runs in the first environment, with the fields of the sweep."""
    found = {}
    for cell in cells(SWEEPS[name].sweep):
        if cell.env == of and cell.seed == 0:
            own = flatten(describe(cell.shape.run(dict(cell.fields), 0, SWEEPS[name].sweep.steps)))
            found.setdefault((cell.agent, cell.metric), []).append(own)
    return found


def value_agent(agent, metric):
    fields = VALUE_AGENT | OWN[agent] | {"agent.name": agent}
    if agent == "rainbow":
        fields |= {"agent.priorities": PRIORITIES[metric]}
    return fields | ({"metric": None} if metric == "none" else MICO | {"metric.alpha": ALPHAS[agent]})


def without(found):
    aside = {"env.name", "network.width", "seed"}  # the width is of other encoders
    return {name: value for name, value in found.items() if name not in aside}


@pytest.mark.parametrize("agent", OWN)
@pytest.mark.parametrize("metric", ["none", "mico"])
def test_the_arms_on_sixty_games(agent, metric):
    (own,) = runs("atari-60", of="atari/pong")[agent, metric]
    assert without(own) == value_agent(agent, metric)


def test_the_games_seeds_and_steps():
    sweep = SWEEPS["atari-60"].sweep
    assert (len(set(sweep.env)), sweep.seeds, sweep.steps) == (60, (0, 1, 2, 3, 4), 200 * 250_000)
    assert len(runs("atari-60", of="atari/pong")) == 5 * 2


@pytest.mark.parametrize("agent", OWN)
def test_the_arms_of_alpha_and_beta(agent):
    found = runs("alpha-beta", of="atari/qbert")
    assert [without(one) for one in found[agent, "none"]] == [value_agent(agent, "none")]
    grid = [(alpha, beta) for alpha in (0.001, 0.01, 0.1, 0.5) for beta in (0.01, 0.1, 1.0)]
    expected = [value_agent(agent, "mico") | {"metric.alpha": alpha, "metric.beta": beta} for alpha, beta in grid]
    assert [without(one) for one in found[agent, "mico"]] == expected


@pytest.mark.parametrize("metric", LOSSES)
def test_the_arms_on_twelve_tasks(metric):
    (own,) = runs("control-12", of="control/walker-run")["sac", metric]
    assert without(own) == SAC | LOSSES[metric]


def test_the_tasks_seeds_and_steps():
    sweep = SWEEPS["control-12"].sweep
    assert sweep.env == tuple(f"control/{domain}-{task}" for domain, tasks in TASKS.items() for task in tasks)
    assert (sweep.seeds, sweep.steps) == ((0, 1, 2, 3, 4), 100 * 1_000)


def test_a_baseline_with_priorities_of_its_own_is_no_run_of_mico_with_weight_0():
    """Rainbow's are those of the TD loss alone, where MICo's have both; DQN has none, and shares the program."""
    sweep = SWEEPS["atari-60"].sweep
    fleets = planned(sweep, None, Limits(None, None))
    own = [fleet for fleet in fleets if fleet.members[0].cell.env == "atari/pong"]
    metrics = {}
    for fleet in own:
        metrics.setdefault(fleet.members[0].cell.agent, []).append({member.cell.metric for member in fleet.members})
    assert metrics == {
        "dqn": [{"none", "mico"}],
        "rainbow": [{"none"}, {"mico"}],
        "qr-dqn": [{"none", "mico"}],
        "iqn": [{"none", "mico"}],
        "m-iqn": [{"none", "mico"}],
    }


IMPLICIT = ("iqn", "iqn + mico", "m-iqn", "m-iqn + mico")
EVERY = tuple(f"{agent}{metric}" for agent in OWN for metric in ("", " + mico"))


@pytest.mark.parametrize(("name", "preset"), [("atari-60", "atari"), ("atari-60-defaults", "atari-released")])
def test_other_readings_are_told_with_their_arms(name, preset):
    differences = {
        Difference("replay.next", "reset-frame", "true-frame", EVERY),
        Difference("agent.priorities", "td", "combined", ("rainbow",)),
        Difference("agent.fractions", "shared", "each", IMPLICIT),
    }
    if preset == "atari-released":
        differences = {one._replace(value=one.other, other=one.value) for one in differences}
    found = other_readings(SWEEPS[name].sweep)
    assert found.keys() == {preset}
    assert set(found[preset]) == differences


def test_a_field_that_the_sweep_sets_is_no_difference():
    sweep = SWEEPS["atari-60"].sweep
    same = type(sweep)(sweep.steps, ("atari/pong",), ("dqn",), preset="atari", fields={"replay.next": "reset-frame"})
    assert other_readings(same) == {"atari-released": []}
    assert other_readings(type(sweep)(1_000, ("minatar/breakout",))) == {}
