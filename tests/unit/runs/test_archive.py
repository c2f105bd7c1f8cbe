"""Runs as small files: pieces by hand, what is merged and what is refused, and sizes."""

import json

import numpy as np
import pandas as pd
import pytest

from mico.runs.archive import (
    COLUMNS,
    NOTHING,
    Condensed,
    condense,
    merged,
    of_length,
    reached,
    read,
    write,
)
from mico.runs.sources import read_sources
from mico.runs.thinned import MEASURES
from written_runs import ORIGIN, settings, write_fleet, write_run


def write_log(run, rows):
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_pieces_by_hand(tmp_path):
    run = write_run(tmp_path / "fleet" / "run", [], metric="mico", alpha=0.5, beta=0.2, seed=7, steps=40)
    rows = [
        {"step": 10, "episodes": 0},
        {"step": 20, "episodes": 1, "return": 4.0, "norm": 1.0, "agreement": 0.5},
        {"step": 30, "episodes": 3, "return": 8.0, "norm": 2.0},
        {"step": 40, "episodes": 1, "return": 0.0, "norm": 3.0, "dead_units": 0.25},
    ]
    write_log(run, rows)
    found = condense(tmp_path, points=2).rows
    assert tuple(found.columns) == COLUMNS
    assert found["step"].tolist() == [20, 40]
    assert found["score"].tolist() == [4, (3 * 8 + 0) / 4]  # the mean over episodes, not over rows
    assert found["episodes"].tolist() == [1, 4]
    assert found["norm"].tolist() == [1, 3]
    assert found["dead_units"].isna().tolist() == [True, False]
    about = ["agent", "metric", "env", "seed", "metric.alpha", "metric.beta"]
    assert found.loc[0, about].tolist() == ["dqn", "mico", "minatar/breakout", 7, 0.5, 0.2]
    assert condense(tmp_path, points=4).rows["score"].isna().tolist() == [True, False, False, False]
    for points in (0, 2**40):
        with pytest.raises(ValueError, match=f"points must be from 1 to 1,000,000, got {points}"):
            condense(tmp_path, points=points)


@pytest.mark.filterwarnings("ignore:rows after the last whole piece")
def test_runs_that_are_under_way_end_where_they_are(tmp_path):
    write_run(tmp_path / "fleet" / "run", [1.0, 2.0, 3.0], steps=8000)
    assert condense(tmp_path, points=4).rows["step"].tolist() == [2000]
    assert condense(tmp_path, points=8).rows["step"].tolist() == [1000, 2000, 3000]


def test_a_log_with_fewer_rows_than_points_stays_as_it_is(tmp_path):
    write_run(tmp_path / "whole" / "run", [1.0, 2.0, 3.0, 4.0], period=500)
    write_run(tmp_path / "going" / "run", [1.0, 2.0], period=70, steps=280, seed=1)
    write_log(write_run(tmp_path / "odd" / "run", [], steps=160, seed=2), [{"step": step} for step in (70, 140, 160)])
    found = condense(tmp_path, points=50).rows
    steps = {seed: own["step"].tolist() for seed, own in found.groupby("seed")}
    assert steps == {0: [500, 1000, 1500, 2000], 1: [70, 140], 2: [70, 140, 160]}
    assert found.loc[found["seed"] == 0, "score"].tolist() == [1, 2, 3, 4]
    assert condense(tmp_path / "whole", points=4).rows["step"].tolist() == [500, 1000, 1500, 2000]
    assert condense(tmp_path / "whole", points=3).rows["step"].tolist() == [667, 1333, 2000]


def test_pieces_without_a_row_are_none(tmp_path):
    """As many rows as points, but the first third has none."""
    run = write_run(tmp_path / "fleet" / "run", [], steps=2000)
    write_log(run, [{"step": step, "return": 1.0} for step in (700, 1400, 2000)])
    assert condense(tmp_path, points=3).rows["step"].tolist() == [1333, 2000]


def test_what_unfinished_runs_have_beyond_their_pieces_is_told(tmp_path, recwarn):
    write_fleet(tmp_path / "fleet", range(5), lambda seed: [1.0] * (9 if seed else 1), steps=100_000)
    assert condense(tmp_path, points=25).rows["step"].tolist() == [4000, 8000] * 4
    assert [str(one.message) for one in recwarn] == [
        "fleet/run-seed0 is left out: it is at step 1,000 of 100,000, before the end of its first piece",
        "rows after the last whole piece of a run are left out: run-seed1, run-seed2, run-seed3 and 1 more",
    ]


