"""The Garnet figure: gaps by loops over pairs with other solvers, laws of every pair, and averages known beforehand."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from scipy import stats

import references
from mico.experiments import value_gap
from mico.experiments.value_gap import Config, plot, run, table

TINY = Config(states=(3,), actions=(2,), mdps=2, policies=2, branching=("printed",))


@pytest.fixture
def drawn(monkeypatch):
    """The MDPs that an experiment draws, each with its policies."""
    found = []

    def garnet(*sizes, **options):
        problem = make_mdp(*sizes, **options)
        found.append((problem.mdp, []))
        return problem

    def random_policy(mdp, **options):
        found[-1][1].append(make_policy(mdp, **options))
        return found[-1][1][-1]

    make_mdp, make_policy = value_gap.garnet, value_gap.random_policy
    monkeypatch.setattr(value_gap, "garnet", garnet)
    monkeypatch.setattr(value_gap, "random_policy", random_policy)
    return found


@pytest.fixture(scope="module")
def frame():
    return run(Config(states=(2, 3, 6), actions=(2, 4), mdps=6, policies=2))


def value_by_sweeps(mdp, policy):
    value = np.zeros(mdp.num_states)
    for _ in range(300):
        value = (policy * (mdp.reward + mdp.discount * np.einsum("xay,y->xa", mdp.transition, value))).sum(axis=1)
    return value


def distances(name, mdp, policy):
    """By SciPy's solvers: Lyapunov, linear programs, and distances between samples."""
    chain, cost, precision = mdp.chain(policy), references.transport_cost, 1e-7
    solved = partial(references.fixed_point, num_states=mdp.num_states, discount=mdp.discount, precision=precision)
    return {
        "mico": lambda: references.mico(chain),
        "reduced-mico": lambda: references.reduced(references.mico(chain)),
        "reward-law": lambda: references.reward_law(chain, precision),
        "pi-bisimulation": lambda: solved(partial(references.update_of_policy, chain, cost)),
        "bisimulation": lambda: solved(partial(references.update_of_bisimulation, mdp, cost)),
    }[name]()


@pytest.mark.parametrize("name", Config().metrics)
def test_gaps_are_those_of_loops_over_policies_and_pairs(drawn, name):
    frame = run(replace(TINY, metrics=(name,)))
    assert len(frame) == len(drawn) == 2
    for line, (mdp, policies) in zip(frame.itertuples(), drawn):
        gaps = []
        for policy in policies:
            d, value = distances(name, mdp, policy), value_by_sweeps(mdp, policy)
            gaps += [d[x, y] - abs(value[x] - value[y]) for x, y in product(range(3), repeat=2)]
        assert len(gaps) == 2 * 9
        assert line.gap == pytest.approx(np.mean(gaps), abs=1e-6)
        assert line.lowest == pytest.approx(min(gaps), abs=1e-6)
        assert line.broken == np.mean([gap < -1e-6 for gap in gaps])


@pytest.mark.parametrize("name", ["mico", "pi-bisimulation", "reward-law"])
def test_what_bounds_the_values_of_every_policy_does_so_for_every_pair(frame, name):
    rows = frame[frame["metric"] == name]
    assert (rows["lowest"] >= -1e-8).all()
    assert (rows["broken"] == 0).all()


def test_gaps_are_in_order(frame):
    gap = frame.pivot(index=["branching", "states", "actions", "mdp"], columns="metric", values="gap")
    assert (gap["reduced-mico"] <= gap["reward-law"] + 1e-8).all()
    assert (gap["reward-law"] <= gap["pi-bisimulation"] + 1e-8).all()
    assert (gap["pi-bisimulation"] <= gap["mico"] + 1e-8).all()


def test_the_reduced_distance_is_no_bound(frame):
    rows = frame[(frame["metric"] == "reduced-mico") & (frame["states"] == 6)]
    assert 0.3 < rows["broken"].mean() < 0.55
    assert rows["lowest"].min() < -0.05


def test_bisimulation_is_no_bound_for_a_policy_but_breaks_seldom():
    rows = run(Config(states=(2,), actions=(2,), mdps=60, policies=2, metrics=("bisimulation",)))
    assert 0 < rows["broken"].mean() < 0.2
    assert rows["lowest"].min() < -0.01


