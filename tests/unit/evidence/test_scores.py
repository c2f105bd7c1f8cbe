"""From rows to tables: hand cases, and nothing disappears without a sentence."""

import numpy as np
import pandas as pd
import pytest

from mico.evidence.scores import Scores, shared, tabulate, with_arms
from mico.runs.log import COLUMNS
from mico.runs.tables import read_scores


def texts(excluded):
    return tuple(map(str, excluded))


def given(agent="dqn", env="gym/a", seed=0, scores=(1.0, 2.0, 3.0), period=10, **more):
    """The scores of one run as other people have them."""
    rows = {"agent": agent, "env": env, "seed": seed, "step": period * np.arange(1, len(scores) + 1), "score": scores}
    return pd.DataFrame(rows | more)


def tidy(*runs):
    return read_scores(pd.concat(runs, ignore_index=True))


def test_other_peoples_results_become_tidy(tmp_path):
    table = given(agent="ppo", env="Pong", seed=3, scores=[1.5, -2.0], wall_time=9.0)
    table.to_csv(tmp_path / "mine.csv", index=False)
    for source, name in ((table, "table"), (tmp_path / "mine.csv", "mine"), (str(tmp_path / "mine.csv"), "mine")):
        frame = read_scores(source)
        assert list(frame.columns) == list(COLUMNS)
        assert frame["value"].tolist() == [1.5, -2]
        assert frame["step"].tolist() == [10, 20]
        row = frame.iloc[0]
        assert [row[column] for column in ("experiment", "agent", "metric", "env", "seed", "name")] == [
            name, "ppo", "none", "Pong", 3, "return",
        ]  # fmt: skip
        assert frame["run"].nunique() == 1


def test_metrics_and_fields_of_other_people_tell_runs_apart():
    frame = tidy(given(), given(metric="mico"), given(metric="mico", **{"metric.alpha": 0.5}))
    assert frame["run"].nunique() == 3
    assert frame["metric"].tolist() == ["none"] * 3 + ["mico"] * 6
    assert with_arms(frame)["arm"].unique().tolist() == ["dqn", "dqn + mico", "dqn + mico (metric.alpha=0.5)"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns=["seed", "step"]), "source must have the columns .*, but lacks seed, step"),
        (lambda table: table.iloc[:0], "source must have rows, but has none"),
        (lambda table: table.assign(score="high"), "source must have numbers as score, but one is 'high'"),
        (lambda table: table.assign(seed=0.5), r"must have whole numbers as seed, but one is 0\.5, in row 1$"),
        (lambda table: table.assign(step=np.nan), "source must have whole numbers as step, but one is missing"),
        (lambda table: table.assign(agent=None), "source must have words as agent, but one is"),
        (lambda table: table.assign(step=7), "one score of a run at a step, but has several of agent dqn, .* step 7"),
    ],
)
def test_tables_that_are_no_results_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        read_scores(change(given()))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,x,0,1,5\n\na,x,0,2,abc", "must have numbers as score, but one is 'abc', in row 2"),
        ("a,x,0,1,5\na,x,0.5,2,5", r"must have whole numbers as seed, but one is 0\.5, in row 2"),
        ("a,x,0,1,5\na,x,0,2,5\na,x", "must have whole numbers as seed, but one is missing, in row 3"),
        ("a,x,0,1,5\na,,0,2,5", "must have words as env, but one is missing, in row 2"),
        ("a,x,0,1,5\na,x,0,1,6", "must have one score of a run at a step"),
        ("", "must have rows, but has none"),
    ],
)
def test_errors_name_the_file_and_the_row(tmp_path, rows, message):
    (tmp_path / "word.csv").write_text("agent,env,seed,step,score\n" + rows)
    with pytest.raises(ValueError, match=rf"word\.csv {message}"):
        read_scores(tmp_path / "word.csv")


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match=r"source must be a CSV file, but .*empty\.csv is not"):
        read_scores(tmp_path / "empty.csv")
    with pytest.raises(FileNotFoundError):
        read_scores(tmp_path / "missing.csv")


