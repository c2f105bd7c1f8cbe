"""Tables that cannot be scores are refused by name; labels decide what belongs together."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.statistics import difference, estimate, improvement_probability

X = pd.DataFrame([[0.0, 4.0], [1.0, 5.0], [2.0, 12.0]], index=[0, 1, 2], columns=["pong", "qbert"])
Y = X + np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def gap(x, y):
    return difference(x, y, "mean", seed=0, resamples=100)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 5), (5, 0), ()])
@pytest.mark.usefixtures("unchecked")
def test_other_shapes_are_refused(shape):
    message = rf"scores must be a table of runs and tasks, but its shape is \({', '.join(map(str, shape))},?\)"
    with pytest.raises(ValueError, match=message):
        estimate(np.zeros(shape), "iqm", seed=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_named(value):
    wrong = X.copy()
    wrong.loc[1, "qbert"] = value
    with pytest.raises(ValueError, match=f"scores must be finite, but seed 1 of qbert is {value}"):
        estimate(wrong, "iqm", seed=0)
    with pytest.raises(ValueError, match=f"y must be finite, but run 1 of task 1 is {value}"):
        gap(X, wrong.to_numpy())


def test_tables_on_their_side_are_refused():
    named = X.rename_axis(index="seed", columns="env")
    assert estimate(named, "iqm", seed=0, resamples=10)
    numbered = pd.DataFrame(np.zeros((2, 2)), index=pd.Index([0, 1], name="env"), columns=[0, 1])
    for turned in (named.T, X.T, numbered, numbered.rename_axis(index=None, columns="seed")):
        with pytest.raises(ValueError, match="x must have seeds as rows and environments as columns, but its rows are"):
            improvement_probability(turned, turned, seed=0)


def test_labels_that_come_twice_are_refused():
    for twice in (X.set_axis([0, 1, 1]), X.rename(columns={"qbert": "pong"})):
        with pytest.raises(ValueError, match=r"scores must have each seed and each environment once, but (1|pong) is"):
            estimate(twice, "iqm", seed=0)


def test_labels_are_matched_and_not_places():
    expected = gap(X, Y)
    assert expected.value == -3.5
    assert expected.low < -3.5
    assert gap(X, Y.loc[[2, 0, 1], ["qbert", "pong"]]) == expected
    assert gap(X.to_numpy(), Y.loc[[2, 0, 1]]).low != expected.low  # an array has places alone
    wins = improvement_probability(Y, X, seed=0, resamples=100)
    assert improvement_probability(Y, X[["qbert", "pong"]], seed=0, resamples=100) == wins


def test_arms_with_other_tasks_or_seeds_are_refused():
    with pytest.raises(ValueError, match="x and y must have the same tasks, but one of them alone has hero"):
        gap(X, Y.rename(columns={"pong": "hero"}))
    with pytest.raises(ValueError, match="x and y must have the same tasks, but one of them alone has qbert"):
        improvement_probability(X, Y[["pong"]], seed=0)
    with pytest.raises(ValueError, match="x and y must have the same seeds, but one of them alone has 2"):
        gap(X.loc[:1], Y)
    for y, part in ((Y.to_numpy()[:2], "seeds"), (Y.to_numpy()[:, :1], "tasks")):
        with pytest.raises(ValueError, match=rf"x and y must have the same {part}, but their shapes are \(3, 2\)"):
            gap(X, y)
    assert improvement_probability(X, Y.loc[:1].set_axis([7, 8]), seed=0, resamples=10)  # seeds need not be shared
