"""Curves of scores: hand cases of common steps, and aggregates at the end equal to those of the tables."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.curves import aggregate_curves, coinciding, training_curves
from mico.evidence.scores import tabulate
from mico.evidence.statistics import estimate
from mico.runs.tables import read_scores


def runs(scores_of, steps=(10, 20, 30, 40), **more):
    """Rows of runs by (env, seed)."""
    parts = [
        pd.DataFrame({"agent": "dqn", "env": env, "seed": seed, "step": steps[: len(scores)], "score": scores, **more})
        for (env, seed), scores in scores_of.items()
    ]
    return read_scores(pd.concat(parts, ignore_index=True))


def curve(frame, **options):
    return training_curves(frame, **options).set_index("step")["value"].to_dict()


def test_values_are_means_since_the_step_before():
    frame = runs({("gym/a", 0): [1.0, 3.0, 5.0, 9.0]})
    assert curve(frame) == {10: 1, 20: 3, 30: 5, 40: 9}  # no more points than returns
    assert curve(frame, points=2) == {20: 2, 40: 7}
    assert curve(frame, points=1) == {40: 4.5}


def test_gaps_are_filled_with_the_last_value_and_runs_end_where_they_do():
    frame = runs({("gym/a", 0): [1.0, 2.0, 3.0, 4.0]})
    other = runs({("gym/a", 1): [5.0, 7.0]}, steps=(20, 30))
    late = other[other["step"] == 30].assign(name="loss", value=0.0)
    both = pd.concat([frame, other[other["step"] == 20], late], ignore_index=True)
    found = training_curves(both)
    second = found[found["seed"] == 1].set_index("step")["value"].to_dict()
    assert second == {20: 5, 30: 5}


def test_runs_that_end_before_the_first_step_have_a_point_where_they_end():
    """Single scores at other steps: a run that goes on has no return yet where the first one ends."""
    short = runs({("gym/a", 0): [3.0], ("gym/a", 1): [5.0]}, steps=(10,), agent="ppo")
    long = runs({("gym/a", 0): [7.0]}, steps=(20,))
    found = training_curves(pd.concat([short, long], ignore_index=True))
    assert found[["arm", "seed", "step", "value"]].sort_values(["step", "seed"]).to_numpy().tolist() == [
        ["ppo", 0, 10, 3.0],
        ["ppo", 1, 10, 5.0],
        ["dqn", 0, 20, 7.0],
    ]


@pytest.mark.parametrize(
    ("arms", "groups"),
    [
        ({"a": [0, 1, 2], "b": [0, 1, 2]}, [["a", "b"]]),
        ({"a": [0, 1, 2], "b": [2, 1.5, 0], "c": [0, 1, 2], "d": [2, 1.5, 0]}, [["a", "c"], ["b", "d"]]),
        ({"a": [0, 10, 10, 10, 10], "b": [5, 10.05, 5, 5, 5]}, [["a", "b"]]),  # a fifth of the steps
        ({"a": [0, 10, 10, 10, 10, 10], "b": [5, 10, 5, 5, 5, 5]}, []),  # a sixth
        ({"a": [0, 10], "b": [0.2, 9.8]}, []),  # farther apart than a hundredth of 10
        ({"a": [1], "b": [1]}, [["a", "b"]]),
        ({"a": [np.nan, 1], "b": [0, np.nan]}, []),  # no step in common
        ({"a": [0, 1]}, []),
        ({}, []),
    ],
)
def test_which_lines_lie_on_one_another(arms, groups):
    rows = [(arm, step, float(value)) for arm, values in arms.items() for step, value in enumerate(values)]
    assert coinciding(pd.DataFrame(rows, columns=["arm", "step", "value"])) == groups


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_infinite_returns_are_in_no_curve(wrong):
    found = training_curves(runs({("gym/a", 0): [1, wrong, 3, 4], ("gym/a", 1): [5, 6, 7, 8]}), points=4)
    values = {seed: dict(zip(own["step"], own["value"])) for seed, own in found.groupby("seed")}
    assert values == {0: {10: 1, 30: 3, 40: 4}, 1: {10: 5, 20: 6, 30: 7, 40: 8}}


def test_environments_have_their_own_steps_and_runs_keep_their_fields():
    frame = runs({("gym/a", 0): [1.0, 2.0]}, **{"metric": "mico", "metric.alpha": 0.5})
    longer = runs({("gym/b", 0): [1.0, 2.0]}, steps=(1000, 2000), **{"metric": "mico", "metric.alpha": 0.5})
    found = training_curves(pd.concat([frame, longer], ignore_index=True))
    assert found.groupby("env")["step"].agg(list).to_dict() == {"gym/a": [10, 20], "gym/b": [1000, 2000]}
    assert set(found["metric.alpha"]) == {0.5}
    assert set(found["arm"]) == {"dqn + mico"}


def random_runs(seeds=3, envs=("gym/a", "gym/b"), length=20, **more):
    rng = np.random.default_rng(0)
    return runs(
        {(env, seed): rng.normal(size=length) for env in envs for seed in range(seeds)},
        steps=tuple(range(10, 10 * length + 10, 10)),
        **more,
    )


def test_aggregates_at_each_step_are_those_of_the_scores_there():
    frame = random_runs()
    found, excluded = aggregate_curves(frame, "median", seed=4, points=20, resamples=300, level=0.8)
    assert excluded == ()
    assert found["step"].tolist() == list(range(10, 210, 10))
    for row in (found.iloc[6], found.iloc[-1]):
        scores = tabulate(frame[frame["step"] <= row["step"]], last=0.01).tables["dqn"]
        assert tuple(row[["value", "low", "high"]]) == estimate(scores, "median", seed=4, resamples=300, level=0.8)
    other, _ = aggregate_curves(frame, "mean", seed=5, points=5, resamples=300)
    assert other["step"].tolist() == [40, 80, 120, 160, 200]
    assert other["value"].iloc[-1] == pytest.approx(frame.loc[frame["step"] > 160, "value"].mean())
    wider = other["high"] - other["low"]
    narrow, _ = aggregate_curves(frame, "mean", seed=5, points=5, resamples=300, level=0.3)
    assert (wider > narrow["high"] - narrow["low"]).all()
    for change in ({"seed": 6, "resamples": 300}, {"seed": 5, "resamples": 299}):
        changed, _ = aggregate_curves(frame, "mean", points=5, **change)
        assert changed["value"].tolist() == other["value"].tolist()
        assert changed["low"].tolist() != other["low"].tolist()


def test_aggregates_leave_out_what_tables_do_and_say_so():
    """The fifth seed is still going, and the third run's first return comes late."""
    frame = pd.concat([random_runs(), runs({("gym/a", 4): [1.0] * 4, ("gym/b", 4): [1.0] * 4})], ignore_index=True)
    frame = frame[(frame["seed"] != 2) | (frame["step"] > 20)]
    found, excluded = aggregate_curves(frame, "iqm", seed=0, points=20, resamples=10)
    assert found["step"].tolist() == list(range(30, 210, 10))
    assert excluded[:-1] == tabulate(frame).excluded
    assert str(excluded[-1]) == "dqn: a part of 2 of 20 steps is left out: not every run has a finite score there"


