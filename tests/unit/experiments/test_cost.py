"""Times against sizes: which problems are solved, that all ways agree, and powers of made-up times; never a time."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mico.experiments import cost
from mico.experiments.cost import AXES, PAPER, QUICK, TIMINGS, Config, plot, run, table
from mico.experiments.solvers import SOLVERS


@pytest.fixture(scope="module")
def frame():
    return run(QUICK)


def cells(config):
    """What would be measured."""
    found = []

    def evaluate(measure, cells):
        found.extend(cells)
        return pd.DataFrame()

    run(config, evaluate)
    return pd.DataFrame(found)


def made_up(powers=None):
    """Times of two solvers that follow known powers on every axis."""
    config = replace(QUICK, solvers=("mico-entries", "bisimulation-sweeps"), mdps=2)
    given = cells(replace(config, lifted=(4, 8, 16), transport_sweeps=(4, 8, 16), tolerances=(1e-1, 1e-2, 1e-4)))
    powers = powers or PAPER
    x = {
        "states": given["states"],
        "tolerance": np.log(1 / given["tolerance"]),
        "discount": 1 / np.log(1 / given["discount"]),
        "actions": given["actions"],
    }
    power = [powers[SOLVERS[name].metric][against] for name, against in zip(given["solver"], given["against"])]
    values = np.array([x[against][row] for row, against in enumerate(given["against"])], dtype=float)
    return given.assign(iterations=3, error=0.0, apart=0.0, seconds=1e-5 * values**power)


def test_the_quick_version_runs_every_solver_on_every_axis(frame):
    pairs = set(zip(frame["solver"], frame["against"]))
    expected = {(solver, against) for solver in SOLVERS for against in AXES} - {("mico-factored", "actions")}
    assert pairs == expected
    assert np.isfinite(frame[["seconds", "error", "iterations"]]).all(axis=None)


def test_all_solvers_agree_on_the_distances(frame):
    assert (frame["error"] <= frame["tolerance"]).all()
    small = frame[frame["states"] <= QUICK.compared]
    assert (small["apart"] <= 1.01 * small["tolerance"]).all()
    assert set(small["solver"]) == set(SOLVERS)


def test_what_is_no_time_is_the_same_again():
    config = replace(QUICK, solvers=("mico-sweeps", "mico-factored", "reward-law"))
    one, two = run(config), run(config)
    pd.testing.assert_frame_equal(*(frame.drop(columns=list(TIMINGS)) for frame in (one, two)))
    fitted = [*TIMINGS, "exponent", "±"]
    pd.testing.assert_frame_equal(*(table(frame).drop(columns=fitted) for frame in (one, two)))


@pytest.mark.parametrize("field", ["products", "sweeps", "lifted", "transport", "transport_sweeps", "grids"])
def test_sizes_are_those_of_the_solvers_list(field):
    planned = cells(replace(QUICK, **{field: (5, 7)})).query("against == 'states'")
    mine = planned["solver"].map(lambda name: SOLVERS[name].sizes) == field
    assert set(planned[mine]["states"]) == ({25, 49} if field == "grids" else {5, 7})
    assert not set(planned[~mine]["states"]) & {5, 7, 25, 49}


@pytest.mark.parametrize(
    ("field", "values", "against", "usual"),
    [
        ("tolerances", (1e-1, 1e-3, 1e-5), "tolerance", 1e-5),
        ("discounts", (0.7, 0.6), "discount", 0.7),
        ("actions", (3, 5), "actions", 3),
    ],
)
def test_what_varies_does_so_alone(field, values, against, usual):
    planned = cells(replace(QUICK, solvers=("mico", "bisimulation"), **{field: values}))
    varied = planned["against"] == against
    assert sorted(planned[varied][against].unique()) == sorted(values)
    assert set(planned[~varied][against]) == {usual}
    others = [name for name in ("states", "tolerance", "discount", "actions") if name != against]
    assert (planned[varied][others].nunique() == 1).all()


def test_tolerance_discount_and_actions_vary_at_the_given_sizes():
    planned = cells(replace(QUICK, states=9, side=3)).query("against != 'states'")
    assert set(planned["states"]) == {9}
    planned = cells(replace(QUICK, states=9, side=4)).query("against != 'states' and solver == 'mico-factored'")
    assert set(planned["states"]) == {16}
    assert set(planned["actions"]) == {4}


def test_solvers_and_numbers_of_mdps_are_those_of_the_config():
    planned = cells(replace(QUICK, solvers=("reward-law", "mico-factored"), mdps=3))
    assert planned["solver"].unique().tolist() == ["reward-law", "mico-factored"]
    assert planned.groupby("solver")["mdp"].max().to_dict() == {"mico-factored": 0, "reward-law": 2}


def measured_subjects(monkeypatch, config, name="mico"):
    """The problems that a solver is asked to solve, in order."""
    seen = []
    solve = SOLVERS[name].solve

    def spy(subject, tolerance):
        seen.append((subject, tolerance))
        return solve(subject, tolerance)

    monkeypatch.setitem(SOLVERS, name, replace(SOLVERS[name], solve=spy))
    cost.run(config)
    return seen


ONE = replace(QUICK, solvers=("mico",), products=(6,), tolerances=(1e-3,), discounts=(0.9,), actions=(2,), states=6)


@pytest.mark.parametrize("repeats", [1, 3])
def test_each_problem_is_warmed_up_for_and_solved_some_times(monkeypatch, repeats):
    seen = measured_subjects(monkeypatch, replace(ONE, repeats=repeats))
    assert len(seen) == 4 * (1 + repeats)
    assert [subject.num_states for subject, _ in seen] == ([4] + [6] * repeats) * 4
    assert {tolerance for _, tolerance in seen} == {1e-3}


def test_seeds_and_numbers_of_mdps_draw_other_garnets(monkeypatch):
    def rewards(config):
        return [subject.reward.tobytes() for subject, _ in measured_subjects(monkeypatch, config)[1::2]]

    config = replace(ONE, repeats=1, mdps=2)
    first, again, other = rewards(config), rewards(config), rewards(replace(config, seed=1))
    assert first == again
    assert len(set(first)) == 2  # the same two on every axis, for all are of one size here
    assert not set(first) & set(other)


def test_only_small_problems_are_compared():
    config = replace(QUICK, solvers=("mico", "mico-factored"), products=(4, 8), grids=(2, 3), states=4, side=2)
    frame = run(replace(config, compared=4))
    assert (frame["apart"].isna() == (frame["states"] > 4)).all()
    assert run(replace(config, compared=9))["apart"].notna().all()


def test_powers_of_made_up_times_are_found():
    lines = table(made_up())
    assert len(lines) == 8
    assert lines["exponent"].to_numpy() == pytest.approx(lines["paper"].to_numpy(), abs=1e-9)
    slow = table(made_up({metric: dict.fromkeys(AXES, 2) for metric in PAPER}))
    assert slow["exponent"].to_numpy() == pytest.approx(np.full(8, 2.0))
    assert slow["paper"].tolist() == [4, 5, 1, 1, 1, 1, 0, 1]


def test_the_table_shows_the_largest_of_each_axis():
    lines = table(made_up()).set_index(["solver", "against"])
    at = lines.loc["mico-entries", "at"].to_dict()
    assert at == {"states": "16", "tolerance": "0.0001", "discount": "0.9", "actions": "4"}
    assert lines.loc[("mico-entries", "states"), "seconds"] == pytest.approx(1e-5 * 16**4)
    assert (lines["iterations"] == 3).all()


def test_the_figure_has_a_panel_for_each_axis_with_the_papers_powers():
    figure = plot(made_up({metric: dict.fromkeys(AXES, 2) for metric in PAPER}))
    assert [ax.get_xlabel() for ax in figure.axes] == list(AXES.values())
    for ax, against in zip(figure.axes, AXES):
        lines = {line.get_label(): np.log(line.get_xydata()) for line in ax.lines}
        slopes = {label: (xy[-1, 1] - xy[0, 1]) / (xy[-1, 0] - xy[0, 0]) for label, xy in lines.items()}
        for metric in PAPER:
            assert slopes[f"{metric}, the paper's power"] == pytest.approx(PAPER[metric][against])
        assert [slopes[label] for label in slopes if "2.00 ±" in label] == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("products", (), r"products must be at least 2, but is \(\)"),
        ("grids", (1, 4), r"grids must be at least 2, but is \(1, 4\)"),
        ("transport_sweeps", (0,), "transport_sweeps must be at least 2"),
        ("actions", (0,), "actions must be at least 1"),
        ("states", 1, "states must be at least 2, but is 1"),
        ("side", 1, "side must be at least 2, but is 1"),
        ("mdps", 0, "mdps must be at least 1, but is 0"),
        ("repeats", 0, "repeats must be at least 1, but is 0"),
        ("seed", -1, "seed must be at least 0, but is -1"),
        ("tolerances", (1.0,), r"tolerances must lie in \[1e-10, 1\), but is \(1.0,\)"),
        ("tolerances", (), r"tolerances must lie in \[1e-10, 1\), but is \(\)"),
        ("discounts", (0.9, 0.0), r"discounts must lie in \[0.001, 1\), but is \(0.9, 0.0\)"),
        ("solvers", ("mico", "magic"), r"solvers must be among mico, .*, but is \('mico', 'magic'\)"),
        ("solvers", (), "solvers must be among"),
    ],
)
def test_bad_fields_are_errors(field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})
