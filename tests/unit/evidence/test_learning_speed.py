"""How fast arms learn: every number by hand."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.learning_speed import (
    learning_speed,
    learning_targets,
    mean_over_steps,
    speed_differences,
    speed_estimates,
    steps_to,
    tied_at_ceiling,
)
from mico.evidence.run_scores import final_scores
from mico.evidence.scores import with_arms
from mico.runs.tables import read_scores


def rows(**runs):
    """Runs of arms by name, each a list of returns by seed; a row every 10 steps."""
    parts = [
        {"agent": agent, "env": "e", "seed": seed, "step": 10 * number, "score": score}
        for agent, seeds in runs.items()
        for seed, returns in enumerate(seeds)
        for number, score in enumerate(returns, start=1)
    ]
    return with_arms(read_scores(pd.DataFrame(parts)))


def measured(frame, end, last=0.01, window=5):
    ends, _ = final_scores(frame, last=last)
    return learning_speed(frame, ends, {"e": end}, window=window).set_index(["arm", "seed"])


@pytest.mark.parametrize(
    ("steps", "returns", "end", "mean"),
    [
        ([10, 20, 30, 40], [0.0, 0.5, 1.0, 1.0], 40, 0.625),
        ([10, 40], [0.0, 1.0], 40, 0.75),  # 30 of 40 steps have the second
        ([20], [4.0], 100, 4.0),  # before and after its only row
        ([10, 20], [0.0, 1.0], 50, 0.8),  # the last value stays, for 40 of 50 steps
        ([0, 10], [5.0, 1.0], 10, 1.0),  # a row at step 0 has no length
        ([0], [5.0], 0, 5.0),
        ([10, 30], [-3.0, 0.0], 30, -1.0),
    ],
)
def test_the_area_under_a_curve_is_its_mean_over_steps(steps, returns, end, mean):
    assert mean_over_steps(np.array(steps), np.array(returns), end) == pytest.approx(mean)


def test_the_area_is_that_of_every_single_step():
    """A loop over steps, each of which has the return of the first row that is not before it."""
    rng = np.random.default_rng(0)
    steps, end = np.sort(rng.choice(np.arange(1, 60), 12, replace=False)), 64
    returns = rng.normal(size=12)
    each = [returns[min(np.searchsorted(steps, step), 11)] for step in range(1, end + 1)]
    assert mean_over_steps(steps, returns, end) == pytest.approx(np.mean(each))
    assert np.isnan(mean_over_steps(steps[:0], returns[:0], end))


@pytest.mark.parametrize(
    ("returns", "window", "step"),
    [
        ([0.0, 0.9, 1.0, 1.0], 5, 20),
        ([1.0, 0.0, 0.0, 1.0], 2, 40),  # the first was luck, and at the end there is one row to judge by
        ([1.0, 0.0, 0.0, 1.0], 1, 10),
        ([0.8, 1.0, 1.0, 1.0], 3, 20),  # the mean from the first row on is high enough, but not the row itself
        ([0.89, 0.89, 0.89, 0.89], 5, np.nan),
        ([1.0, 0.7, 1.0, 0.7], 2, np.nan),
        ([], 5, np.nan),
    ],
)
def test_a_threshold_is_reached_where_it_is_held(returns, window, step):
    steps = 10 * np.arange(1, 1 + len(returns))
    assert steps_to(steps, np.array(returns), 0.9, window=window) == pytest.approx(step, nan_ok=True)


def test_the_threshold_is_nine_tenths_of_the_best_arm():
    frame = rows(a=[[0.0, 10.0], [0.0, 8.0]], b=[[0.0, 2.0], [0.0, 20.0]])
    ends, _ = final_scores(frame, last=0.01)
    assert learning_targets(frame, ends).loc["e"].to_dict() == {"floor": 0, "ceiling": 11, "threshold": 9.9}


def test_the_best_of_an_arm_is_without_its_worst_and_best_run_of_four():
    frame = rows(a=[[1.0], [2.0], [4.0], [50.0]], b=[[2.0], [2.0], [2.0], [2.0]])
    ends, _ = final_scores(frame, last=0.01)
    assert learning_targets(frame, ends).loc["e"].to_dict() == pytest.approx(
        {"floor": 0, "ceiling": 3, "threshold": 2.7}
    )


def test_with_negative_returns_it_is_nine_tenths_of_the_way_from_the_first_return():
    frame = rows(a=[[-100.0, -50.0, -10.0]], b=[[-60.0, -30.0, -20.0]])
    ends, _ = final_scores(frame, last=0.01)
    assert learning_targets(frame, ends).loc["e"].to_dict() == {"floor": -80, "ceiling": -10, "threshold": -17}
    found = measured(frame, 30)
    assert found.loc[("a", 0), ["steps", "reached"]].tolist() == [30, True]
    assert found.loc[("b", 0), ["steps", "reached"]].tolist() == [30, False]


def test_runs_that_never_reach_it_count_with_all_their_steps():
    frame = rows(a=[[0.0, 0.5, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], b=[[0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0]])
    found = measured(frame, 40)
    assert found["steps"].to_dict() == {("a", 0): 30, ("a", 1): 10, ("b", 0): 40, ("b", 1): 30}
    assert found["reached"].to_dict() == {("a", 0): True, ("a", 1): True, ("b", 0): False, ("b", 1): True}
    assert found["mean"].to_dict() == {("a", 0): 0.625, ("a", 1): 1, ("b", 0): 0.125, ("b", 1): 0.5}


def test_where_nothing_is_learnt_there_is_no_threshold():
    found = measured(rows(a=[[0.0, 0.0]], b=[[0.0, 0.0]]), 20)
    assert found["steps"].isna().all()
    assert not found["reached"].any()
    assert found["mean"].tolist() == [0, 0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_returns_that_are_not_finite_are_left_out(wrong):
    frame = rows(a=[[wrong, 1.0, 1.0]])
    assert measured(frame, 30).loc[("a", 0), ["mean", "steps"]].tolist() == [1.0, 20]


@pytest.mark.parametrize(
    ("runs", "tied"),
    [
        ({"a": [[0.0, 1.0], [0.2, 1.0]], "b": [[0.0, 1.0], [0.0, 1.0]]}, True),
        ({"a": [[0.0, 1.0], [0.0, 1.0]], "b": [[0.0, 0.992], [0.0, 1.0]]}, True),  # within a hundredth
        ({"a": [[0.0, 1.0], [0.0, 1.0]], "b": [[0.0, 0.97], [0.0, 1.0]]}, False),
        ({"a": [[0.0, 1.0]] * 4, "b": [[0.0, 1.0]] * 3 + [[0.0, 0.0]]}, True),  # the worst of four is trimmed
        ({"a": [[0.0, 1.0]] * 4, "b": [[0.0, 1.0]] * 2 + [[0.0, 0.0]] * 2}, False),
        ({"a": [[0.0, 5.0], [0.0, 9.0]], "b": [[0.0, 5.0], [0.0, 9.0]]}, False),  # equal, but far from the best run
        ({"a": [[0.0, 0.0]], "b": [[0.0, 0.0]]}, False),  # equal, and nothing learnt
        ({"a": [[-50.0, -13.0]], "b": [[-90.0, -13.0]]}, True),
        ({"a": [[0.0, 1.0]]}, False),  # one arm has nothing to be told from
    ],
)
def test_arms_are_tied_where_most_runs_of_each_score_as_the_best(runs, tied):
    frame = rows(**runs)
    ends, _ = final_scores(frame, last=0.01)
    assert tied_at_ceiling(frame, ends) == (["e"] if tied else [])


def test_means_over_seeds_with_what_was_reached():
    """Steps 30, 10 and 40, 30: the second arm's first run never gets there, so its 35 is a lower bound."""
    frame = rows(a=[[0.0, 0.5, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], b=[[0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0]])
    speed = learning_speed(frame, final_scores(frame, last=0.01)[0], {"e": 40})
    found = speed_estimates(speed, seed=0, resamples=200).set_index(["arm", "measure"])
    assert found["value"].to_dict() == {
        ("a", "mean"): 0.8125,
        ("a", "steps"): 20,
        ("b", "mean"): 0.3125,
        ("b", "steps"): 35,
    }
    assert found["reached"].to_dict() == {cell: 2 if cell[0] == "a" else 1 for cell in found.index}
    assert set(found["runs"]) == {2}
    assert found.loc[("a", "steps"), ["low", "high"]].tolist() == [10, 30]


def test_differences_are_paired_by_seed():
    """Seeds 0 and 1 are shared: differences of steps of 0 and 10, of means of 0.5 and 0.25."""
    frame = rows(
        a=[[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]],
        b=[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]],
    )
    speed = learning_speed(frame, final_scores(frame, last=0.01)[0], {"e": 40})
    found = speed_differences(speed, {"a": "b"}, seed=0, resamples=500).set_index("measure")
    assert found["value"].to_dict() == {"mean": 0.375, "steps": -15}
    assert found[["low", "high"]].to_numpy().tolist() == [[0.25, 0.5], [-20, -10]]
    assert set(found["seeds"]) == {2}
    assert speed_differences(speed, {"b": "c"}, seed=0).empty


def test_steps_that_no_run_has_taken_are_not_compared():
    frame = rows(a=[[0.0, 1.0]], b=[[0.0, 1.0]], c=[[0.0, 5.0]])
    speed = learning_speed(frame, final_scores(frame, last=0.01)[0], {"e": 20})
    assert speed_differences(speed, {"a": "b"}, seed=0)["measure"].tolist() == ["mean"]
    assert speed_differences(speed, {"a": "c"}, seed=0)["measure"].tolist() == ["mean", "steps"]


def test_arms_without_a_common_seed_are_not_compared():
    frame = rows(a=[[0.0, 1.0]], b=[[0.0, 1.0]])
    speed = learning_speed(frame, final_scores(frame, last=0.01)[0], {"e": 20})
    speed.loc[speed["arm"] == "b", "seed"] = 7
    assert speed_differences(speed, {"a": "b"}, seed=0).empty
