"""The experiment on state features: what it measures, by plain loops, and that its fields do what they say."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mico.experiments.state_features import READINGS, Config, plot, run, table
from mico.tabular import make, random_policy
from mico.tabular.embeddings import FEATURES

CHEAP = Config(
    grids=("mirrored-rooms",), features=("random", "proto-value-functions", "mico-embedding"), runs=3, sizes=6
)


def errors(config, **where):
    frame = run(config)
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return frame["absolute"].to_numpy()


def drawn(grid, run, **options):
    """What a run draws: goal, policy and the seed of its features."""
    mdp = make(grid, **options).mdp
    draw = np.random.default_rng([run, mdp.num_states])
    goal, policy, seed = int(draw.integers(mdp.num_states)), int(draw.integers(2**31)), int(draw.integers(2**31))
    return goal, policy, seed


def test_errors_by_normal_equations_and_loops():
    frame = run(CHEAP)
    _, policy_seed, seed = drawn("mirrored-rooms", 1)
    mdp = make("mirrored-rooms", discount=0.9).mdp
    chain = mdp.chain(random_policy(mdp, seed=policy_seed))
    value = np.linalg.inv(np.eye(31) - 0.9 * chain.dense_transition()) @ chain.reward
    features = np.random.default_rng(seed).standard_normal((6, 31)).T
    weights = np.linalg.inv(features.T @ features) @ features.T @ value
    absolute = squared = 0.0
    for x in range(31):
        error = value[x] - sum(features[x, j] * weights[j] for j in range(6))
        absolute, squared = absolute + abs(error) / 31, squared + error**2 / 31
    line = frame[(frame["run"] == 1) & (frame["features"] == "random") & (frame["size"] == 6)].iloc[0]
    assert line["absolute"] == pytest.approx(absolute, rel=1e-10)
    assert line["squared"] == pytest.approx(squared, rel=1e-10)


def test_lines_and_sizes():
    frame = run(replace(CHEAP, grids=("four-rooms", "mirrored-rooms"), runs=2))
    assert len(frame) == len(frame.drop_duplicates(["grid", "run", "features", "size"]))
    assert set(frame["run"]) == {0, 1}
    assert set(frame["features"]) == set(CHEAP.features)
    for grid, states in (("four-rooms", 104), ("mirrored-rooms", 31)):
        sizes = set(frame.loc[frame["grid"] == grid, "size"])
        assert min(sizes) == 2
        assert max(sizes) == states
        assert {size for where, size in READINGS if where == grid} <= sizes
    whole = frame[frame["size"] == frame["grid"].map({"four-rooms": 104, "mirrored-rooms": 31})]
    assert (whole["absolute"] < 1e-6).all()


def test_more_sizes():
    assert run(replace(CHEAP, runs=1, sizes=12))["size"].nunique() > run(replace(CHEAP, runs=1))["size"].nunique() + 2


def test_nested_features_never_get_worse():
    frame = run(CHEAP)
    for _, part in frame.groupby(["run", "features"]):
        squared = part.sort_values("size")["squared"].to_numpy()
        assert (np.diff(squared) <= 1e-12).all()


def test_mirrored_rooms_keeps_its_goals_and_the_others_do_not():
    small = replace(CHEAP, grids=("mirrored-rooms", "dayan"), features=("mico-embedding",), runs=1, policy="equal")
    for grid, same in (("mirrored-rooms", True), ("dayan", False)):
        assert np.array_equal(errors(small, grid=grid), errors(replace(small, goals="map"), grid=grid)) == same
    goal, _, _ = drawn("dayan", 0)
    value = make("dayan", goal=goal, discount=0.9).mdp.chain("uniform").value()
    one = replace(small, grids=("dayan",), features=("proto-value-functions",), regression="affine")
    # The first proto-value function is constant: two leave what lies off the second.
    second = FEATURES["proto-value-functions"](make("dayan").mdp.chain("uniform"), 0)(2)[:, 1]
    centred = value - value.mean()
    assert errors(one, size=2)[0] == pytest.approx(np.abs(centred - (centred @ second) * second).mean(), rel=1e-9)


def test_runs_differ_unless_nothing_is_drawn():
    apart = errors(replace(CHEAP, features=("proto-value-functions",)), size=2)
    assert len(set(apart)) == 3
    still = replace(CHEAP, features=("proto-value-functions",), policy="equal")
    assert len(set(errors(still, size=2))) == 1


@pytest.mark.parametrize(
    "change",
    [{"discount": 0.5}, {"dynamics": "continuing"}, {"policy": "dirichlet"}, {"policy": "equal"}],
    ids=lambda change: "-".join(map(str, *change.items())),
)
def test_fields_change_the_value(change):
    config = replace(CHEAP, runs=1)
    assert not np.allclose(errors(config, size=2), errors(replace(config, **change), size=2), rtol=1e-3)


def test_a_constant_helps_random_features_and_not_proto_value_functions():
    linear, affine = (replace(CHEAP, runs=1, regression=kind) for kind in ("linear", "affine"))
    assert errors(affine, features="random", size=2)[0] < 0.9 * errors(linear, features="random", size=2)[0]
    same = errors(linear, features="proto-value-functions", size=2)
    np.testing.assert_allclose(errors(affine, features="proto-value-functions", size=2), same, rtol=1e-9)


def test_the_paper_was_read_for_its_four_kinds_of_features():
    assert READINGS["four-rooms", 48]["proto-value-functions"] == 0.0013
    assert READINGS["dayan", 2]["umap-pi-bisimulation"] == 0.020
    assert all("mico-embedding" not in read and len(read) == 4 for read in READINGS.values())


def test_table_has_means_intervals_and_readings():
    frame = run(CHEAP)
    shown = table(frame).set_index(["features", "size"])
    values = frame.loc[(frame["features"] == "random") & (frame["size"] == 2), "squared"]
    line = shown.loc["random", 2]
    assert line["squared"] == pytest.approx(values.mean())
    assert line["±"] == pytest.approx(4.302653 * values.std() / np.sqrt(3), rel=1e-6)  # Student's t with 2 degrees
    assert line["paper"] == 0.046
    assert np.isnan(shown.loc["mico-embedding", 2]["paper"])
    assert set(shown.loc["random"].index) >= {2, 31}


def test_figure_has_the_readings_as_rings():
    figure = plot(run(CHEAP))
    assert len(figure.axes) == 2
    for ax in figure.axes:
        rings = {
            (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines if len(line.get_xdata()) == 1
        }
        assert rings == {(2.0, 0.018), (2.0, 0.021), (2.0, 0.046)}


@pytest.mark.parametrize(
    "change",
    [
        {"discount": 0.5},
        {"dynamics": "continuing"},
        {"goals": "map"},
        {"policy": "dirichlet"},
        {"regression": "affine"},
    ],
    ids=lambda change: "-".join(map(str, *change.items())),
)
def test_the_papers_readings_stand_beside_no_other_settings(change):
    frame = run(replace(CHEAP, features=("random",), **change))
    assert table(frame)["paper"].isna().all()
    assert all(len(line.get_xdata()) > 1 for ax in plot(frame).axes for line in ax.lines)


def test_where_lines_do_not_tell_their_settings_there_are_no_readings():
    old = run(replace(CHEAP, features=("random",))).drop(columns="like_paper")
    assert table(old)["paper"].isna().all()
    assert all(len(line.get_xdata()) > 1 for ax in plot(old).axes for line in ax.lines)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("grids", ("maze",), "grids must be of four-rooms, mirrored-rooms, dayan, but has 'maze'"),
        ("features", ("mine",), "features must be of .*, but has 'mine'"),
        ("runs", 0, "runs must be at least 1, but is 0"),
        ("features", ("random", "random"), "features must have values, all of them different"),
        ("grids", (), r"grids must have values, all of them different, but is \(\)"),
        ("sizes", 3, "sizes must be at least 4, but is 3"),
        ("discount", 1.0, r"discount must lie in \[0, 1\), but is 1.0"),
        ("dynamics", "odd", "dynamics must be of absorbing, continuing, but has 'odd'"),
        ("goals", "all", "goals must be of drawn, map, but has 'all'"),
        ("policy", "greedy", "policy must be of uniform, dirichlet, equal, but has 'greedy'"),
        ("regression", "cubic", "regression must be of linear, affine, but has 'cubic'"),
    ],
)
def test_bad_fields_are_named(unchecked, field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})


def test_needs_neither_jax_nor_umap_until_asked():
    code = "import sys, mico.experiments.state_features; sys.exit('jax' in sys.modules or 'umap' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
