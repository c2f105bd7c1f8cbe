"""The score of a run: against a loop over episodes, and everything that decides where it is taken, by hand."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.run_scores import common_steps, cut, final_scores, first_returns, reached_steps
from mico.evidence.scores import with_arms
from mico.runs.tables import read_scores


def given(agent="dqn", env="gym/a", seed=0, scores=(), period=10, **more):
    steps = period * np.arange(1, len(scores) + 1)
    return pd.DataFrame({"agent": agent, "env": env, "seed": seed, "step": steps, "score": scores, **more})


def tidy(*runs):
    return with_arms(read_scores(pd.concat(runs, ignore_index=True)))


def score(frame, **options):
    return final_scores(frame, **options)[0].set_index(["arm", "env", "seed"])["value"].to_dict()


def froze(frame, at):
    """The frame with a row, of a later step, that says where its run froze."""
    return pd.concat([frame, frame.iloc[[-1]].assign(step=at + 7, name="not_finite_at", value=at)], ignore_index=True)


@pytest.mark.parametrize(("last", "end"), [(0.1, 1_000), (0.25, 1_000), (0.1, 700), (1.0, 330)])
def test_a_score_is_the_mean_over_episodes_of_the_last_share_of_the_steps(last, end):
    """Episode by episode, of a log whose rows hold the mean return of the episodes since the row before."""
    rng = np.random.default_rng(0)
    episodes = [(step, rng.normal(step)) for step in sorted(rng.choice(np.arange(1, 1_001), 300, replace=False))]
    rows = []
    for step in range(10, 1_001, 10):
        own = [value for at, value in episodes if step - 10 < at <= step]
        rows.append({"step": step, "score": np.mean(own) if own else np.nan, "episodes": len(own)})
    frame = tidy(pd.DataFrame(rows).assign(agent="dqn", env="e", seed=0))
    late = [value for step, value in episodes if end * (1 - last) < step <= end]
    assert score(frame, last=last, steps={"e": end}) == {("dqn", "e", 0): pytest.approx(np.mean(late), rel=1e-12)}


def test_rows_without_a_count_of_episodes_weigh_one():
    rows = given(scores=[0.0] * 8 + [6.0, 1.0], episodes=[np.nan] * 9 + [4])
    assert score(tidy(rows), last=0.2) == {("dqn", "gym/a", 0): 2.0}  # (6 + 4) / 5
    assert score(tidy(rows.drop(columns="episodes")), last=0.2) == {("dqn", "gym/a", 0): 3.5}


@pytest.mark.parametrize("end", [30, 70, 90, 1_800_000, 2_000_000])
def test_the_row_that_ends_where_the_last_tenth_begins_is_not_of_it(end):
    frame = tidy(given(scores=[0.0] * 9 + [1.0], period=end // 10))
    assert score(frame) == {("dqn", "gym/a", 0): 1.0}


def test_a_run_without_a_return_in_the_last_tenth_has_its_newest():
    rows = given(scores=[1.0, 2.0, *[np.nan] * 18], episodes=[1, 1, *[0] * 18])
    assert score(tidy(rows)) == {("dqn", "gym/a", 0): 2.0}
    assert score(tidy(given(scores=[5.0], period=7))) == {("dqn", "gym/a", 0): 5.0}


def test_equal_returns_have_exactly_that_mean_whatever_their_weights():
    rng = np.random.default_rng(1)
    frame = tidy(given(scores=[0.97] * 30, episodes=rng.integers(1, 9, 30)))
    assert score(frame, last=1.0) == {("dqn", "gym/a", 0): 0.97}


def test_a_run_alone_is_scored_at_its_end_and_arms_at_their_common_step():
    long, short = given(scores=np.arange(20.0)), given(agent="iqn", scores=np.arange(10.0))
    assert score(tidy(long)) == {("dqn", "gym/a", 0): 18.5}
    both = tidy(long, short)
    assert common_steps(both) == {"gym/a": 100}
    assert score(both) == {("dqn", "gym/a", 0): 9.0, ("iqn", "gym/a", 0): 9.0}
    elsewhere = tidy(long, short.assign(env="gym/b"))
    assert common_steps(elsewhere) == {"gym/a": 200, "gym/b": 100}


def test_one_run_of_an_arm_is_enough_for_the_common_step():
    frame = tidy(given(scores=[1.0] * 10), given(seed=1, scores=[1.0] * 4), given(agent="iqn", scores=[1.0] * 8))
    assert common_steps(frame) == {"gym/a": 80}
    scores, lost = final_scores(frame)
    assert set(zip(scores["arm"], scores["seed"])) == {("dqn", 0), ("iqn", 0)}
    assert [*map(str, lost)] == ["dqn: seed 1 of gym/a is left out: it has come to step 40 of 80"]


def test_frozen_runs_come_no_farther_and_hold_nobody_back():
    frozen, other = froze(tidy(given(scores=[1.0] * 4)), 45), tidy(given(agent="iqn", scores=[2.0] * 10))
    both = pd.concat([frozen, other], ignore_index=True)
    assert reached_steps(both).to_dict() == {("dqn", "gym/a", 0): 45, ("iqn", "gym/a", 0): 100}
    assert common_steps(both) == {"gym/a": 100}
    assert common_steps(frozen) == {"gym/a": 45}  # there is none that goes on
    assert [*map(str, final_scores(both)[1])] == ["dqn: seed 0 of gym/a is left out: it has come to step 45 of 100"]


def test_cut_rows_tell_how_far_a_run_has_come_by_then():
    frame = cut(tidy(given(scores=[1.0] * 10)), {"gym/a": 55})
    assert frame["step"].tolist() == [10, 20, 30, 40, 50, 55]
    assert frame["name"].tolist() == [*["return"] * 5, "reached"]
    assert score(frame, steps={"gym/a": 55}) == {("dqn", "gym/a", 0): 1.0}


def test_the_first_return_of_a_run_is_its_first_finite_one():
    frame = tidy(given(scores=[np.nan, 3.0, 4.0]), given(seed=1, scores=[5.0, 6.0]))
    assert first_returns(frame.sample(frac=1, random_state=0)).to_dict() == {
        ("dqn", "gym/a", 0): 3.0,
        ("dqn", "gym/a", 1): 5.0,
    }


@pytest.mark.parametrize("share", [0.0, 1.1, -0.5])
def test_a_share_is_one_of_the_steps(share):
    with pytest.raises(ValueError, match="last must be a share"):
        final_scores(tidy(given(scores=[1.0])), last=share)