@pytest.mark.parametrize(
    ("rule", "law", "known"),
    [
        ("printed", "uniform", (0.75, 1.11, 1.28, 1.65, 1.78)),
        ("printed", "dirichlet", (0.80, 1.16, 1.38, 1.80, 1.91)),
        ("n-1", "uniform", (0.62, 1.04, 1.26, 1.64, 1.76)),
    ],
)
def test_averages_over_many_mdps_are_the_known_ones(rule, law, known):
    sizes = (2, 3, 4, 10, 20)
    config = Config(states=sizes, mdps=60, policies=1, branching=(rule,), law=law, metrics=("mico",))
    by_size = run(config).groupby("states")["gap"]
    error = by_size.std() / np.sqrt(4 * 60)
    assert (np.abs(by_size.mean() - np.array(known)) < 4 * error + 0.01).all()
    assert (error < 0.05).all()


def test_averages_of_a_small_garnet_are_the_known_ones():
    metrics = ("mico", "pi-bisimulation", "reduced-mico")
    config = Config(states=(5,), actions=(2,), mdps=200, policies=1, branching=("printed",), law="dirichlet")
    by_metric = run(replace(config, metrics=metrics)).groupby("metric")["gap"]
    error = by_metric.std() / np.sqrt(200)
    assert (
        np.abs(by_metric.mean()[list(metrics)] - np.array([1.74, 0.18, 0.02])) < 4 * error[list(metrics)] + 0.01
    ).all()


def test_sizes_and_numbers_are_those_of_the_config(drawn):
    frame = run(Config(states=(2, 5), actions=(1, 3), mdps=3, policies=4, metrics=("mico", "reward-law")))
    shapes = [mdp.shape for mdp, _ in drawn]
    assert shapes == [shape for shape in product((2, 5), (1, 3)) for _ in range(3)] * 2
    assert [len(policies) for _, policies in drawn] == [4] * 24
    assert frame["metric"].tolist() == ["mico", "reward-law"] * 24
    assert frame["branching"].tolist() == ["printed"] * 24 + ["n-1"] * 24
    assert frame["mdp"].tolist() == np.tile(np.repeat([0, 1, 2], 2), 8).tolist()


def test_no_two_draws_are_alike(drawn):
    run(Config(states=(4,), actions=(2, 3), mdps=3, policies=3, metrics=("mico",)))
    rewards = {mdp.reward.tobytes() for mdp, _ in drawn[:6]}
    policies = {policy.tobytes() for _, several in drawn[:6] for policy in several}
    assert (len(rewards), len(policies)) == (6, 18)


def test_the_seed_decides_all_draws():
    config = replace(TINY, metrics=("mico",))
    pd.testing.assert_frame_equal(run(config), run(config))
    assert not np.isin(run(config)["gap"], run(replace(config, seed=1))["gap"]).any()


def test_branching_is_that_of_the_rule(drawn):
    run(Config(states=(2,), actions=(2,), mdps=20, policies=1, metrics=("mico",)))
    most = [max((mdp.transition > 0).sum(axis=2).max() for mdp, _ in half) for half in (drawn[:20], drawn[20:])]
    assert most == [2, 1]


@pytest.mark.parametrize(("law", "flat"), [("uniform", False), ("dirichlet", True)])
def test_policies_are_of_the_law(drawn, law, flat):
    run(Config(states=(20,), actions=(2,), mdps=5, policies=10, branching=("printed",), law=law, metrics=("mico",)))
    first = np.concatenate([policy[:, 0] for _, policies in drawn for policy in policies])
    assert (stats.kstest(first, "uniform").pvalue > 1e-3) == flat


def test_without_a_future_the_gap_is_nothing():
    frame = run(replace(TINY, discount=0.0, metrics=("mico", "pi-bisimulation", "reward-law")))
    assert np.abs(frame["gap"]).max() < 1e-12
    assert run(replace(TINY, metrics=("mico",)))["gap"].min() > 0.01


def by_hand():
    where = {"branching": "printed", "mdp": 0, "metric": "mico", "lowest": 0.0, "like_paper": True}
    gaps = [(2, 2, 1.0, 0.0), (2, 5, 3.0, 0.5), (7, 2, 8.0, 0.1)]
    return pd.DataFrame([where | dict(zip(("states", "actions", "gap", "broken"), each)) for each in gaps])


