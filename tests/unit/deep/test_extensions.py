"""Classes of other packages: plain fields, help, registration, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import pytest

from mico.deep.agents import AGENTS, DQN
from mico.deep.config.choices import Choice
from mico.deep.config.presets import PRESETS, find_preset
from mico.deep.config.registry import register_agent, register_encoder, register_env, register_metric_loss
from mico.deep.config.run import check_reloadable, describe, revive
from mico.deep.envs import ENVS, AbstractEnv, environment, split_name
from mico.deep.extensions import ConfigModule, field_help, takes_member
from mico.deep.metric_losses import METRIC_LOSSES, AbstractPairLoss, MICo
from mico.deep.networks import ENCODERS, Dense
from mico.deep.types import Spec
from small_runs import small_run


class Bounded(MICo.__base__):
    """A distance that a bound cuts."""

    bound: float = 2.0
    """Largest distance
    that is learnt."""
    kind: Literal["l1", "l2"] = "l1"
    repeats: int | None = None
    where: str = "here"

    def pairwise(self, x, y):
        return jnp.minimum(jnp.abs(x[:, None] - y).sum(-1), self.bound)


class Mine(DQN.__base__):
    """An agent."""

    presets: ClassVar = {"vector": {"learning_rate": 0.5}}
    discount: float = 0.5
    size: int = 3

    make_head, q_values, td_loss = DQN.make_head, DQN.q_values, DQN.td_loss
    error: str = "huber"


class Line(AbstractEnv):
    """States in a line."""

    length: int = 4
    """How many."""
    preset = "table"

    @property
    def spec(self):
        return Spec((self.length,), "bool", 2)

    def reset(self, key):
        return jnp.int32(0), jnp.arange(self.length) == 0

    def step(self, state, action, key):
        raise NotImplementedError


class Lines(Line):
    """A family of them."""

    name_of: str = "short"

    def __init__(self, member, length=5):
        self.name_of, self.length = member, length


@pytest.fixture
def open_registries(monkeypatch):
    """What a test registers is gone after it."""
    for registry in (AGENTS, ENVS, METRIC_LOSSES, ENCODERS):
        list(registry)  # entry points are found once
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_origin", dict(registry._origin))


def test_plain_fields_are_static_and_numbers_are_leaves():
    class Settings(ConfigModule):
        count: int
        word: str = "x"
        choice: Literal["a", "b"] = "a"
        several: tuple[int, ...] = ()
        place: Path | None = None
        number: float = 1.5
        array: jax.Array | None = None

    assert jax.tree.leaves(Settings(3, array=jnp.ones(2)))[0] == 1.5
    assert len(jax.tree.leaves(Settings(3, array=jnp.ones(2)))) == 2
    assert Settings(3).word == "x"
    with pytest.raises(TypeError, match="count"):
        Settings()


def test_fleets_differ_in_numbers_of_a_plain_class():
    two = jax.tree.map(lambda *leaves: jnp.stack(leaves), Bounded(bound=1.0), Bounded(bound=3.0))
    x = jnp.array([[0.0, 0.0], [5.0, 5.0]])
    both = jax.jit(jax.vmap(lambda loss: loss.pairwise(x, x)))(two)
    assert both[:, 0, 1].tolist() == [1.0, 3.0]


def test_help_is_the_string_below_the_field_or_that_of_its_metadata():
    shown = field_help(Bounded)
    assert shown["bound"] == "Largest distance that is learnt."
    assert shown["repeats"] == ""
    assert shown["alpha"] == field_help(MICo)["alpha"] != ""


def test_a_registered_class_is_chosen_described_and_made_again(open_registries):
    register_metric_loss("bounded", Bounded)
    register_agent("mine", Mine)
    register_env("line", Line)
    register_encoder("flat", lambda shape, network, key: (Dense(shape[0], 4, network.initialiser, key=key),))
    choice = Choice("line", "mine", "bounded", None)
    choice.check()
    fields = {"metric.bound": 3, "env.length": 6, "agent.size": 5, "network.encoder": "flat"}
    run = choice.run(fields, seed=2, steps=1_000)
    assert (run.metric.bound, run.env.length, run.agent.size) == (3.0, 6, 5)
    assert run.metric.alpha == PRESETS["table"]["dqn"].alpha
    described = json.loads(json.dumps(describe(run)))
    assert described["env"] == {"name": "line", "length": 6, "class": f"{__name__}:Line"}
    assert described["metric"]["class"] == f"{__name__}:Bounded"
    assert described["network"]["class"].startswith(f"{__name__}:")
    assert describe(revive(described)) == describe(run)
    check_reloadable(run)


def test_presets_of_an_agent_are_dqns_but_for_its_own_defaults_and_values(open_registries):
    register_agent("mine", Mine)
    table, vector = find_preset("table", "mine").agent, find_preset("vector", "mine").agent
    assert (table.learning_rate, table.discount) == (PRESETS["table"]["dqn"].agent.learning_rate, 0.5)
    assert (vector.learning_rate, vector.discount) == (0.5, 0.5)
    assert find_preset("control", "mine") is None


def test_environments_with_and_without_members(open_registries):
    register_env("line", Line)
    register_env("lines", Lines)
    assert (takes_member(Line), takes_member(Lines)) == (False, True)
    assert split_name("line") == ("line", None, None)
    assert environment("lines/long", length=7).length == 7
    for wrong in ("line/long", "lines", "lin"):
        with pytest.raises(ValueError, match="env "):
            split_name(wrong)


def test_what_an_unregistered_name_of_a_file_needs_is_said_and_nothing_is_imported(open_registries):
    register_env("line", Line)
    described = describe(replace(small_run(seed=0), env=Line()))
    described["env"]["class"] = "not_there:Line"
    del ENVS["line"]
    with pytest.raises(ValueError, match=r"'line' \(not_there:Line\) is not registered here.* --import not_there"):
        revive(described)
    described = describe(small_run(seed=0))
    described["agent"] |= {"name": "who", "class": "not_there.agents:Who"}
    with pytest.raises(ValueError, match=r"agent 'who' \(not_there.agents:Who\).* --import not_there.agents"):
        revive(described)
    described = describe(small_run(seed=0))
    assert "class" not in described["network"]
    described["network"] |= {"encoder": "wide", "class": "not_there.eyes:wide"}
    with pytest.raises(ValueError, match=r"encoder 'wide' \(not_there.eyes:wide\).* --import not_there.eyes"):
        revive(described)


def test_runs_that_could_not_be_loaded_again_are_refused(open_registries):
    with pytest.raises(ValueError, match=r"metric loss .*:Bounded could not be loaded again: register it first"):
        check_reloadable(replace(small_run(seed=0), metric=Bounded()))
    with pytest.raises(ValueError, match=r"Line must be registered to have a name: mico.register_env"):
        check_reloadable(replace(small_run(seed=0), env=Line()))
    register_metric_loss("bounded", Bounded)
    with pytest.raises(ValueError, match=r"metric.where must be a number, a string.* got <object"):
        check_reloadable(replace(small_run(seed=0), metric=Bounded(where=object())))


def test_what_is_not_finished_is_refused(open_registries):
    class Half(AbstractPairLoss):
        """Without what it measures."""

    class Needy(Bounded):
        """With a field that has no default."""

        must: float = None

        def __check_init__(self):
            raise ValueError("must is missing")

    for name, kind, words in (
        ("half", Half, "must have all methods, but .*Half lacks pairwise"),
        ("needy", Needy, "needs a default for each field, but .*Needy.* fails: must is missing"),
        ("mico", Bounded, "no other metric loss has, got 'mico'"),
        ("Not A Name", Bounded, "lower case"),
    ):
        with pytest.raises(ValueError, match=words):
            register_metric_loss(name, kind)
    with pytest.raises(ValueError, match=r"must be a subclass of .*AbstractMetricLoss, got"):
        METRIC_LOSSES.register("dqn", DQN)
    with pytest.raises(ValueError, match="must be a function of a shape"):
        register_encoder("dense", Dense)
