"""Runs: told to JSON and back, named by what varies, refused where their parts do not fit."""

import dataclasses
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import AGENTS, DQN
from mico.deep.config.run import Run, Schedule, describe, revive, run_names, varied
from mico.deep.envs import ENVS, MinAtar, Tabular, environment
from mico.deep.fields import check_range, flatten
from mico.deep.metric_losses import DBC, METRIC_LOSSES, AbstractPairLoss, MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.replay.replay import Replay
from mico.tabular import MDP
from point_mass import PointMass
from small_runs import SCHEDULE, lake, small_agent, small_run

ENVIRONMENTS = {
    "minatar/breakout": {"sticky": 0.25, "actions": "all", "max_steps": 500},
    "minatar/freeway": {"max_steps": "original"},
    "mdp/four-rooms": {"discount": 0.9, "slip": 0.2, "max_steps": 30, "start": 3, "observation": "image"},
    "mdp/garnet": {"seed": 4, "num_states": 6},
    "gym/CartPole-v1": {"max_steps": 30},
    "gym/Pendulum-v1": {"max_steps": 30},
    "control/cheetah-run": {"observation": "state", "action_repeat": 2, "size": 32, "camera": 1, "max_steps": 9},
    "atari/pong": {"sticky": 0.1, "frame_skip": 2, "actions": "all", "max_steps": 30},
}
OTHER = {
    "agent": {
        "reward_clip": 1.0,
        "importance": "none",
        "priorities": "td",
        "horizon": 2,
        "learning_rate": 0.1,
    },
    "sac": {
        "target_rate": 0.5,
        "reward_scale": 2.0,
        "entropy": 1.5,
        "initial_temperature": 0.1,
        "temperature_loss": "temperature",
        "log_std": "unbounded",
        "next_action": "mean",
        "critics_read": "actor",
        "actor_projection": "fixed",
    },
    "pairs": {"alpha": 0.3, "pairs": "shuffled", "self_pairs": "exclude", "second": "frozen", "error": "squared"},
    "models": {"weight": 0.3, "hidden": 7, "initialiser": "xavier", "reward_input": "latent"},
}
USUAL = {part: {} for part in OTHER}


def told(run):
    """Through JSON."""
    return revive(json.loads(json.dumps(describe(run))))


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)