def test_the_table_has_means_intervals_and_the_papers_readings():
    first, last = table(by_hand()).to_dict("records")
    assert (first["states"], first["gap"], first["broken"], first["paper"]) == ("2", 2.0, 0.25, "0.57")
    assert first["spread"] == pytest.approx(np.sqrt(2))
    assert first["±"] == pytest.approx(12.706, abs=1e-3)  # Student's quantile for one degree of freedom
    assert (last["states"], last["gap"], last["paper"]) == ("all", 4.0, "–")
    assert last["broken"] == pytest.approx(0.2)


@pytest.mark.parametrize("told", [[], [None, True, True]], ids=["never", "not always"])
def test_where_lines_do_not_tell_their_settings_there_are_no_readings(told):
    """As in folders from before they did, whole or gone on with."""
    old = by_hand().drop(columns="like_paper").assign(**({"like_paper": told} if told else {}))
    assert set(table(old)["paper"]) == {"–"}
    assert not any(line.get_marker() == "D" for line in plot(old).axes[0].lines)


def test_the_table_shows_all_sizes_if_the_paper_has_none_of_them():
    assert table(by_hand().query("states == 7"))["states"].tolist() == ["7", "all"]


def test_the_table_has_a_line_for_each_metric_rule_and_size_read_off(frame):
    lines = table(frame)
    assert len(lines) == 5 * 2 * 3
    spans = lines[(lines["metric"] == "pi-bisimulation") & (lines["states"] != "all")]["paper"]
    assert set(spans) == {"0.10–0.14"}
    one = frame.query("metric == 'reward-law' and branching == 'n-1' and states == 3")
    line = lines.query("metric == 'reward-law' and branching == 'n-1' and states == '3'").iloc[0]
    assert line["gap"] == pytest.approx(one["gap"].sum() / 12)


def test_the_figure_shows_means_circles_and_the_papers_readings(frame):
    whole = plot(frame).axes[0]
    part = frame[(frame["branching"] == "printed") & (frame["metric"] == "mico")]
    line = next(line for line in whole.lines if line.get_label() == "U")
    assert line.get_ydata() == pytest.approx([part.loc[part["states"] == n, "gap"].mean() for n in (2, 3, 6)])
    circles = next(each for each in whole.collections if isinstance(each, PathCollection))
    areas, heights = circles.get_sizes(), circles.get_offsets()[:, 1]
    assert areas[1] / areas[0] == pytest.approx(2)  # four actions and two
    assert heights[1] == pytest.approx(part.query("states == 2 and actions == 4")["gap"].mean())
    diamonds = next(line for line in whole.lines if line.get_marker() == "D")
    assert dict(zip(*diamonds.get_data())) == {2: 0.57, 3: 1.0, 4: 1.2, 10: 1.64, 20: 1.77}


def test_the_figure_shows_broken_shares_below(frame):
    figure = plot(frame)
    assert len(figure.axes) == 6
    part = frame[(frame["branching"] == "n-1") & (frame["metric"] == "reduced-mico")]
    heights = [part.loc[part["states"] == n, "broken"].mean() for n in (2, 3, 6)]
    assert any(np.allclose(line.get_ydata(), heights) for line in figure.axes[5].lines)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [({}, True), ({"discount": 0.5}, False), ({"law": "dirichlet"}, False), ({"actions": (2, 6)}, False)],
)
def test_the_papers_readings_stand_beside_no_other_settings(changes, shown):
    frame = run(replace(TINY, metrics=("mico",), **changes))
    assert (table(frame)["paper"] == "1.00").any() == shown
    assert any(line.get_marker() == "D" for line in plot(frame).axes[0].lines) == shown


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("states", (), r"states must have values, all of them different, but is \(\)"),
        ("actions", (2, 2), r"actions must have values, all of them different, but is \(2, 2\)"),
        ("metrics", (), "metrics must have values"),
        ("branching", ("printed", "n"), "branching must be 'printed' or 'n-1', not 'n'"),
        ("states", (1, 2), r"states must be at least 2, but is \(1, 2\)"),
        ("actions", (0,), r"actions must be at least 1, but is \(0,\)"),
        ("mdps", 0, "mdps must be at least 1, but is 0"),
        ("policies", 0, "policies must be at least 1, but is 0"),
        ("seed", -1, "seed must be at least 0, but is -1"),
        ("law", "flat", "law must be 'uniform' or 'dirichlet', not 'flat'"),
        ("metrics", ("mica",), "a name in metrics must be one of .*, got 'mica': did you mean mico"),
        ("discount", 1.0, "discount must lie in"),
    ],
)
def test_bad_fields_are_errors(unchecked, field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})
