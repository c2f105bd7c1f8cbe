"""The figures of a report: that all has room however many arms there are, and what captions say."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mico.evidence.figures import Drawing, drawings
from mico.evidence.study import Choices, study
from mico.runs.sources import read_sources

SEEDS, STEPS = (0, 1), (1000, 2000)


@pytest.fixture
def drawn(tmp_path):
    """Draws a table of scores: the figures by their names."""

    def draw(rows, normalise=None):
        pd.DataFrame(rows).to_csv(tmp_path / "scores.csv", index=False)
        choices = Choices(normalise, None, 0.1, None, 200, 20, seed=0)
        looked_at = study(read_sources([tmp_path / "scores.csv"]), choices)
        return {one.name: one for one in drawings(looked_at) if isinstance(one, Drawing)}

    return draw


def runs(env, agent="dqn", gain=0, **fields):
    """Two seeds that rise from 0 to 10, or by more."""
    about = {"agent": agent, "env": env, "metric": "none"} | fields
    return [
        about | {"seed": seed, "step": step, "score": (10 + gain + seed) * (step == STEPS[-1])}
        for seed, step in product(SEEDS, STEPS)
    ]


def swept(count):
    """A baseline and so many weights of MICo in two environments."""
    arms = [{}, *({"metric": "mico", "metric.alpha": 0.001 * (place + 1)} for place in range(count))]
    return [row for env in ("a", "b") for gain, arm in enumerate(arms) for row in runs(env, gain=gain, **arm)]


def heights(figure):
    """Of each panel in inches, once all has its place and nothing covers another."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert not any(legend.get_window_extent().overlaps(ax.get_tightbbox()) for ax in figure.axes)
    assert legend.get_window_extent().height < figure.bbox.height
    return [ax.get_window_extent().height / figure.dpi for ax in figure.axes]


def test_panels_are_as_high_with_many_arms_as_with_two(drawn):
    few, many = (drawn(swept(count), "baseline") for count in (1, 12))
    for name in ("curves", "profiles", "aggregates-against-steps"):
        assert len(many[name].figure.legends[0].get_texts()) == 13
        np.testing.assert_allclose(heights(many[name].figure), heights(few[name].figure), atol=0.3)


def test_captions_say_over_which_environments(drawn):
    """One agent has three games, the other two of them."""
    rows = [row for env in "abc" for gain in (0, 1) for row in runs(env, gain=gain, metric=("none", "mico")[gain])]
    found = drawn(rows, "baseline")
    for name in ("aggregates-against-steps", "intervals", "profiles", "probability-of-improvement"):
        assert found[name].caption.endswith("over 3 environments: a, b, c.")
    for env, gain in product("ab", (0, 1)):
        rows += runs(env, agent="iqn", gain=gain, metric=("none", "mico")[gain])
    found = drawn(rows, "dqn")
    for name in ("aggregates-against-steps", "intervals", "profiles"):
        assert found[name].caption.endswith("1 its mean final return; over 2 environments: a, b.")
    each = "mean over 3 environments: a, b, c (dqn + mico); over 2 environments: a, b (iqn + mico)."
    assert found["probability-of-improvement"].caption.endswith(each)
    assert drawn(runs("a"))["intervals"].caption.endswith("; over 1 environment: a.")


def test_many_environments_are_counted(drawn):
    """The last has one arm alone."""
    rows = [row for place in range(13) for gain in (0, 1) for row in runs(f"e{place}", gain=gain, metric="mico" * gain)]
    found = drawn([*rows, *runs("e13")], "baseline")
    for name in ("profiles", "probability-of-improvement"):
        assert found[name].caption.endswith("over 13 of 14 environments.")


@pytest.mark.parametrize(
    ("normalise", "said"),
    [(None, ["The random policy's scores in atari/pooyan are our own measurements."]), ("baseline", [])],
)
def test_random_scores_that_are_measured_are_named_where_they_are_drawn(drawn, normalise, said):
    rows = [
        row
        for env, gain in product(("atari/pong", "atari/pooyan"), (0, 1))
        for row in runs(env, gain=gain, metric=("none", "mico")[gain])
    ]
    rows += runs("atari/carnival")  # of one arm alone: measured too, but no bar
    caption = drawn(rows, normalise)["improvement-dqn-mico"].caption
    assert [sentence + "." for sentence in caption.split(". ") if "measurements" in sentence] == said
    assert "atari/carnival is left out" in caption
