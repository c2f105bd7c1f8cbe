"""The experiment on sampled distances: what it measures, that its fields do what they say, and its laws."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mico.experiments.cells import in_turn
from mico.experiments.online_convergence import QUICK, Config, plot, run, table
from mico.experiments.sampled_metrics import n_step_mico, sampled_bisimulation
from mico.tabular import garnet, random_policy, solve
from mico.tabular.sampling.online import Schedule, online_mico
from mico.tabular.sampling.simulator import simulate

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL = replace(QUICK, seeds=1, updates=2_000, sweeps=200, samples=(1, 4))
TINY = Config(seeds=1, num_states=3, side=2, updates=200, sweeps=100, samples=(2,))

GOALS = {"td": "mico", "off-policy": "mico", "n-step": "n-step-mico", "mico-sweeps": "mico"}


@pytest.fixture(scope="module")
def frame():
    return run(SMALL)


def of(estimate, problem, config):
    """The errors of one estimate on one problem, without measuring the others."""

    def evaluate(measure, cells):
        return in_turn(measure, [cell for cell in cells if (cell.estimate, cell.problem) == (estimate, problem)])

    return run(config, evaluate)["mean_error"].to_numpy()


def drawn(seed, config):
    """The Garnet and the policy of a seed, and the seeds of its samples and updates."""
    of_mdp, of_policy, samples, updates = np.random.default_rng(seed).integers(2**31, size=4).tolist()
    mdp = garnet(config.num_states, config.num_actions, seed=of_mdp, discount=config.discount).mdp
    return mdp, random_policy(mdp, seed=of_policy), samples, updates


def rows(frame, **where):
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return frame.sort_values("updates")


def last(frame, **where):
    return rows(frame, **where).groupby("seed").last()


def test_lines(frame):
    estimates = {"td", "n-step", "off-policy", "mico-sweeps", "bisimulation-1", "bisimulation-4"}
    assert set(frame["estimate"]) == estimates
    assert set(frame["problem"]) == {"garnet", "grid"}
    assert not frame.duplicated(["problem", "estimate", "target", "seed", "updates"]).any()
    targets = frame.groupby("estimate")["target"].unique().map(set)
    assert targets["td"] == targets["off-policy"] == {"mico"}
    assert targets["n-step"] == {"mico", "n-step-mico"}
    assert targets["mico-sweeps"] == {"mico"}
    assert targets["bisimulation-4"] == {"pi-bisimulation"}
    assert (frame["max_error"] >= frame["mean_error"]).all()
    assert (frame["mean_error"] >= frame["bias"].abs() - 1e-15).all()
    assert frame.groupby("estimate")["updates"].max().to_dict() == {
        name: 2_000 if name in ("td", "n-step", "off-policy") else 200 for name in estimates
    }


@pytest.mark.parametrize("kind", ["td", "n-step", "off-policy"])
def test_errors_of_online_estimates_by_loops(frame, kind):
    mdp, policy, samples, updates = drawn(0, SMALL)
    horizon, acting = (3 if kind == "n-step" else 1), (np.full(mdp.shape, 0.5) if kind == "off-policy" else policy)
    log = simulate(mdp, acting, num_steps=horizon, num_trajectories=18_000, seed=samples)
    if kind == "off-policy":
        log = log._replace(ratio=np.array([policy[x, a] / 0.5 for x, a in zip(log.state, log.action)]))
    found = online_mico(log, 3, 0.9, Schedule(18_000), seed=updates, horizon=horizon).value
    limits = {"mico": solve("mico", mdp, policy, reward="sampled").matrix}
    limits["n-step-mico"] = n_step_mico(mdp, policy, 3)
    target = "n-step-mico" if kind == "n-step" else "mico"
    errors = [found[x, y] - limits[target][x, y] for x in range(3) for y in range(3)]
    line = rows(frame, problem="garnet", estimate=kind, seed=0, target=target).iloc[-1]
    assert line["max_error"] == pytest.approx(max(map(abs, errors)), rel=1e-6)
    assert line["mean_error"] == pytest.approx(sum(map(abs, errors)) / 9, rel=1e-6)
    assert line["bias"] == pytest.approx(sum(errors) / 9, abs=1e-6)


@pytest.mark.parametrize(
    ("estimate", "target", "m", "self_distance"),
    [("bisimulation-4", "pi-bisimulation", 4, "zero"), ("mico-sweeps", "mico", 1, "sampled")],
)
def test_errors_of_swept_estimates_are_those_of_their_tables(frame, estimate, target, m, self_distance):
    mdp, policy, samples, _ = drawn(0, SMALL)
    lines = rows(frame, problem="garnet", estimate=estimate, seed=0, target=target)
    moments = lines["updates"].to_numpy()
    trace = sampled_bisimulation(mdp.chain(policy), m, moments, seed=samples, self_distance=self_distance)
    bias = trace.mean(axis=(1, 2)) - solve(target, mdp, policy).matrix.mean()
    np.testing.assert_allclose(lines["bias"], bias, atol=1e-7)


def test_mico_gets_nearer_and_bisimulation_stays_too_large(frame):
    for problem in ("garnet", "grid"):
        for estimate, target in GOALS.items():
            errors = rows(frame, problem=problem, estimate=estimate, target=target).groupby("updates")["mean_error"]
            assert errors.mean().iloc[-1] < errors.mean().iloc[0] / 3
        wrong = [last(frame, problem=problem, estimate=f"bisimulation-{m}")["bias"].item() for m in (1, 4)]
        assert wrong[0] > wrong[1] > 0


def test_n_step_updates_end_below_mico(frame):
    biases = last(frame, problem="garnet", estimate="n-step", target="mico")["bias"]
    own = last(frame, problem="garnet", estimate="n-step", target="n-step-mico")["mean_error"]
    assert (biases < -4 * own).all()


@pytest.mark.parametrize(
    ("change", "estimate"),
    [
        ({"discount": 0.5}, "td"),
        ({"num_states": 4}, "td"),
        ({"num_actions": 3}, "td"),
        ({"horizon": 2}, "n-step"),
        ({"self_distance": "sampled"}, "bisimulation-2"),
    ],
    ids=lambda value: str(value),
)
def test_fields_change_what_they_name(change, estimate):
    before, after = (of(estimate, "garnet", config) for config in (TINY, replace(TINY, **change)))
    assert not np.allclose(before, after, rtol=1e-3)


def test_the_side_is_that_of_the_grid_alone():
    larger = replace(TINY, side=3)
    np.testing.assert_array_equal(of("bisimulation-2", "garnet", TINY), of("bisimulation-2", "garnet", larger))
    assert not np.allclose(of("bisimulation-2", "grid", TINY), of("bisimulation-2", "grid", larger))


def test_known_self_distances_are_no_error():
    alone = replace(TINY, num_states=1)
    assert (of("bisimulation-2", "garnet", alone) == 0).all()


def made(estimate, target, errors, updates=(10, 100, 1_000)):
    lines = {"problem": "garnet", "estimate": estimate, "target": target, "updates": updates, "bias": -0.5}
    return pd.concat(
        [
            pd.DataFrame(lines | {"seed": seed, "mean_error": factor * np.array(errors), "max_error": 2.0})
            for seed, factor in enumerate((0.9, 1.1))
        ]
    )


def test_table_has_the_slope_of_the_last_decade_and_an_interval():
    noise, bias = (
        made("td", "mico", [9.0, 0.1, 0.1 / np.sqrt(10)]),
        made("bisimulation-2", "pi-bisimulation", [3, 2, 2]),
    )
    shown = table(pd.concat([noise, bias], ignore_index=True)).set_index("estimate")
    assert shown.loc["td", "slope"] == pytest.approx(-0.5)
    assert shown.loc["bisimulation-2", "slope"] == pytest.approx(0, abs=1e-12)
    assert shown.loc["bisimulation-2", "mean_error"] == pytest.approx(2)
    assert shown.loc["bisimulation-2", "±"] == pytest.approx(12.7062 * 0.2, rel=1e-5)  # Student's t, one degree
    assert (shown["bias"] == -0.5).all()
    assert (shown["max_error"] == 2).all()


def test_figure_compares_each_estimate_with_its_own_limit(frame):
    axes = plot(frame).axes
    assert [ax.get_title() for ax in axes] == [
        "garnet: online MICo",
        "grid: online MICo",
        "garnet: bisimulation from m samples",
        "grid: bisimulation from m samples",
    ]
    lines = {line.get_label(): line.get_ydata() for line in axes[0].lines}
    own = rows(frame, problem="garnet", estimate="n-step", target="n-step-mico").groupby("updates")["mean_error"].mean()
    np.testing.assert_allclose(lines["n-step, against U_n"], own)
    assert lines["slope −½"][1] / lines["slope −½"][0] == pytest.approx(np.sqrt(2 / 2_000))
    below = {line.get_label() for line in axes[2].lines}
    assert below == {"m = 1", "m = 4", "MICo, against U", "slope −½"}


def test_legends_stand_beside_their_row_and_cover_nothing(frame):
    figure = plot(frame)
    FigureCanvasAgg(figure).draw()
    for legend, row in zip(figure.legends, (figure.axes[:2], figure.axes[2:]), strict=True):
        box = legend.get_window_extent()
        for ax in row:
            panel = ax.get_tightbbox()
            assert box.x0 > panel.x1
            assert min(box.y1, panel.y1) > max(box.y0, panel.y0)
            assert ax.get_legend() is None
            colours = {line.get_label(): line.get_color() for line in ax.lines}
            shown = zip(legend.get_texts(), legend.get_lines())
            assert {text.get_text(): line.get_color() for text, line in shown} == colours


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("seeds", 0, "seeds must be at least 1, but is 0"),
        ("num_states", 0, "num_states must be at least 1"),
        ("num_actions", 0, "num_actions must be at least 1"),
        ("side", 0, "side must be at least 1"),
        ("horizon", 0, "horizon must be at least 1"),
        ("updates", 99, "updates must be at least 100, but is 99"),
        ("sweeps", 99, "sweeps must be at least 100, but is 99"),
        ("samples", (), "samples must hold positive numbers"),
        ("samples", (1, 1), "samples must hold positive numbers, all of them different"),
        ("samples", (2, 0), r"samples must hold positive numbers, all of them different, but is \(2, 0\)"),
        ("discount", 1.0, r"discount must lie in \[0, 1\), but is 1.0"),
        ("self_distance", "one", "self_distance must be 'sampled' or 'zero', not 'one'"),
    ],
)
def test_bad_fields_are_named(unchecked, field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})


def test_jax_is_imported_only_when_used():
    code = "import sys, mico.experiments.online_convergence; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