def test_every_family_is_tested():
    assert {name.partition("/")[0] for name in ENVIRONMENTS} == set(ENVS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_runs_come_back_from_json(name):
    env = environment(name, **ENVIRONMENTS[name])
    network = NetworkConfig(
        "mlp", width=3, latent=2, squash="none", hidden=0, initialiser="orthogonal", precision="bfloat16"
    )
    replay = Replay(capacity=99, batch_size=3, stack=2, sampling="prioritised", next="reset-frame")
    actions = "discrete" if env.spec.num_actions else "continuous"
    agents = [agent for agent, kind in AGENTS.items() if kind.actions == actions]
    schedule = Schedule(
        learning_starts=30,
        update_period=3,
        target_period=9 if actions == "discrete" else None,
        epsilon=0.2,
        epsilon_decay=7,
        log_period=6,
    )
    for agent, metric, fields in itertools.product(agents, (None, *METRIC_LOSSES), (USUAL, OTHER)):
        kind = None if metric is None else METRIC_LOSSES[metric]
        of_kind = "pairs" if kind is not None and issubclass(kind, AbstractPairLoss) else "models"
        loss = None if kind is None else kind(**fields[of_kind])
        own = fields["agent"] | (fields["sac"] if agent == "sac" and metric is not None else {})
        run = Run(AGENTS[agent](**own), loss, env, network, replay, schedule, 2**31 - 1)
        assert_same(told(run), run)


ADDED = {  # after the first runs were described, with what those were trained by
    "agent": {
        "initial_temperature": 1.0,
        "temperature_loss": "temperature",
        "log_std": "bounded",
        "actor_projection": "learnt",
    },
    "metric": {
        "initialiser": "fan-in",
        "reward_input": "latent-action",
        "second": "target",
        "target_distance": "full",
        "target_encoder": "target",
    },
    "schedule": {"acting": "after-learning"},
}


def test_a_description_from_before_a_field_means_what_was_done_then():
    """Whatever the default has become, as that of the temperature's loss."""
    described = describe(small_run("sac", METRIC_LOSSES["dbc-mico"](), seed=3, env=environment("gym/Pendulum-v1")))
    older = dict(described)
    for part, added in ADDED.items():
        older[part] = {name: value for name, value in described[part].items() if name not in added}
    run = revive(older)
    for part, added in ADDED.items():
        assert {name: getattr(getattr(run, part), name) for name in added} == added
    assert run.agent.temperature_loss != described["agent"]["temperature_loss"]
    assert describe(revive(described)) == described


def test_a_description_without_a_schedule_means_the_first_one():
    described = describe(small_run("dqn", seed=3))
    del described["schedule"]
    numbers = {"learning_starts": 1_000, "update_period": 4, "target_period": 1_000, "epsilon": 0.01}
    rest = {"epsilon_decay": 250_000, "log_period": 10_000, "acting": "after-learning"}
    assert describe(revive(described))["schedule"] == numbers | rest


def test_what_is_described_is_every_field():
    described = describe(small_run("iqn", MICo(beta=0.7), seed=3))
    assert described["agent"]["name"] == "iqn"
    assert described["metric"] == {"name": "mico", "alpha": 0.01, "beta": 0.7} | {
        field.name: getattr(MICo(), field.name) for field in dataclasses.fields(MICo) if field.type is not float
    }
    assert described["env"]["name"] == "mdp/frozen-lake"
    assert described["schedule"]["target_period"] == 40
    assert described["seed"] == 3
    for name, kind in (("network", NetworkConfig), ("replay", Replay), ("schedule", Schedule)):
        assert set(described[name]) == {field.name for field in dataclasses.fields(kind)}


def test_a_problem_without_a_name_cannot_be_described():
    env = Tabular(MDP(np.full((2, 1, 2), 0.5), np.ones((2, 1)), 0.9))
    with pytest.raises(ValueError, match="without a name"):
        describe(small_run(env=env, seed=0))


def test_what_varies_is_told_apart_from_seeds_and_names_the_runs():
    arms = itertools.product((0.0, 0.5), (1e-3, 1e-4), (0, 1))
    runs = [small_run(small_agent(learning_rate=rate), MICo(alpha=alpha), seed=seed) for alpha, rate, seed in arms]
    assert varied(runs)[:3] == [
        {"agent.learning_rate": 1e-3, "metric.alpha": 0.0},
        {"agent.learning_rate": 1e-3, "metric.alpha": 0.0},
        {"agent.learning_rate": 1e-4, "metric.alpha": 0.0},
    ]
    names = run_names(runs)
    assert names[0] == "dqn-mico-learning-rate0.001-alpha0.0-seed0"
    assert names[-1] == "dqn-mico-learning-rate0.0001-alpha0.5-seed1"
    assert len(set(names)) == 8


def test_runs_that_vary_in_nothing_but_seeds_have_short_names():
    runs = [small_run("m-iqn", seed=seed) for seed in (7, 8)]
    assert varied(runs) == [{}, {}]
    assert run_names(runs) == ["m-iqn-none-seed7", "m-iqn-none-seed8"]


def test_two_runs_of_one_name_are_refused():
    with pytest.raises(ValueError, match="several are dqn-none-seed1"):
        run_names([small_run(seed=seed) for seed in (1, 2, 1)])


@pytest.mark.parametrize("seed", [-1, 2**31, True, 1.5, "0", None])
@pytest.mark.usefixtures("unchecked")
def test_bad_seeds_are_refused(seed):
    with pytest.raises(ValueError, match=f"seed must .*{seed}"):
        small_run(seed=seed)


@pytest.mark.parametrize("name", ["learning_starts", "target_period", "log_period"])
def test_periods_are_multiples_of_the_update_period(name):
    with pytest.raises(ValueError, match=f"{name} must be a multiple of update_period 4, but is 1002"):
        Schedule(**{name: 1002})
    assert getattr(Schedule(**{name: 1002}, update_period=2), name) == 1002


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_starts", 0),
        ("update_period", 0),
        ("target_period", 0),
        ("log_period", 0),
        ("epsilon_decay", -1),
        ("epsilon", -0.1),
        ("epsilon", 1.1),
        ("epsilon", math.nan),
    ],
)
def test_bad_schedules_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must .*{value}"):
        Schedule(**{name: value})


