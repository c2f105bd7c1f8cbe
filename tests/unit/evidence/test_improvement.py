"""Improvements by hand."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.improvement import improvements

BASE = pd.DataFrame({"a": [1.0, 3.0], "b": [-10.0, -30.0], "c": [4.0, 4.0], "d": [1.0, 1.0], "e": [2.0, 2.0]})


def test_they_are_per_cent_of_the_way_from_random_to_the_baseline():
    x = pd.DataFrame({"a": [4.0, 4.0], "b": [-15.0, -20.0], "c": [5.0, 5.0], "d": [0.5, 0.5], "f": [1.0, 1.0]})
    percent, excluded = improvements(x, BASE, {"a": -2.0, "b": 5.0, "c": 4.0, "f": 0.0, "e": 0.0})
    assert percent.to_dict() == pytest.approx({"a": 100 * 2 / 4, "b": 100 * 2.5 / 25})
    assert percent.index.tolist() == ["a", "b"]
    assert tuple(map(str, excluded)) == (
        "c is left out: the baseline scores as a random policy does, 4",
        "d is left out: no random score is known",
        "f is left out: one of the arms has no score in it",
        "e is left out: one of the arms has no score in it",
    )


def test_a_baseline_below_random_does_not_turn_the_sign():
    percent, _ = improvements(BASE[["a"]] + 1, BASE[["a"]], {"a": 12.0})
    assert percent["a"] == pytest.approx(10)


def test_the_largest_comes_first():
    percent, _ = improvements(BASE + np.array([1.0, 9.0, 0.0, -1.0, 2.0]), BASE, dict.fromkeys("abcde", 0.0))
    assert percent.index.tolist() == ["e", "a", "b", "c", "d"]


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="base must be finite, but seed 0 of a is nan"):
        improvements(BASE, BASE.assign(a=np.nan), {})
