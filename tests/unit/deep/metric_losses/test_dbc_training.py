"""Agents that learn with DBC's losses beside their own: every variant, in a fleet, by flags, and what is refused."""

import re
from dataclasses import replace

import jax
import numpy as np
import pytest

from mico import cli
from mico.deep import load
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import DBC, METRIC_LOSSES, DBCDet, DBCMICo, MICo
from mico.runs.folder import read_runs
from small_runs import CONTINUOUS, assert_close, of_run, small_agent, small_run, trained

pytestmark = pytest.mark.usefixtures("quick_compilation")

STEPS = 80  # with an update every fourth
FLAGS = {
    "network.width": 8,
    "network.latent": 5,
    "network.hidden": 8,
    "replay.capacity": 200,
    "replay.batch-size": 8,
    "schedule.learning-starts": 20,
    "schedule.log-period": 10,
    "metric.hidden": 8,
}
PENDULUM = ["train", "--env", "gym/Pendulum-v1", "--agent", "sac", "--seeds", "0", "1", "--steps", "40"]


def both(agent, metric, other, **parts):
    """Two runs whose metric losses differ in numbers."""
    return small_run(agent, metric, seed=0, **parts), small_run(agent, other, seed=1, **parts)


@jax.jit
def fresh(run):
    return init_params(run, run.env.spec)


def changed(before, after):
    """For each array, whether it is another, rounding apart."""
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    return [not np.allclose(old, new, rtol=0, atol=1e-5) for old, new in pairs]


LEARNING = {
    "sac": both("sac", None, None),
    "sac-mico": both("sac", MICo(alpha=0.1, second="frozen"), MICo(alpha=0.2, second="frozen")),
    "sac-dbc": both("sac", DBC(hidden=8), DBC(hidden=8, weight=0.1)),
    "sac-dbc-det": both("sac", DBCDet(hidden=8), DBCDet(hidden=8, weight=0.1)),
    "sac-dbc-mico": both("sac", DBCMICo(hidden=8), DBCMICo(hidden=8, weight=0.1, beta=0.3)),
    "dqn-dbc": both("dqn", DBC(hidden=8), DBC(hidden=8, weight=0.1)),
    "dqn-dbc-three-steps": both(small_agent(horizon=3), DBC(hidden=8), DBC(hidden=8, weight=0.1)),
    "dqn-dbc-original": both("dqn", DBC("original", hidden=8), DBC("original", 0.1, 8)),
}


QUICK = ("sac-dbc", "dqn-dbc-three-steps")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in LEARNING if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_agents_learn_beside_it_in_a_fleet(name):
    runs = LEARNING[name]
    state, tallies = trained(runs, STEPS, learns_from=0)
    np.testing.assert_array_equal(state.bad_step, -1)
    assert (tallies.updates.sum(axis=0) == STEPS / 4).all()
    for losses in (tallies.loss, tallies.td_loss, tallies.metric_loss):
        assert np.isfinite(losses).all()
    assert (tallies.metric_loss.sum(axis=0) != 0).all() == (runs[0].metric is not None)
    for index, run in enumerate(runs):
        before, after = fresh(run), of_run(state.params, index)
        assert all(changed(before.encoder, after.encoder))
        assert all(changed(before.metric, after.metric))
        assert len(changed(before.metric, after.metric)) == (12 if "dbc" in name else 0)


@pytest.mark.slow
def test_a_fleet_is_its_single_runs():
    with jax.enable_x64(True):
        runs = LEARNING["sac-dbc-mico"]
        together, _ = trained(runs, STEPS, learns_from=0)
        alone, _ = trained(runs[1:], STEPS, learns_from=0)
    assert_close(of_run(together.params, 1), of_run(alone.params, 0))


@pytest.mark.parametrize(
    "name", ["dbc", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dbc-det", "dbc-mico"))]
)
def test_in_the_rewrite_pairs_alone_train_the_representation(name):
    """If critics read what the actor does; without a weight nothing is left that trains the encoder."""
    kind = METRIC_LOSSES[name]
    agent = small_agent("sac", critics_read="actor")
    runs = both(agent, kind("rewrite", 0.0, 8), kind("rewrite", 0.5, 8))
    state, _ = trained(runs, STEPS, learns_from=0)
    for index, (run, weight) in enumerate(zip(runs, (0.0, 0.5), strict=True)):
        before, after = fresh(run), of_run(state.params, index)
        assert set(changed(before.encoder, after.encoder)) == {weight > 0}
        assert all(changed((before.head, before.metric), (after.head, after.metric)))


@pytest.mark.slow
def test_critics_that_read_the_representation_train_it_in_the_rewrite_too():
    run = small_run("sac", DBC("rewrite", 0.0, 8), seed=0)
    state, _ = trained([run], STEPS, learns_from=0)
    assert all(changed(fresh(run).encoder, of_run(state.params, 0).encoder))


# By flags


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ("--metric dbc --metric.variant original --network.squash none", ("original", "none", "representation")),
        pytest.param(
            "--metric dbc --metric.variant rewrite --agent.critics-read actor",
            ("rewrite", "tanh", "actor"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_sources_by_their_flags(flags, fields, tmp_path):
    small = [text for name, value in FLAGS.items() for text in (f"--{name}", str(value))]
    cli.main([*PENDULUM, *flags.split(), *small, "--out", str(tmp_path / "out")])
    rows = read_runs(tmp_path / "out")
    losses = rows[rows.name.isin(["loss", "td_loss", "metric_loss"])].value
    assert len(losses) >= 6
    assert np.isfinite(losses).all()
    for seed in (0, 1):
        run = load(tmp_path / "out" / f"sac-dbc-seed{seed}")
        settings = run.settings
        assert (settings.metric.variant, settings.network.squash, settings.agent.critics_read) == fields
        assert any(changed(fresh(settings).metric, run.params.metric))
        one, other = np.random.default_rng(0).normal(size=(2, 3))
        gap = run.represent(one).astype(float) - run.represent(other)
        smooth = np.where(np.abs(gap) < 1, gap**2 / 2, np.abs(gap) - 0.5).mean()
        expected = smooth if fields[0] == "original" else np.abs(gap).sum()
        assert run.distance(one, other) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--env mdp/two-state --metric dbc --metric.variant rewrite", "'rewrite' needs an agent with an actor.*'dqn'"),
        ("--env mdp/two-state --metric dbc --metric.variant original --agent.horizon 3", "horizon must be 1.*3"),
        ("--env gym/Pendulum-v1 --agent sac --metric dbc --metric.variant rewrite --agent.horizon 3", "horizon.*3"),
        ("--env gym/Pendulum-v1 --agent sac --metric dbc --metric.weight -1", "weight must lie in.*-1"),
        ("--env gym/Pendulum-v1 --agent sac --metric dbc --metric.hidden 0", "hidden must be.*0"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(flags, message, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *flags.split(), "--steps", "100", "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_a_run_is_refused_at_construction():
    run = small_run("sac", DBC("rewrite"), seed=0)
    with pytest.raises(ValueError, match="horizon must be 1"):
        replace(run, agent=small_agent("sac", horizon=3))
    with pytest.raises(ValueError, match="needs an agent with an actor"):
        small_run("dqn", DBC("rewrite"), seed=0)
    assert run.env == CONTINUOUS["env"]