def test_arms_are_told_apart_by_what_differs_within_an_environment():
    fields = {"metric.alpha": [0.01, 0.1, np.nan, 0.01], "env.slip": [0.5, 0.5, 0.5, 0.9], "replay.kind": ["x"] * 4}
    frame = pd.DataFrame(
        {"agent": "dqn", "metric": ["mico", "mico", "none", "mico"], "env": ["a", "a", "a", "b"], **fields}
    )
    arms = with_arms(frame)["arm"]  # the slip differs between environments alone, and the replay nowhere
    assert arms.tolist() == ["dqn + mico (metric.alpha=0.01)", "dqn + mico (metric.alpha=0.1)", "dqn", arms[0]]
    words = pd.DataFrame(
        {"agent": "dqn", "metric": "mico", "env": "a", "metric.pairs": ["all", "shuffled"], "arm": "?"}
    )
    again = with_arms(words.set_axis([5, 5]))["arm"]
    assert again.tolist() == ["dqn + mico (metric.pairs=all)", "dqn + mico (metric.pairs=shuffled)"]


def test_scores_are_means_of_the_last_returns():
    frame = tidy(given(seed=1, scores=[9.0, 1.0, 3.0]), given(seed=0), given(seed=0, agent="iqn", env="gym/b"))
    scores = tabulate(frame.sample(frac=1, random_state=0), last=0.5)
    assert texts(scores.excluded) == ()
    assert scores.tables["dqn"].to_dict() == {"gym/a": {0: 2.5, 1: 2}}
    assert scores.tables["iqn"].to_dict() == {"gym/b": {0: 2.5}}
    table = scores.tables["dqn"]
    assert (table.index.name, table.columns.name, table.index.tolist()) == ("seed", "env", [0, 1])
    assert tabulate(frame, last=1.0).tables["dqn"].loc[1, "gym/a"] == pytest.approx(13 / 3)


def test_other_rows_are_no_scores_but_tell_how_far_a_run_is():
    frame = tidy(given(seed=0), given(seed=1, scores=[4.0] * 3))
    losses = frame[frame["seed"] == 0].assign(name="loss", value=99.0, step=31)
    scores = tabulate(pd.concat([frame, losses], ignore_index=True), last=0.5)
    assert scores.tables["dqn"]["gym/a"].tolist() == [2.5, 4]


def test_runs_that_are_still_going_are_left_out_and_named():
    frame = tidy(given(seed=0, scores=[1.0] * 100), given(seed=1, scores=[2.0] * 95), given(seed=2, scores=[3.0] * 94))
    scores = tabulate(frame)
    assert scores.tables["dqn"]["gym/a"].to_dict() == {0: 1, 1: 2}
    assert texts(scores.excluded) == ("dqn: seed 2 of gym/a is left out: it has come to step 940 of 1,000",)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_returns_that_are_not_finite_cost_the_run(value):
    early, late = [value, 1.0, 1.0], [1.0, 1.0, value]
    scores = tabulate(tidy(given(seed=0, scores=early), given(seed=1, scores=late)), last=0.5)
    assert scores.tables["dqn"]["gym/a"].to_dict() == {0: 1}
    assert texts(scores.excluded) == ("dqn: seed 1 of gym/a is left out: its last returns are not all finite",)


def test_rows_in_which_no_episode_ended_tell_how_far_a_run_has_come():
    """Of tables that count episodes; without, a score that is missing is one that went wrong."""
    table = given(scores=[1.0, 4.0, np.nan])
    assert tabulate(read_scores(table), last=1.0).tables == {}
    counted = table.assign(episodes=[2, 1, 0])
    assert tabulate(read_scores(counted), last=1.0).tables["dqn"]["gym/a"].to_dict() == {0: 2}
    lost = counted.assign(episodes=[2, 1, 1])  # there were some, so their score is lost
    assert tabulate(read_scores(lost), last=1.0).tables == {}
    assert tabulate(read_scores(counted.fillna({"score": 9.0})), last=1.0).tables["dqn"]["gym/a"].to_dict() == {0: 2}


def test_runs_without_a_return_are_named():
    frame = tidy(given(seed=0), given(seed=1))
    frame.loc[frame["seed"] == 1, "name"] = "loss"
    assert texts(tabulate(frame).excluded) == ("dqn: seed 1 of gym/a is left out: it has no return up to step 30",)
    nothing = tabulate(frame[frame["seed"] == 1])
    assert nothing.tables == {}
    assert len(nothing.excluded) == 1