@pytest.mark.filterwarnings("error")
def test_of_whole_runs_nothing_is_told(tmp_path):
    write_run(tmp_path / "fleet" / "run", [1.0] * 10)
    assert len(condense(tmp_path, points=3).rows) == 3


def test_records_say_where_runs_are_from(tmp_path):
    write_fleet(tmp_path / "fleet", [0, 1], lambda seed: [1.0, 2.0], name="base")
    write_fleet(tmp_path / "fleet", [0], lambda seed: [1.0, 2.0], metric="mico", alpha=0.1)
    timing = [{"step": 1000, "seconds": 4.0}, {"step": 2000, "seconds": 6.0}, {"step": 2000, "seconds": 2.5}]
    (tmp_path / "fleet" / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in timing))
    (record,) = condense(tmp_path, points=2).records
    assert record["seconds"] == 8.5  # of two starts
    assert record["starts"] == [ORIGIN]
    assert record["steps"] == 2000
    expected = settings(metric="mico")
    del expected["seed"], expected["metric"]["alpha"], expected["metric"]["beta"]
    assert record["settings"]["mico"] == expected
    assert record["settings"]["none"]["metric"] is None
    assert {"metric": "mico", "alpha": 0.1, "beta": 0.1, "seed": 0} in record["runs"]
    assert {"metric": "none", "alpha": None, "beta": None, "seed": 1} in record["runs"]


def test_files_come_back_and_the_report_reads_them(tmp_path):
    scores = [1 / 3, 123456.789]
    write_fleet(tmp_path / "runs" / "fleet", [0, 1], lambda seed: [score + seed for score in scores])
    write_fleet(tmp_path / "runs" / "other", [0], lambda seed: scores, agent="iqn")
    found = condense(tmp_path / "runs", points=2)
    files = write(found, tmp_path / "small")
    assert [file.name for file in files] == ["dqn.csv", "iqn.csv"]
    again = read(tmp_path / "small")
    assert again.records == found.records
    assert reached(again) == reached(found)
    pd.testing.assert_frame_equal(again.rows, found.rows, check_dtype=False, rtol=5e-5)
    assert "0.33333" in files[1].read_text()
    frame = read_sources(files).frame
    assert frame["run"].nunique() == 3
    assert set(frame["agent"]) == {"dqn", "iqn"}


def test_weights_are_kept_to_the_last_digit(tmp_path):
    """They tell runs apart: rounded ones would be other runs."""
    for alpha in (0.0123456, 1 / 3, 1.0):
        write_run(tmp_path / "runs" / f"{alpha}", [1.0, 2.0], metric="mico", alpha=alpha, beta=1e-5)
    found = condense(tmp_path / "runs", points=2)
    write(merged(NOTHING, found), tmp_path / "small")
    for _ in range(2):
        again = merged(read(tmp_path / "small"), found)
        assert reached(again) == reached(found)
        assert len(again.rows) == len(of_length(again, 2000).rows) == 6
        write(again, tmp_path / "small")
    assert ",1,1e-05," in (tmp_path / "small" / "dqn.csv").read_text()  # as short as can be


@pytest.mark.filterwarnings("ignore:.* is left out")
def test_scores_are_exact_beside_a_run_that_has_just_begun(tmp_path):
    write_run(tmp_path / "runs" / "a", [1 / 3, 2 / 3])
    write_run(tmp_path / "runs" / "b", [], seed=1, steps=2000)
    (table,) = write(condense(tmp_path / "runs", points=2), tmp_path / "small")
    assert pd.read_csv(table)["score"].tolist() == [1 / 3, 2 / 3]


def test_what_is_no_run_is_named(tmp_path):
    run = write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    write_log(run, [{"step": 1000, "return": None}])
    with pytest.raises(ValueError, match=r"a/log\.jsonl, line 1, .*return must be a number, got None"):
        condense(tmp_path / "runs", points=2)
    (run / "config.json").write_text(
        '{"run": "a", "agent": "dqn", "metric": null, "env": "e", "seed": 0, "steps": 5, "starts": []}'
    )
    with pytest.raises(ValueError, match=r"a/config.json must tell .*, but lacks settings"):
        condense(tmp_path / "runs", points=2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("agent", 5, ": agent must be text, got 5"),
        ("metric", [], ": metric must be text or null"),
        ("seed", "0", ": seed must be a whole number"),
        ("steps", None, " must tell steps and settings, got null"),
        ("starts", {}, ": starts must be a list"),
        ("settings", [], ": settings must be an object"),
        ("settings", {"agent": None, "env": {"name": "e"}, "metric": None, "seed": 0}, ": settings must have objects"),
        ("settings", {"agent": {"name": "a"}, "env": {"name": "e"}, "metric": {"x": 1}, "seed": 0}, ": settings must"),
    ],
)
def test_configurations_of_the_wrong_kind_are_named(tmp_path, name, value, message):
    run = write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {name: value}))
    with pytest.raises(ValueError, match=rf"a/config\.json{message}"):
        condense(tmp_path / "runs", points=2)


