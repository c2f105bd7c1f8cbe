"""Aggregates and their intervals against naive loops, SciPy, laws and coverage."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mico.evidence import statistics
from mico.evidence.statistics import (
    AGGREGATES,
    adjust_p_values,
    difference,
    estimate,
    improvement_probability,
    profile,
    unpaired_difference,
)

SCORES = np.array([[0.0, 4.0], [1.0, 5.0], [2.0, 12.0]])  # three runs of two tasks
matrices = st.tuples(st.integers(1, 6), st.integers(1, 7)).flatmap(
    lambda shape: arrays(float, shape, elements=st.floats(-100, 100, width=32))
)


def draws(shape, seed=0):
    return np.random.default_rng(seed).normal(1, 2, size=shape)


def test_a_hand_case():
    """Of 0 1 2 4 5 12 the lowest and the highest go, 6 // 4 = 1 of each; the tasks' means are 1 and 7."""
    values = {name: float(of(SCORES)) for name, of in AGGREGATES.items()}
    assert values == {"iqm": 3, "mean": 4, "median": 4, "optimality-gap": pytest.approx(1 / 6)}


@given(matrices)
def test_against_scipy_and_naive_loops(scores):
    means = [sum(column) / len(column) for column in scores.T]
    naive = {
        "iqm": stats.trim_mean(scores, 0.25, axis=None),
        "mean": sum(means) / len(means),
        "median": sorted(means)[len(means) // 2] / 2 + sorted(means)[(len(means) - 1) // 2] / 2,
        "optimality-gap": 1 - sum(min(score, 1) for score in scores.ravel()) / scores.size,
    }
    for name, value in naive.items():
        assert AGGREGATES[name](scores) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_batch_is_its_members(name):
    batch = draws((4, 2, 5, 3))
    single = [[float(AGGREGATES[name](own)) for own in row] for row in batch]
    assert AGGREGATES[name](batch) == pytest.approx(np.array(single))


@given(matrices, st.randoms(use_true_random=False))
def test_iqm_does_not_see_the_order(scores, random):
    order = list(scores.ravel())
    random.shuffle(order)
    assert statistics.iqm(np.reshape(order, scores.shape)) == pytest.approx(float(statistics.iqm(scores)))


@given(matrices, st.floats(0.5, 3), st.floats(-5, 5))
def test_scores_on_another_scale_move_the_aggregates_along(scores, factor, shift):
    for name in ("iqm", "mean", "median"):
        moved = float(AGGREGATES[name](factor * scores + shift))
        assert moved == pytest.approx(factor * float(AGGREGATES[name](scores)) + shift, abs=1e-6)


def test_the_bootstrap_knows_every_resample_of_a_small_table():
    """The tasks' means are 0, ½ or 1, and 10, 20 or 30, the middle ones twice as likely.

    Means of both are 5, 5.25, 5.5, 10, …; 3 in 16 are below 5.5 and 4 up to it, so that a fifth ends there.
    """
    found = estimate(np.array([[0.0, 10.0], [1.0, 30.0]]), "mean", seed=3, resamples=20_000, level=0.6)
    assert found == (10.25, 5.5, 15)


def test_resamples_stay_within_their_task():
    """Runs of a task are all alike, so that every resample is the same; runs mixed between tasks would not be."""
    scores = np.tile([1.0, 5.0, 100.0], (4, 1))
    for name in AGGREGATES:
        value, low, high = estimate(scores, name, seed=0, resamples=200)
        assert (low, high) == pytest.approx((value, value))


@pytest.mark.parametrize("name", AGGREGATES)
def test_against_scipys_bootstrap(name):
    """One task is one sample: SciPy resamples it as we do, and the ends agree up to chance."""
    scores = draws((12, 1))
    found = estimate(scores, name, seed=0, resamples=20_000, level=0.8)
    result = stats.bootstrap(
        (scores[:, 0],),
        lambda x, axis: AGGREGATES[name](np.moveaxis(x, axis, -1)[..., None]),
        n_resamples=20_000,
        confidence_level=0.8,
        method="percentile",
        rng=1,
    )
    assert (found.low, found.high) == pytest.approx(result.confidence_interval, abs=0.03)


def test_a_naive_bootstrap_of_several_tasks_has_the_same_ends():
    scores, rng = draws((5, 8)), np.random.default_rng(1)
    naive = []
    for _ in range(4000):
        columns = [[column[rng.integers(5)] for _ in range(5)] for column in scores.T]
        naive.append(stats.trim_mean(np.transpose(columns), 0.25, axis=None))
    found = estimate(scores, "iqm", seed=0, resamples=20_000)
    assert (found.low, found.high) == pytest.approx(np.quantile(naive, [0.025, 0.975]), abs=0.04)


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    """Percentile intervals take the variance of n runs with n, not n − 1, and normal quantiles for Student's.

    The mean of 4 tasks × 10 runs then has a coverage of P(|t| < 1.96 √(9/10)), with 36 degrees of freedom.
    """
    tables = np.random.default_rng(2).normal(size=(600, 10, 4))
    ends = [estimate(table, "mean", seed=seed, resamples=600)[1:] for seed, table in enumerate(tables)]
    held = np.mean([low <= 0 <= high for low, high in ends])
    expected = 1 - 2 * stats.t.sf(1.96 * (9 / 10) ** 0.5, 36)
    assert abs(held - expected) < 4 * (expected * (1 - expected) / 600) ** 0.5


def test_seeds_resamples_and_levels_count():
    scores = draws((5, 6))
    again, other = (estimate(scores, "iqm", seed=seed, resamples=500) for seed in (0, 1))
    assert again == estimate(scores, "iqm", seed=0, resamples=500)
    assert again.value == other.value
    assert again.low != other.low
    assert estimate(scores, "iqm", seed=0, resamples=501).low != again.low
    narrow = estimate(scores, "iqm", seed=0, resamples=500, level=0.5)
    assert again.low < narrow.low < narrow.high < again.high


def test_batches_do_not_show(monkeypatch):
    scores = draws((5, 6))
    whole = estimate(scores, "iqm", seed=0, resamples=1000)
    monkeypatch.setattr(statistics, "_BATCH", 70 * scores.size)
    assert estimate(scores, "iqm", seed=0, resamples=1000) == whole


def test_a_single_run_has_no_interval():
    for found in (
        estimate(SCORES[:1], "iqm", seed=0),
        difference(SCORES[:1], SCORES[1:2], "iqm", seed=0),
        improvement_probability(SCORES, SCORES[:1], seed=0),
    ):
        assert np.isfinite(found.value)
        assert np.isnan(found[1:]).all()
    shares = profile(SCORES[:1], np.array([1.0, 4.0]), seed=0)
    assert shares.value.tolist() == [0.5, 0]
    assert np.isnan(shares.low).all()
    assert np.isnan(shares.high).all()


def test_a_difference_is_paired_by_seed():
    """Arms that differ by a constant differ by it in every resample, however seeds differ; unpaired they do not."""
    y = draws((5, 7))
    found = difference(y + 0.25, y, "mean", seed=0, resamples=500)
    assert found == pytest.approx((0.25, 0.25, 0.25))
    shifted = difference(np.roll(y, 1, axis=0) + 0.25, y, "mean", seed=0, resamples=500)
    assert shifted.low < 0.1 < 0.4 < shifted.high


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_difference_against_loops(name):
    """The aggregates of means of the same resampled runs, one by one."""
    x, y, rng = draws((4, 3)), draws((4, 3), seed=1), np.random.default_rng(2)
    of, naive = AGGREGATES[name], []
    for _ in range(4000):
        rows = rng.integers(4, size=(4, 3))
        naive.append(of(np.take_along_axis(x, rows, axis=0)) - of(np.take_along_axis(y, rows, axis=0)))
    found = difference(x, y, name, seed=0, resamples=20_000, level=0.8)
    assert found.value == pytest.approx(of(x) - of(y))
    assert (found.low, found.high) == pytest.approx(np.quantile(naive, [0.1, 0.9]), abs=0.12)
    turned = difference(y, x, name, seed=0, resamples=20_000, level=0.8)
    assert turned == pytest.approx((-found.value, -found.high, -found.low))


@given(matrices, st.data())
def test_probabilities_of_improvement_add_up(x, data):
    y = data.draw(arrays(float, (data.draw(st.integers(1, 4)), x.shape[1]), elements=st.integers(-2, 2).map(float)))
    there, back = (improvement_probability(*pair, seed=0, resamples=1).value for pair in ((x, y), (y, x)))
    assert there + back == pytest.approx(1)
    pairs = [(a > b) + (a == b) / 2 for task in range(x.shape[1]) for a in x[:, task] for b in y[:, task]]
    assert there == pytest.approx(np.mean(pairs))


def test_a_probability_of_improvement_against_scipy():
    """It is U / (nk) of Mann and Whitney, which counts ties by half."""
    x, y = draws((6, 1)).round(), draws((4, 1), seed=1).round()
    u = stats.mannwhitneyu(x[:, 0], y[:, 0]).statistic
    assert improvement_probability(x, y, seed=0, resamples=1).value == pytest.approx(u / 24)


def test_a_probabilitys_interval_against_loops():
    x, y, rng = draws((4, 3)), draws((5, 3), seed=1), np.random.default_rng(2)
    naive = []
    for _ in range(3000):
        first, second = (np.take_along_axis(own, rng.integers(len(own), size=own.shape), axis=0) for own in (x, y))
        naive.append(np.mean([a > b for task in range(3) for a in first[:, task] for b in second[:, task]]))
    found = improvement_probability(x, y, seed=0, resamples=20_000, level=0.8)
    assert (found.low, found.high) == pytest.approx(np.quantile(naive, [0.1, 0.9]), abs=0.02)


def test_a_profile_counts_runs_above_each_threshold():
    thresholds = [-1, 0.0, 1.5, 5.0, 12.0]
    found = profile(SCORES, np.array(thresholds), seed=0, resamples=10)
    assert profile(SCORES, thresholds, seed=0, resamples=10).value.tolist() == found.value.tolist()
    assert found.value == pytest.approx(np.array([6, 5, 4, 1, 0]) / 6)  # a score on a threshold is not above it
    assert (found.low <= found.value).all()


def test_a_profiles_band_against_loops():
    scores, thresholds, rng = draws((4, 3)), np.linspace(-3, 4, 9), np.random.default_rng(1)
    resampled = [np.take_along_axis(scores, rng.integers(4, size=(4, 3)), axis=0) for _ in range(4000)]
    naive = [[np.mean(own > threshold) for threshold in thresholds] for own in resampled]
    found = profile(scores, thresholds, seed=0, resamples=20_000, level=0.8)
    assert found.value == pytest.approx([np.mean(scores > threshold) for threshold in thresholds])
    low, high = np.quantile(naive, [0.1, 0.9], axis=0)
    assert found.low == pytest.approx(low, abs=1 / 12 + 1e-9)  # shares come in twelfths
    assert found.high == pytest.approx(high, abs=1 / 12 + 1e-9)
    assert np.abs(found.low - low).mean() < 0.02


def test_whole_numbers_and_labelled_tables_are_scores_too():
    table = pd.DataFrame(SCORES, index=[0, 1, 2], columns=["pong", "qbert"])
    assert estimate(table, "iqm", seed=0, resamples=50) == estimate(SCORES, "iqm", seed=0, resamples=50)
    assert estimate(SCORES.astype(int), "iqm", seed=0, resamples=50) == estimate(SCORES, "iqm", seed=0, resamples=50)


def test_options_that_are_none_are_refused():
    with pytest.raises(ValueError, match="aggregate must be one of iqm, mean, median, optimality-gap, but is 'IQM'"):
        estimate(SCORES, "IQM", seed=0)
    for resamples in (0, 1_000_001, 2**63):
        with pytest.raises(ValueError, match=f"resamples must be from 1 to 1,000,000, got {resamples}"):
            estimate(SCORES, "iqm", seed=0, resamples=resamples)
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match=f"level must lie between 0 and 1, but is {level}"):
            profile(SCORES, np.array([0.0]), seed=0, level=level)
    for thresholds in ([1.0, 1.0], [2.0, 1.0], [], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="thresholds must be numbers that rise, but are"):
            profile(SCORES, np.array(thresholds), seed=0)