def test_learning_starts_once_a_batch_of_windows_is_there():
    replay, schedule = Replay(capacity=100, batch_size=8), Schedule(learning_starts=12, update_period=4)
    for horizon, fits in ((4, True), (5, False)):
        parts = {"agent": DQN(horizon=horizon), "replay": replay, "schedule": schedule, "seed": 0}
        if fits:
            assert small_run(**parts).window.length == horizon
        else:
            with pytest.raises(ValueError, match=r"learning_starts must exceed batch_size 8 .* 5 at least, but is 12"):
                small_run(**parts)


@pytest.mark.parametrize(
    ("agent", "parts", "message"),
    [
        (
            "dqn",
            {"env": PointMass()},
            "agent 'dqn' needs discrete actions, but those of test/point-mass are continuous",
        ),
        ("sac", {"env": lake()}, "agent 'sac' needs continuous actions, but those of mdp/frozen-lake are discrete"),
        (
            "sac",
            {"schedule": SCHEDULE},
            "target_period must be none with SAC, whose target is a moving average, got 40",
        ),
        (
            "rainbow",
            {"schedule": dataclasses.replace(SCHEDULE, target_period=None)},
            "target_period must be a number of steps with Rainbow, got none",
        ),
        (
            small_agent("sac", horizon=2),
            {"metric": DBC(variant="original")},
            "horizon must be 1 with this variant of the metric loss, but is 2",
        ),
        (
            "dqn",
            {"metric": DBC(variant="rewrite")},
            "variant 'rewrite' needs an agent with an actor, but agent is 'dqn'",
        ),
        (
            small_agent("sac", critics_read="actor"),
            {},
            "critics_read 'actor' leaves φ to a metric loss, but there is none to train it",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_named(agent, parts, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        small_run(agent, seed=0, **parts)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite_are_always_refused(value):
    with pytest.raises(ValueError, match=f"beta must be finite, but is {value}"):
        MICo(beta=value)
    with pytest.raises(ValueError, match=f"sticky must be finite, but is {value}"):
        MinAtar("breakout", sticky=value)


@pytest.mark.parametrize(("value", "fine"), [(0.0, True), (2, True), (-1e-9, False), (2.5, False), (True, False)])
def test_bounds_are_closed_and_bools_are_no_numbers(value, fine):
    @dataclasses.dataclass
    class Settings:
        share: float = value

    if fine:
        check_range(Settings(), share=(0.0, 2.0))
    else:
        with pytest.raises(ValueError, match=f"share .*{value}"):
            check_range(Settings(), share=(0.0, 2.0))


def test_nested_settings_get_dotted_names():
    assert flatten({"a": {"b": 1, "c": {"d": None}}, "e": "x"}) == {"a.b": 1, "a.c.d": None, "e": "x"}


def test_exploration_by_hand():
    """From 1 at step 100 to 0.2 at step 200: 0.6 half-way."""
    schedule = Schedule(learning_starts=100, epsilon=0.2, epsilon_decay=100)
    found = [float(schedule.exploration(jnp.int32(time))) for time in (0, 100, 150, 200, 10_000)]
    assert found == pytest.approx([1, 1, 0.6, 0.2, 0.2])
    at_once = Schedule(learning_starts=100, epsilon=0.2, epsilon_decay=0)
    found = [float(at_once.exploration(jnp.int32(time))) for time in (0, 99, 100, 101)]
    assert found == pytest.approx([1, 1, 0.2, 0.2])


def test_targets_are_copied_every_period_or_never():
    copied, followed = small_agent("dqn").target_rule(40), small_agent("sac").target_rule(None)
    assert [time for time in range(4, 124, 4) if copied.copies_at(time)] == [40, 80, 120]
    assert not any(followed.copies_at(time) for time in range(200))


def test_what_the_network_sees_is_stacked():
    env = environment("gym/CartPole-v1")
    run = small_run(env=env, replay=Replay(capacity=50, batch_size=2, stack=3), seed=0)
    assert run.observation_shape == (12,)
    assert run.window == (1, 0.9)