def test_nested_too_deeply(tmp_path):
    run = write_run(tmp_path / "runs" / "a", [1.0, 2.0])
    (run / "log.jsonl").write_text('{"step": 1, "x": ' + "[" * 100_000 + "\n")
    with pytest.raises(ValueError, match="nested too deeply"):
        condense(tmp_path / "runs", points=2)


@pytest.mark.parametrize("agent", ["../settings", "/tmp/settings", "..", "a/b", "a\\b", "a\x1b]0;PWNED"])
def test_an_agent_that_is_no_file_name_is_refused_wherever_it_is_read(tmp_path, agent):
    """A run, a table, a record and a value in memory of somebody else: nothing is written outside, or at all."""
    run = write_run(tmp_path / "runs" / "fleet" / "run", [1.0, 2.0])
    small = tmp_path / "small"
    (table,) = write(condense(tmp_path / "runs", points=2), small)
    mine = read(small)
    with pytest.raises(ValueError, match="plain name"):
        write(Condensed(mine.rows.assign(agent=agent), mine.records), tmp_path / "out" / "deep")
    config = json.loads((run / "config.json").read_text())
    for change in ({"agent": agent}, {"settings": config["settings"] | {"agent": {"name": agent}}}):
        (run / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=r"config\.json(:| must)"):
            condense(tmp_path / "runs", points=2)
    listed = json.loads(table.with_suffix(".json").read_text())
    listed["fleets"][0]["agent"] = agent
    table.with_suffix(".json").write_text(json.dumps(listed))
    with pytest.raises(ValueError, match="the agent of a fleet must be a plain name"):
        read(small)
    mine.rows.assign(agent=agent).to_csv(table, index=False)
    with pytest.raises(ValueError, match=r"the agent in .*dqn\.csv must be a plain name"):
        read(small)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "small"]


def test_nothing_is_in_a_folder_that_is_not_there(tmp_path):
    assert read(tmp_path / "nowhere").rows.empty
    assert reached(NOTHING) == {}


def test_files_of_others_are_refused(tmp_path):
    (tmp_path / "dqn.csv").write_text("agent,env\ndqn,x\n")
    with pytest.raises(ValueError, match="lacks metric"):
        read(tmp_path)
    write_run(tmp_path / "runs" / "fleet" / "run", [1.0])
    (file,) = write(condense(tmp_path / "runs", points=1), tmp_path)
    sound = pd.read_csv(file)
    sound.assign(score="much").to_csv(file, index=False)
    with pytest.raises(ValueError, match=r"dqn\.csv must have numbers in the column score, but has 'much'"):
        read(tmp_path)
    sound.assign(norm="9" * 400).to_csv(file, index=False)
    with pytest.raises(ValueError, match=r"numbers that float64 can hold in the column norm"):
        read(tmp_path)
    file.write_text("")
    with pytest.raises(ValueError, match=r"dqn\.csv is not a table: No columns"):
        read(tmp_path)
    sound.to_csv(file, index=False)
    file.with_suffix(".json").write_text("{}")
    with pytest.raises(ValueError, match="does not say where runs are from"):
        read(tmp_path)
    file.with_suffix(".json").unlink()
    with pytest.raises(ValueError, match=r"dqn\.json does not say where runs are from: FileNotFoundError"):
        read(tmp_path)


def test_of_two_runs_of_a_seed_the_farther_counts_and_if_even_the_new_one(tmp_path):
    def of(name, returns, seeds=(0,)):
        write_fleet(tmp_path / name / "fleet", seeds, lambda seed: returns, steps=3000)
        return condense(tmp_path / name, points=3)

    old, longer, other = of("old", [1.0, 1.0]), of("longer", [2.0, 2.0, 2.0], (0, 1)), of("other", [3.0, 3.0])
    found = merged(old, longer)
    assert found.rows["score"].tolist() == [2.0] * 6
    assert found.records == longer.records  # the new fleet has all runs of the old one
    assert merged(longer, old).rows["score"].tolist() == [2.0] * 6
    assert merged(longer, old).records == longer.records  # nothing that is there is of the other
    assert merged(old, other).rows["score"].tolist() == [3.0, 3.0]
    assert set(reached(found).values()) == {3000}
    assert merged(NOTHING, old).rows["score"].tolist() == [1.0, 1.0]


