"""Other people's names of columns: what maps to what, and what an error says of those that do not."""

import numpy as np
import pandas as pd
import pytest

from mico.runs.columns import check_columns, check_used, parse_columns, rename_columns
from mico.runs.tables import read_csv, read_scores

THEIRS = pd.DataFrame({"algo": ["ppo", "ppo"], "game": "Pong", "run": 3, "timestep": [10, 20], "reward": [1.5, 2.5]})
PAIRS = ["algo=agent", "game=env", "run=seed", "timestep=step", "reward=score"]


def test_a_mapping_is_theirs_to_ours():
    found = read_scores(THEIRS, columns=parse_columns(PAIRS))
    expected = read_scores(THEIRS.set_axis(["agent", "env", "seed", "step", "score"], axis="columns"))
    pd.testing.assert_frame_equal(found, expected)
    assert parse_columns(["lr=agent.learning-rate", "a=b=score"]) == {"lr": "agent.learning-rate", "a=b": "score"}


def test_columns_may_change_places_and_a_mapped_one_goes_before_one_of_that_name():
    table = pd.DataFrame({"step": [1], "seed": [2], "score": [3], "reward": [4]})
    found = rename_columns(table, {"step": "seed", "seed": "step", "reward": "score", "absent": "env"})
    assert found.to_dict("list") == {"seed": [1], "step": [2], "score": [4]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algo"], "columns must be pairs such as algo=agent .* got 'algo'"),
        (["=agent"], "columns must be pairs"),
        (["algo="], "columns must be pairs"),
        (["algo=agnt"], "columns must map to agent, env, .* got algo=agnt; did you mean agent"),
        (["algo=.alpha"], "columns must map to"),
        (["algo=agent", "algo=env"], "columns must map each column once, got algo=agent and algo=env"),
        (["algo=agent", "method=agent"], "columns must map one column to agent, got algo=agent and method=agent"),
    ],
)
def test_mappings_that_are_none(words, message):
    with pytest.raises(ValueError, match=message):
        parse_columns(words)


def test_mappings_in_python():
    assert check_columns(None) == {}
    with pytest.raises(ValueError, match="columns must map names to names, got 'algo': 3"):
        check_columns({"algo": 3})


def test_a_mapped_column_is_in_some_table():
    check_used({"algo": "agent"}, {"a.csv": ["x"], "b.csv": ["algo"]})
    with pytest.raises(ValueError, match=r"names that a\.csv has, got 'allgo': found algo, game; did you mean algo\?"):
        check_used({"allgo": "agent"}, {"a.csv": ["algo", "game"]})
    with pytest.raises(ValueError, match="columns are for CSV files, and there is none"):
        check_used({"algo": "agent"}, {})


def test_what_is_lacking_names_what_was_found_and_how_to_map_it():
    with pytest.raises(ValueError, match="source must have the columns agent, env, seed, step, score") as error:
        read_scores(THEIRS)
    assert "found algo, game, run, timestep, reward." in str(error.value)
    assert f"--columns {' '.join(PAIRS)} " in str(error.value)
    other = THEIRS.rename(columns={"algo": "Env Name", "game": "what", "reward": "episodic-return"})
    with pytest.raises(ValueError, match="lacks") as error:
        read_scores(other.assign(value=1))
    guessed = "--columns NAME=agent 'Env Name=env' run=seed timestep=step NAME=score"  # two could be the score
    assert guessed in str(error.value)


def test_names_that_two_columns_have(tmp_path):
    with pytest.raises(ValueError, match="source must have one column score, but has several"):
        read_scores(pd.concat([THEIRS, THEIRS["reward"]], axis="columns"), columns=parse_columns(PAIRS))
    (tmp_path / "twice.csv").write_text("agent,env,seed,step,score,score\na,b,0,1,2,3\n")
    with pytest.raises(ValueError, match=r"twice\.csv must have different names of columns, but has several 'score'"):
        read_csv(tmp_path / "twice.csv")


def test_whole_numbers_are_not_rounded(tmp_path):
    seeds = [1234567890123456788, 1234567890123456789, 2**63 - 1]
    rows = "".join(f"a,b,{seed},1,2\n" for seed in seeds)
    (tmp_path / "large.csv").write_text("agent,env,seed,step,score\n" + rows)
    assert read_scores(tmp_path / "large.csv")["seed"].tolist() == seeds


@pytest.mark.parametrize("value", ["1e19", str(2**63), str(10**19), str(10**30), "9007199254740994.0"])
@pytest.mark.parametrize("column", ["seed", "step"])
def test_whole_numbers_that_are_too_large_are_refused(tmp_path, value, column):
    row = {"agent": "a", "env": "b", "seed": "0", "step": "1", "score": "2"} | {column: value}
    pd.DataFrame([row]).to_csv(tmp_path / "large.csv", index=False)
    with pytest.raises(ValueError, match=rf"large\.csv must have whole numbers up to \d+.* as {column}"):
        read_scores(tmp_path / "large.csv")


def test_floats_that_are_whole_are_whole_numbers():
    found = read_scores(THEIRS.assign(timestep=[1e6, 2e6]), columns=parse_columns(PAIRS))
    assert found["step"].tolist() == [1_000_000, 2_000_000]
    assert found["step"].dtype == np.int64