def test_an_unpaired_difference_resamples_each_arm_by_itself():
    """Of equal arms the paired interval is a point, and the unpaired one that of a difference of independent means."""
    x = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 0.0]})
    assert difference(x, x, "mean", seed=0, resamples=500) == (0, 0, 0)
    found = unpaired_difference(x, x, "mean", seed=0, resamples=200_000, level=0.8)
    drawn = np.random.default_rng(1).binomial(2, 0.5, (200_000, 2)) / 4  # the mean over both tasks
    assert found == pytest.approx((0, *np.quantile(drawn[:, 0] - drawn[:, 1], [0.1, 0.9])))
    rng = np.random.default_rng(2)
    many, few = rng.normal(1, 1, (40, 1)), rng.normal(0, 2, (30, 1))
    theirs = stats.ttest_ind(many[:, 0], few[:, 0], equal_var=False).confidence_interval(0.95)
    assert unpaired_difference(many, few, "mean", seed=0)[1:] == pytest.approx(theirs, abs=0.1)


def test_corrected_p_values():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 50):
        p = rng.uniform(size=n) ** 3
        assert adjust_p_values(p, "benjamini-hochberg") == pytest.approx(stats.false_discovery_control(p))
        holm = [0.0] * n
        for i in range(n):  # the definition: a step-down over those that are smaller
            holm[i] = min(1.0, max(p[j] * sum(p[k] >= p[j] for k in range(n)) for j in range(n) if p[j] <= p[i]))
        assert adjust_p_values(p, "holm") == pytest.approx(holm)
    with pytest.raises(ValueError, match="method must be benjamini-hochberg or holm, got 'by'"):
        adjust_p_values(p, "by")
    with pytest.raises(ValueError, match="p must be probabilities"):
        adjust_p_values(np.array([0.5, 1.5]), "holm")