def test_runs_with_other_settings_do_not_mix(tmp_path):
    def of(name, **described):
        write_fleet(tmp_path / name / "fleet", [0], lambda seed: [1.0], metric="mico", **described)
        return condense(tmp_path / name, points=1)

    one, other = of("one", error="huber"), of("other", error="squared", alpha=0.3)
    message = "metric.error of dqn with mico in minatar/breakout is 'squared', but 'huber' in what is there"
    with pytest.raises(ValueError, match=message):
        merged(one, other)
    assert len(merged(one, of("third", error="huber", alpha=0.3)).rows) == 2  # another weight is another arm
    assert len(merged(one, of("fourth", error="squared", env="minatar/asterix")).rows) == 2


@pytest.mark.parametrize("fleets", [("one", "one"), ("one", "two")])
def test_runs_of_one_folder_with_other_settings_do_not_mix(tmp_path, fleets):
    for fleet, error, seed in zip(fleets, ("huber", "squared"), (0, 1)):
        write_run(tmp_path / fleet / error, [1.0], metric="mico", error=error, seed=seed)
    message = "metric.error of dqn with mico in minatar/breakout is 'squared', but 'huber' in another run"
    with pytest.raises(ValueError, match=message):
        condense(tmp_path, points=1)


def test_of_the_same_run_in_two_fleets_of_a_folder_the_farther_counts(tmp_path):
    for fleet, returns in {"a": [1.0] * 3, "b": [2.0] * 4, "c": [3.0] * 2}.items():
        write_fleet(tmp_path / fleet, [0], lambda seed, own=returns: own, metric="mico", steps=4000)
    write_fleet(tmp_path / "c", [1], lambda seed: [4.0] * 4, metric="mico", steps=4000)
    found = condense(tmp_path, points=4)
    assert found.rows["score"].tolist() == [2.0] * 4 + [4.0] * 4
    runs = {record["fleet"]: [run["seed"] for run in record["runs"]] for record in found.records}
    assert runs == {"b": [0], "c": [1]}


def test_a_frozen_run_has_come_to_its_end(tmp_path):
    write_run(tmp_path / "fleet" / "run", [1.0], steps=4000, frozen=1500)
    found = condense(tmp_path, points=4)
    assert found.rows["step"].tolist() == [1000]
    assert reached(found) == {("dqn", "none", "minatar/breakout", 0, None, None): 4000}
    assert found.records[0]["runs"][0]["frozen_at"] == 1500


def test_a_record_has_the_runs_whose_rows_are_from_its_fleet(tmp_path):
    def of(name, returns, seeds, **described):
        write_fleet(tmp_path / name / "fleet", seeds, lambda seed: returns, **described)
        return condense(tmp_path / name, points=2)

    whole, short = of("whole", [1.0, 1.0], (0, 1), steps=2000), of("short", [2.0], (1, 2), steps=1000)
    both = merged(whole, short)
    assert [[run["seed"] for run in record["runs"]] for record in both.records] == [[0, 1], [2]]
    long_ones, short_ones = of_length(both, 2000), of_length(both, 1000)
    assert long_ones.rows["score"].tolist() == [1.0] * 4
    assert set(short_ones.rows["seed"]) == {2}
    assert of_length(both, 3000).rows.empty


def test_a_run_that_froze_no_longer_counts_once_another_went_farther(tmp_path):
    write_run(tmp_path / "old" / "fleet" / "run", [1.0], steps=4000, frozen=1500)
    write_run(tmp_path / "new" / "fleet" / "run", [1.0, 2.0], steps=4000)
    old, new = (condense(tmp_path / name, points=4) for name in ("old", "new"))
    (key,) = reached(old)
    assert reached(merged(old, new)) == {key: 2000}
    assert reached(merged(new, old)) == {key: 2000}


def test_a_whole_study_of_an_agent_is_less_than_a_megabyte(tmp_path):
    """Five games, ten seeds, three arms, fifty points."""
    rng = np.random.default_rng(0)
    games = ["breakout", "asterix", "freeway", "seaquest", "space-invaders"]
    arms = [("none", np.nan), ("mico", 0.01), ("mico", 0.5)]
    cells = [
        ("rainbow", metric, alpha, 0.1, f"minatar/{game}", seed, 100_000 * (step + 1))
        for metric, alpha in arms
        for game in games
        for seed in range(10)
        for step in range(50)
    ]
    rows = pd.DataFrame(cells, columns=list(COLUMNS[:7]))
    rows = rows.assign(**{name: rng.normal(size=len(rows)) for name in ("score", *MEASURES)}, episodes=999)
    (file,) = write(Condensed(rows, []), tmp_path)
    assert file.stat().st_size < 1_000_000
