"""What can be chosen of a run by name, and values that fields can have."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from mico.cli.train_options import parse
from mico.deep.config.choices import Choice, Option
from mico.deep.config.presets import PRESETS


@pytest.mark.parametrize(
    ("kind", "value", "fitted"),
    [
        (float, 1, 1.0),
        (float | None, 2, 2.0),
        (float | None, None, None),
        (int, 3, 3),
        (int | None, None, None),
        (int | None, 40, 40),
        (int | Literal["original"], 5, 5),
        (int | Literal["original"], "original", "original"),
        (Literal["a", "b"], "b", "b"),
        (bool, True, True),
        (Path, Path("x"), "x"),
        (Path, "x", "x"),
        (int, "10k", 10_000),
        (int, 1e5, 100_000),
        (int | None, "1e3", 1_000),
        (int | Literal["original"], "2M", 2_000_000),
    ],
)
def test_values_that_fit(kind, value, fitted):
    found = Option("it", kind, None, "", varies=True).fitted(value)
    assert (found, type(found)) == (fitted, type(fitted))


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (float, "much", "a number"),
        (float, True, "a number"),
        (float | None, "x", "a number or nothing"),
        (int, 1.5, "a whole number"),
        (int | Literal["original"], "orig", "a whole number or one of original"),
        (Literal["a", "b"], "c", "one of a, b"),
        (bool, 1, "true or false"),
        (Path, 3, "a path"),
    ],
)
def test_values_that_do_not(kind, value, wanted):
    with pytest.raises(ValueError, match=rf"^it cannot be {value!r}: it is {wanted}$"):
        Option("it", kind, None, "", varies=True).fitted(value)


def test_a_choice_with_fields_is_what_the_flags_of_train_make():
    fields = {"agent.horizon": 2, "metric.alpha": 0.25, "env.sticky": 0.5, "replay.capacity": 500}
    flags = [text for name, value in fields.items() for text in (f"--{name}", str(value))]
    which = ["--env", "minatar/asterix", "--agent", "rainbow", "--metric", "ksme", "--preset", "atari", "--seeds", "3"]
    *_, (run,) = parse([*which, *flags, "--steps", "400", "--out", "unused"])
    assert Choice("minatar/asterix", "rainbow", "ksme", "atari").run(fields, 3) == run


@pytest.mark.parametrize(
    ("env", "agent", "steps", "log_period"),
    [
        ("mdp/two-state", "dqn", None, 5_000),
        ("mdp/two-state", "dqn", 20_000, 500),
        ("mdp/two-state", "dqn", 33_333, 800),  # copies are 100 steps apart
        ("mdp/two-state", "dqn", 3_000, 50),
        ("mdp/two-state", "dqn", 30, 1),
        ("mdp/two-state", "dqn", 10_000_000, 5_000),
        ("gym/CartPole-v1", "dqn", 20_000, 500),
        ("gym/CartPole-v1", "dqn", 6_000, 100),
        ("gym/CartPole-v1", "dqn", 4, 4),
        ("gym/CartPole-v1", "dqn", 1_000_000, 1_000),
        ("gym/Pendulum-v1", "sac", 20_000, 500),
        ("minatar/breakout", "dqn", 20_000, 10_000),
    ],
)
def test_the_log_period_follows_the_steps_in_small_presets_alone(env, agent, steps, log_period):
    choice = Choice(env, agent, "none", None)
    schedule = choice.run({}, 0, steps=steps).schedule
    assert schedule.log_period == log_period
    assert schedule == choice.planned_schedule({}, steps)
    assert choice.run({"schedule.log_period": 4_000}, 0, steps=steps).schedule.log_period == 4_000


def test_periods_are_rounded_up_with_a_warning():
    choice = Choice("minatar/breakout", "dqn", "none", None)
    with pytest.warns(UserWarning, match=r"^schedule.learning_starts is 504, not 501: rounded up to a multiple of 4"):
        run = choice.run({"schedule.learning_starts": 501}, 0)
    assert run.schedule.learning_starts == 504


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schedule.log_perod": 3}, r"^schedule.log_perod is no field of this run: did you mean schedule.log_period"),
        ({"replay.capacity": 1.5}, r"^replay.capacity cannot be 1.5: it is a whole number$"),
        ({"agent.discount": "much"}, r"^agent.discount cannot be 'much': it is a number$"),
    ],
)
def test_fields_that_are_none_or_do_not_fit_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Choice("mdp/two-state", "dqn", "none", None).run(fields, 0)


def test_what_a_problem_needs_is_asked_for():
    with pytest.raises(ValueError, match="seed must be given"):
        Choice("mdp/garnet", "dqn", "none", None).run({}, 0)
    assert Choice("mdp/garnet", "dqn", "none", None).run({"env.seed": 2}, 0).env.settings()["seed"] == 2


def test_a_preset_that_an_agent_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(ValueError, match=r"^agent 'sac' has no settings in preset minatar, which is for dqn, "):
        Choice("gym/Pendulum-v1", "sac", "none", "minatar").check()
    with pytest.raises(ValueError, match=r"^agent 'dqn' has no settings in preset control, which is for sac$"):
        Choice("control/cheetah-run", "dqn", "none", "control").check()
    Choice("control/cheetah-run", "sac", "none", None).check()


@pytest.mark.parametrize(
    ("env", "agent", "wanted", "own", "fitting"),
    [
        ("mdp/two-state", "sac", "continuous", "discrete", "dqn, rainbow, qr-dqn, iqn, m-iqn"),
        ("minatar/breakout", "sac", "continuous", "discrete", "dqn, rainbow, qr-dqn, iqn, m-iqn"),
        ("atari/pong", "sac", "continuous", "discrete", "dqn, rainbow, qr-dqn, iqn, m-iqn"),
        ("control/cheetah-run", "dqn", "discrete", "continuous", "sac"),
    ],
)
def test_without_a_preset_it_is_the_actions_that_do_not_fit(env, agent, wanted, own, fitting):
    family = env.partition("/")[0]
    message = f"^agent '{agent}' needs {wanted} actions, but those of {family} are {own}: try {fitting}$"
    with pytest.raises(ValueError, match=message):
        Choice(env, agent, "none", None).check()


def test_options_of_an_actor_make_its_run():
    fields = {"agent.target_rate": 0.5, "agent.next_action": "mean", "network.latent": 7, "env.max_steps": 50}
    run = Choice("gym/Pendulum-v1", "sac", "mico", None).run(fields, 3)
    preset = PRESETS["vector"]["sac"]
    assert run.agent == replace(preset.agent, target_rate=0.5, next_action="mean")
    assert (run.network, run.replay) == (replace(preset.network, latent=7), preset.replay)
    assert (run.schedule.target_period, run.env.max_steps, run.metric.alpha) == (None, 50, 1e-5)