def test_a_missing_cell_costs_what_lacks_the_largest_share():
    """Seed 1 lacks one of three environments, and b one of four seeds, so that the seed goes; d has but one seed."""
    runs = [given(seed=seed, env=f"gym/{env}") for seed in range(4) for env in "abc" if (seed, env) != (1, "b")]
    scores = tabulate(tidy(*runs, given(seed=0, env="gym/d"), given(agent="iqn", env="gym/d")))
    assert texts(scores.excluded) == (
        "dqn: gym/d is left out: it has no score of seed 1, 2, 3",
        "dqn: seed 1 is left out: it has no score in gym/b",
    )
    table = scores.tables["dqn"]
    assert (table.index.tolist(), table.columns.tolist()) == ([0, 2, 3], ["gym/a", "gym/b", "gym/c"])
    assert scores.tables["iqn"].columns.tolist() == ["gym/d"]


def test_on_a_tie_the_seed_goes():
    scores = tabulate(tidy(given(), given(env="gym/b"), given(seed=1)))
    assert texts(scores.excluded) == ("dqn: seed 1 is left out: it has no score in gym/b",)
    assert scores.tables["dqn"].shape == (1, 2)


def test_human_normalised_are_55_of_the_60_games():
    runs = [
        given(env=env, scores=[29.3]) for env in ("atari/breakout", "ALE/Pong-v5", "atari/pooyan", "atari/air-raid")
    ]
    scores = tabulate(tidy(*runs), normalisation="human")
    assert scores.tables["dqn"].iloc[0].to_dict() == pytest.approx(
        {"atari/breakout": (29.3 - 1.7) / (30.5 - 1.7), "ALE/Pong-v5": (29.3 + 20.7) / (14.6 + 20.7)}
    )
    assert texts(scores.excluded) == tuple(
        f"{env} is left out: no human score is published, as for 5 of the paper's 60 games"
        for env in ("atari/pooyan", "atari/air-raid")
    )


def test_other_normalisations():
    frame = tidy(given(env="control/walker-run", scores=[250.0]))
    assert tabulate(frame, normalisation="thousandth").tables["dqn"].to_numpy() == 0.25
    assert tabulate(frame, normalisation="none").tables["dqn"].to_numpy() == 250
    with pytest.raises(ValueError, match="env 'control/walker-run' is no Atari game"):
        tabulate(frame, normalisation="human")
    with pytest.raises(ValueError, match="normalisation must be one of none, human, thousandth, but is 'hns'"):
        tabulate(frame, normalisation="hns")


def test_frames_that_cannot_be_tabulated_are_refused():
    frame = tidy(given())
    for share in (0.0, 1.1, -0.1):
        with pytest.raises(ValueError, match="last must be a share of the steps, above 0 and at most 1, got"):
            tabulate(frame, last=share)
    with pytest.raises(ValueError, match=r"frame must have the columns .*, but lacks run, value"):
        tabulate(frame.drop(columns=["run", "value"]))
    doubled = pd.concat([frame, frame.assign(experiment="again")])
    message = "frame must have one run of dqn with seed 0 in gym/a, but has table/dqn.*, again/dqn"
    with pytest.raises(ValueError, match=message):
        tabulate(doubled)
    assert tabulate(pd.DataFrame(columns=list(COLUMNS))) == Scores({}, ())


def test_arms_are_compared_on_what_they_share():
    frame = tidy(
        *(given(seed=seed, env=env) for seed in (0, 1, 2) for env in ("gym/a", "gym/b")),
        *(given(agent="iqn", seed=seed, env=env) for seed in (1, 2, 3) for env in ("gym/b", "gym/c")),
        given(agent="sac", env="gym/z"),
    )
    both = shared(tabulate(frame), ["iqn", "dqn"])
    assert list(both.tables) == ["iqn", "dqn"]
    for table in both.tables.values():
        assert (table.index.tolist(), table.columns.tolist()) == ([1, 2], ["gym/b"])
    lost = [one.what for one in both.excluded]
    assert lost == ["iqn: seed 3", "iqn: gym/c", "dqn: seed 0", "dqn: gym/a"]
    with pytest.raises(ValueError, match="arms must share seeds and environments, but dqn, sac do not"):
        shared(tabulate(frame), ["dqn", "sac"])
    for arms in (["ppo"], []):
        with pytest.raises(ValueError, match=r"arms must be some of dqn, iqn, sac, but are (ppo|none)"):
            shared(tabulate(frame), arms)
