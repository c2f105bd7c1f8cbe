"""Every row of the tables of deviations against the code: defaults are what it says, and other readings exist."""

import dataclasses
import re
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.agents import td
from mico.deep.config.choices import Choice
from mico.deep.envs import environment
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.metric_losses.mico import angle
from mico.deep.networks.layers import Projection
from mico.deep.types import Spec
from small_runs import small_run, trained

PAGE = Path(__file__).parents[4] / "docs" / "deviations.md"
HEADER = ["printed or released", "ours", "our default", "the other reading"]
# What the flags of a section are of, where a row does not say.
SECTIONS = {
    "The MICo loss": ("atari/pong", "dqn", "mico"),
    "Value agents": ("atari/pong", "dqn", "none"),
    "Continuous control": ("control/cartpole-swingup", "sac", "none"),
}


def rows():
    section, inside = "", False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        section = line.removeprefix("## ") if line.startswith("## ") else section
        inside = cells == HEADER or (inside and bool(cells))
        if inside and cells != HEADER and not cells[0].startswith("---"):
            yield pytest.param(section, *cells, id=cells[0][:60])


ROWS = [*rows()]


def chosen(section, cell):
    """The choice that flags are of, and their values by the names of fields."""
    assert re.fullmatch(r"`[^`]+`", cell), f"{cell} must be flags, or –"
    words = shlex.split(cell.strip("`"))
    names = (flag.removeprefix("--").replace("-", "_") for flag in words[::2])
    given = dict(zip(names, words[1::2], strict=True))
    env, agent, metric = SECTIONS[section]
    choice = Choice(env, given.pop("agent", agent), given.pop("metric", metric), None)
    options = {f"{part}.{option.name}": option for part, own in choice.options().items() for option in own}
    assert given
    return {name: (options[name], options[name].fitted(number(value))) for name, value in given.items()}


def number(word):
    try:
        return float(word) if "." in word or "e" in word else int(word)
    except ValueError:
        return word


def test_the_tables_are_found():
    assert {row.values[0] for row in ROWS} == set(SECTIONS)
    assert len(ROWS) > 30


@pytest.mark.parametrize(("section", "released", "ours", "default", "other"), ROWS)
def test_a_row_is_true(section, released, ours, default, other):
    """Flags of the default are the default, those of the other reading are another; what has none is checked here."""
    checks = [check for start, check in CONSTANTS.items() if released.startswith(start)]
    for check in checks:
        check()
    if default == "–":
        assert len(checks) == 1
        return
    usual = chosen(section, default)
    for option, value in usual.values():
        assert option.default == value
    if other == "–":
        return
    another = chosen(section, other)
    assert another.keys() == usual.keys()
    assert all(another[name][1] != value for name, (_, value) in usual.items())


def angles_of_vectors_to_themselves_are_0():
    for x in (jnp.zeros(4), jnp.full(4, 1e-20), jnp.arange(4.0)):
        assert angle(x, x) == 0
        assert np.all(np.isfinite(jax.grad(angle)(x, x)))


def quantile_losses_are_divided_by_kappa():
    """At an error far above κ: |u| − κ/2, times |τ − 1{u < 0}|."""
    found = td.quantile_huber(jnp.zeros(1), jnp.full(1, 0.25), jnp.full(1, 10.0), 2.0)
    np.testing.assert_allclose(found, 0.25 * (10 - 1))


def steps_are_those_of_the_agent():
    """An update each four agent steps, however many episodes began in between."""
    run = small_run(env=environment("mdp/frozen-lake", max_steps=3), seed=0)
    _, tallies = trained([run], 80, learns_from=0)
    assert tallies.episodes.sum() > 20
    assert tallies.updates.sum() == 80 / run.schedule.update_period


def encoders_have_no_decoder():
    run = small_run("sac", seed=0)
    encoder = init_params(run, run.env.spec).encoder
    assert {field.name for field in dataclasses.fields(encoder)} == {"layers", "projection", "rectified", "precision"}


def one_optimiser_moves_each_number_by_itself():
    """Adam's first step is the learning rate for every number with a gradient, whatever the other gradients are."""
    run = small_run("sac", seed=0)
    optimiser, params = run.agent.optimiser(), {"critic": jnp.ones(2), "temperature": jnp.ones(())}
    gradients = {"critic": jnp.asarray([1e3, -1e-2]), "temperature": jnp.float32(5.0)}
    changes, _ = optimiser.update(gradients, optimiser.init(params))
    rate = run.agent.learning_rate
    np.testing.assert_allclose(changes["critic"], [-rate, rate], rtol=1e-4)
    np.testing.assert_allclose(changes["temperature"], -rate, rtol=1e-4)


def layer_norms_have_these_epsilons():
    key = jax.random.key(0)
    assert Projection(4, 2, "tanh", "orthogonal", key=key).norm.eps == 1e-6
    models = METRIC_LOSSES["dbc"]().init(key, 4, Spec((1,), "float32", 0, 2))
    assert (models.dynamics.norm.eps, models.reward.norm.eps) == (1e-5, 1e-5)


CONSTANTS = {
    "the angle has 1e-9": angles_of_vectors_to_themselves_are_0,
    "QR-DQN's quantile loss": quantile_losses_are_divided_by_kappa,
    "the counter of training steps": steps_are_those_of_the_agent,
    'SAC "with the convolutional auto-encoder"': encoders_have_no_decoder,
    "an optimiser for each network": one_optimiser_moves_each_number_by_itself,
    "layer norms have": layer_norms_have_these_epsilons,
}