def test_aggregates_have_the_runs_whose_last_returns_are_finite():
    """The second of four returns of one run is not a number: it counts among the last four, not among the last two."""
    frame = runs({("gym/a", 0): [1.0, 2.0, 3.0, 4.0], ("gym/a", 1): [5.0, np.nan, 7.0, 8.0]})
    ends = {last: aggregate_curves(frame, "mean", seed=0, points=4, last=last, resamples=10)[0] for last in (0.5, 1.0)}
    assert [frame["value"].iloc[-1] for frame in ends.values()] == [6.0, 4.0]


def test_aggregates_are_normalised():
    frame = random_runs(envs=("atari/pong", "atari/pooyan", "atari/qbert"))
    found, excluded = aggregate_curves(frame, "mean", seed=0, points=1, normalisation="human", resamples=10)
    own = {env: frame.loc[frame["env"] == env, "value"].mean() for env in ("atari/pong", "atari/qbert")}
    expected = [(own["atari/pong"] + 20.7) / 35.3, (own["atari/qbert"] - 163.9) / (13455 - 163.9)]
    assert found["value"].tolist() == pytest.approx([np.mean(expected)])
    assert len(excluded) == 1


def test_aggregates_end_with_the_shortest_environment_and_say_so():
    frame = pd.concat([random_runs(envs=("gym/a",)), random_runs(envs=("gym/b",), length=10)], ignore_index=True)
    found, excluded = aggregate_curves(frame, "mean", seed=0, resamples=10)
    assert found["step"].tolist() == list(range(10, 110, 10))
    assert [*map(str, excluded)] == ["what lies beyond step 100 is left out: not every environment's runs are so long"]


def test_runs_that_have_no_return_yet_have_no_curve():
    frame = random_runs()
    silent = frame[frame["env"] == "gym/a"].assign(name="loss")
    both = pd.concat([silent, frame[frame["env"] == "gym/b"]], ignore_index=True)
    assert set(training_curves(both)["env"]) == {"gym/b"}
    for nothing in (silent, silent.iloc[:0]):
        found = training_curves(nothing)
        assert found.empty
        assert {"arm", "env", "seed", "step", "value", "metric"} <= set(found.columns)
        assert aggregate_curves(nothing, "iqm", seed=0)[0].empty


def test_nothing_comes_of_nothing():
    frame = random_runs(envs=("atari/pooyan",))
    found, excluded = aggregate_curves(frame, "mean", seed=0, normalisation="human")
    assert found.empty
    assert len(excluded) == 1
    with pytest.raises(ValueError, match="points must be 1 or more, but are 0"):
        training_curves(frame, points=0)
