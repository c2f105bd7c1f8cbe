"""`mico report`: what it writes, what every option changes, and what it says of runs that are not as they should be."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest

from mico import cli
from mico.cli import report_writing as command
from mico.evidence.figures import Drawing, drawings
from mico.evidence.study import Choices, study
from mico.runs.sources import read_sources
from written_runs import ORIGIN, write_fleet, write_run


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take most of the time, and not every test needs them."""
    monkeypatch.setattr(command, "drawings", lambda study: iter(()))


@pytest.fixture
def runs(tmp_path):
    """Two arms in one environment: returns of 1 to 10 times the seed, and one more each with MICo."""
    for metric in (None, "mico"):
        for seed in (1, 2, 3):
            scores = [row * seed + (metric is not None) for row in range(1, 11)]
            write_run(tmp_path / "runs" / f"{metric}-{seed}", scores, seed=seed, metric=metric)
    return tmp_path / "runs"


def said(out):
    """The text of the page, without tags."""
    page = (out / "report.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<main>")[2].partition("<noscript>")[0]))


def held(out):
    """The data of the page."""
    text = (out / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def table(out, name, **where):
    frame = pd.read_csv(out / "tables" / f"{name}.csv")
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return frame


@pytest.fixture
def reported(tmp_path, capsys):
    """Runs the command: the folder with the report, and what was printed."""

    def run(*argv, out="report"):
        cli.main(["report", *map(str, argv), "--out", str(tmp_path / out)])
        return tmp_path / out, capsys.readouterr().out

    return run


@pytest.fixture
def fails(capsys, tmp_path):
    def run(*argv):
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main(["report", *map(str, argv)])
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1
        return printed.err

    return run


def test_figures_with_their_data_and_tables(reported, tmp_path):
    def level(env, metric):
        return lambda seed: [row * (seed + 1) + (metric is not None) + len(env) for row in range(6)]

    for env in ("atari/pong", "atari/boxing"):
        for metric in (None, "mico"):
            write_fleet(tmp_path / "runs" / f"{env[6:]}-{metric}", range(3), level(env, metric), env=env, metric=metric)
    out, printed = reported(tmp_path / "runs")
    names = {path.stem for path in (out / "figures").iterdir()}
    assert names == {
        "curves",
        "aggregates-against-steps",
        "intervals",
        "profiles",
        "probability-of-improvement",
        "improvement-dqn-mico",
    }
    for name in names:
        png, pdf, data = (out / "figures" / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv"))
        assert png.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")
        assert len(pd.read_csv(data)) > 0
    last = pd.read_csv(out / "figures" / "curves.csv").query("env == 'atari/pong' and arm == 'dqn' and step == 6000")
    assert last["value"].item() == pytest.approx(np.mean([5, 10, 15]) + len("atari/pong"))
    percent = pd.read_csv(out / "figures" / "improvement-dqn-mico.csv").set_index("env")["improvement"]
    base = np.mean([5 * (seed + 1) for seed in range(3)]) + len("atari/pong")
    assert percent["atari/pong"] == pytest.approx(100 * 1 / (base + 20.7))
    assert {path.stem for path in (out / "tables").iterdir()} == {
        "cells",
        "aggregates",
        "comparisons",
        "by-environment",
        "learning-speed",
        "learning-speed-differences",
    }
    assert "human-normalised" in said(out)
    assert f"wrote {out / 'report.html'}" in printed


def test_a_grid_over_alpha_and_beta(reported, tmp_path):
    for alpha in (0.1, 0.5):
        for beta in (0.1, 1.0):
            for seed in (0, 1):
                place = tmp_path / "runs" / f"a{alpha}-b{beta}-{seed}"
                write_run(place, [alpha, beta + seed], metric="mico", seed=seed, alpha=alpha, beta=beta)
    out, _ = reported(tmp_path / "runs")
    data = pd.read_csv(out / "figures" / "alpha-beta-dqn.csv")
    assert data["arm"].nunique() == 4
    assert "No bars of improvement: no arm has a baseline" in said(out)
    for place, alpha in (("a", "most"), ("b", "least")):
        write_run(tmp_path / "words" / place, [1.0], metric="mico", alpha=alpha, beta=len(place))
        write_run(tmp_path / "words" / f"{place}-other", [1.0], metric="mico", alpha=alpha, beta=2)
    assert "No grid over α and β: no agent has several values of both" in said(reported(tmp_path / "words")[0])


def test_arms_whose_names_are_alike_or_long_have_files_of_their_own(reported, tmp_path):
    agents = ["a+b", "a-b", "z" * 300, "base"]
    rows = [
        (agent, env, seed, step, seed + step) for agent in agents for env in "xy" for seed in (0, 1) for step in (1, 2)
    ]
    pd.DataFrame(rows, columns=["agent", "env", "seed", "step", "score"]).to_csv(tmp_path / "theirs.csv", index=False)
    out, _ = reported(tmp_path / "theirs.csv", "--baseline", "base")
    bars = {path.stem.removeprefix("improvement-") for path in (out / "figures").glob("improvement-*.csv")}
    assert {"a-b", "a-b-2"} < bars
    assert len(bars) == 3


def test_figures_that_make_no_sense_are_left_out_and_it_is_said_why(reported, tmp_path):
    write_run(tmp_path / "runs" / "one", [1.0, 2.0])
    out, _ = reported(tmp_path / "runs")
    text = said(out)
    assert {path.stem for path in (out / "figures").iterdir()} == {"curves", "aggregates-against-steps"}
    for sentence in (
        "No plot of intervals: dqn has a single seed.",
        "No performance profiles: dqn has a single seed.",
        "No bars of improvement: there is one arm alone.",
        "No grid over α and β",
        "No arms are compared one by one: there is one arm alone.",
    ):
        assert sentence in text


@pytest.mark.usefixtures("undrawn")
def test_raw_returns_of_several_environments_are_not_averaged(reported, tmp_path):
    for env in ("minatar/asterix", "minatar/breakout"):
        write_fleet(tmp_path / "runs" / env[8:], (0, 1), lambda seed: [1.0, 2.0 + seed], env=env)
    out, _ = reported(tmp_path / "runs")
    assert not (out / "tables" / "aggregates.csv").exists()
    assert "raw returns of different environments cannot be averaged" in said(out)
    out, _ = reported(tmp_path / "runs", "--normalise", "baseline")
    assert table(out, "aggregates", aggregate="mean")["value"].item() == pytest.approx(1.0)


@pytest.mark.usefixtures("undrawn")
def test_normalisations(reported, fails, runs, tmp_path):
    """The mean of the last five of ten rows is 8 times the seed; of the baseline's first row, the seed."""
    values = {}
    (tmp_path / "scale.csv").write_text("env,low,high\nminatar/breakout,6,16\n")
    for name in ("none", "thousandth", "baseline", tmp_path / "scale.csv"):
        out, _ = reported(runs, "--normalise", name, "--last", 0.5)
        values[str(name)] = table(out, "aggregates", arm="dqn + mico", aggregate="mean")["value"].item()
    first = np.mean([1, 2, 3])
    assert values == {
        "none": pytest.approx(17.0),
        "thousandth": pytest.approx(0.017),
        "baseline": pytest.approx((17 - first) / (16 - first)),
        str(tmp_path / "scale.csv"): pytest.approx(1.1),
    }
    assert "0 is the mean first return of dqn, 1 its mean final return" in said(
        reported(runs, "--normalise", "baseline")[0]
    )
    assert "no Atari game" in fails(runs, "--normalise", "human", "--out", tmp_path / "x")
    assert "normalise must be one of none, human" in fails(runs, "--normalise", "humn", "--out", tmp_path / "x")
    (tmp_path / "bad.csv").write_text("env,low\na,1\n")
    assert "lacks high" in fails(runs, "--normalise", tmp_path / "bad.csv", "--out", tmp_path / "x")
    (tmp_path / "bad.csv").write_text("env,low,high\na,1,1\n")
    assert "high that exceeds low" in fails(runs, "--normalise", tmp_path / "bad.csv", "--out", tmp_path / "x")
    (tmp_path / "bad.csv").write_text("env,low,high\na,1,2\nb,1,2\nb,1,3\n")
    assert "several for b" in fails(runs, "--normalise", tmp_path / "bad.csv", "--out", tmp_path / "x")
    (tmp_path / "bad.csv").write_text("env,low,high\na,1,2\n")
    assert "scale for none of" in fails(runs, "--normalise", tmp_path / "bad.csv", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("undrawn")
def test_environments_without_a_scale_are_named(reported, tmp_path):
    for env in ("a", "b", "c"):
        write_fleet(tmp_path / "runs" / env, (0, 1), lambda seed: [1.0 + seed, 2.0], env=env)
    (tmp_path / "scale.csv").write_text("env,low,high\na,0,4\nc,0,2\n")
    out, _ = reported(tmp_path / "runs", "--normalise", tmp_path / "scale.csv", "--last", 0.1)
    assert table(out, "aggregates", aggregate="mean")["value"].item() == pytest.approx((0.5 + 1) / 2)
    assert "b is not in the normalised scores" in said(out)


@pytest.mark.usefixtures("undrawn")
def test_games_without_a_human_score_are_in_no_aggregate_and_are_named(reported, tmp_path):
    for name in ("pong", "boxing", "air-raid"):
        write_fleet(tmp_path / "runs" / name, (0, 1), lambda seed: [5.0], env=f"atari/{name}")
    out, _ = reported(tmp_path / "runs")
    assert "atari/air-raid is left out: no human score is published" in said(out)
    human = np.mean([(5 + 20.7) / (14.6 + 20.7), (5 - 0.1) / (12.1 - 0.1)])
    assert table(out, "aggregates", aggregate="mean")["value"].item() == pytest.approx(human)
    assert set(table(out, "by-environment")["env"]) == {"atari/pong", "atari/boxing", "atari/air-raid"}


@pytest.mark.usefixtures("undrawn")
def test_games_are_known_by_other_peoples_names(reported, tmp_path):
    rows = [("dqn", "ALE/Pong-v5", seed, 1000, 5.0) for seed in (0, 1)]
    pd.DataFrame(rows, columns=["agent", "env", "seed", "step", "score"]).to_csv(tmp_path / "mine.csv", index=False)
    out, _ = reported(tmp_path / "mine.csv")
    assert table(out, "aggregates", aggregate="mean")["value"].item() == pytest.approx((5 + 20.7) / (14.6 + 20.7))


@pytest.mark.parametrize(("skip", "label"), [(4, "frames"), (None, "steps")])
def test_steps_of_an_emulator_are_drawn_as_frames(tmp_path, skip, label):
    write_fleet(tmp_path / "runs", (0, 1), lambda seed: [1.0, 2.0], env="atari/pong")
    for path in (tmp_path / "runs").glob("*/config.json"):
        config = json.loads(path.read_text())
        config["settings"]["env"] |= {} if skip is None else {"frame_skip": skip}
        path.write_text(json.dumps(config))
    looked_at = study(read_sources([tmp_path / "runs"]), Choices(None, None, 0.1, None, 200, 100, 0))
    found = {one.name: one.figure for one in drawings(looked_at) if isinstance(one, Drawing)}
    for name in ("curves", "aggregates-against-steps"):
        ax = found[name].axes[0]
        assert ax.get_xlabel() == label
        assert ax.lines[0].get_xdata()[-1] == 2_000 * (skip or 1)


@pytest.mark.usefixtures("undrawn")
def test_a_baseline_that_does_not_rise_is_no_scale(reported, tmp_path):
    for env, ends in {"rises": (5.0, 6.0), "sways": (0.5, 1.6)}.items():
        write_fleet(tmp_path / "runs" / env, (0, 1), lambda seed, ends=ends: [1.0, ends[seed]], env=env)
    out, _ = reported(tmp_path / "runs", "--normalise", "baseline", "--last", 0.1)
    assert "sways is not in the normalised scores: the baseline does not clearly rise there" in said(out)
    assert table(out, "aggregates", aggregate="mean")[["environments", "value"]].to_numpy().tolist() == [[1, 1.0]]


@pytest.mark.usefixtures("undrawn")
def test_one_arm_is_the_scale_and_each_agent_has_its_own_baseline(reported, fails, tmp_path):
    ends = {"dqn": 4.0, "iqn": 8.0}
    for agent, end in ends.items():
        for metric in (None, "mico"):
            scores = lambda seed, end=end, metric=metric: [0.0, end + bool(metric)]  # noqa: E731
            write_fleet(tmp_path / "runs" / f"{agent}-{metric}", (0, 1), scores, agent=agent, metric=metric)
    out, _ = reported(tmp_path / "runs", "--normalise", "dqn", "--last", 0.1)
    means = table(out, "aggregates", aggregate="mean").set_index("arm")["value"].to_dict()
    assert means == {"dqn": 1.0, "dqn + mico": 1.25, "iqn": 2.0, "iqn + mico": 2.25}
    pairs = table(out, "comparisons")[["arm", "baseline"]].drop_duplicates().to_numpy().tolist()
    assert pairs == [["dqn + mico", "dqn"], ["iqn + mico", "iqn"]]
    assert "--normalise takes one arm's name" in fails(
        tmp_path / "runs", "--normalise", "baseline", "--out", tmp_path / "x"
    )


@pytest.mark.usefixtures("undrawn")
def test_environments_that_have_just_begun_are_not_in_aggregates(reported, tmp_path):
    (tmp_path / "scale.csv").write_text("env,low,high\na,0,10\nb,0,10\n")
    for env, rows in {"a": 10, "b": 2}.items():
        write_fleet(tmp_path / "runs" / env, (0, 1), lambda seed, rows=rows: [5.0] * rows, env=env, steps=10_000)
    source = tmp_path / "runs", "--normalise", tmp_path / "scale.csv"
    out, _ = reported(*source)
    assert "b is not in the aggregates: it is at step 2,000 of 10,000, and others are finished" in said(out)
    assert table(out, "aggregates", aggregate="mean")["environments"].item() == 1
    assert set(table(out, "by-environment")["env"]) == {"a", "b"}
    out, _ = reported(*source, "--step", 2000)
    assert table(out, "aggregates", aggregate="mean")["environments"].item() == 2
    out, _ = reported(tmp_path / "runs" / "b")
    assert table(out, "aggregates", aggregate="mean")["value"].item() == 5.0


@pytest.mark.usefixtures("undrawn")
def test_the_baseline(reported, fails, runs, tmp_path):
    out, _ = reported(runs)
    assert table(out, "comparisons")[["arm", "baseline"]].drop_duplicates().to_numpy().tolist() == [
        ["dqn + mico", "dqn"]
    ]
    assert table(out, "comparisons", comparison="difference of mean")["value"].item() == pytest.approx(1.0)
    out, _ = reported(runs, "--baseline", "dqn + mico")
    assert table(out, "comparisons", comparison="difference of mean")["value"].item() == pytest.approx(-1.0)
    assert "baseline must be one of" in fails(runs, "--baseline", "iqn", "--out", tmp_path / "x")


@pytest.mark.usefixtures("undrawn")
def test_a_weight_of_nothing_is_a_baseline_too(reported, tmp_path):
    for alpha in (0.0, 0.1):
        for seed in (0, 1):
            write_run(tmp_path / "runs" / f"{alpha}-{seed}", [alpha + seed], metric="mico", seed=seed, alpha=alpha)
    out, _ = reported(tmp_path / "runs")
    pair = ["dqn + mico (metric.alpha=0.1)", "dqn + mico (metric.alpha=0)"]
    assert table(out, "comparisons")[["arm", "baseline"]].iloc[0].tolist() == pair
    for alpha in (0.0, 0.1):
        levels = [0.0, *[2.0 + 20 * alpha] * 5]
        write_fleet(tmp_path / "rising" / f"{alpha}", (0, 1), lambda seed, own=levels: own, metric="mico", alpha=alpha)
    scaled, _ = reported(tmp_path / "rising", "--normalise", "baseline", out="scaled")
    assert table(scaled, "aggregates", aggregate="mean").set_index("arm")["value"].to_dict() == {pair[1]: 1, pair[0]: 2}
    assert table(out, "comparisons", comparison="difference of mean")["value"].item() == pytest.approx(0.1)


@pytest.mark.usefixtures("undrawn")
def test_how_much_of_the_steps_and_which_step(reported, fails, runs, tmp_path):
    """Means over seeds 1, 2, 3 of row × seed: twice the mean row."""
    for argv, expected in (([], 20), (["--last", 0.5], 16), (["--last", 1], 11), (["--step", 6000, "--last", 0.3], 11)):
        out, _ = reported(runs, *argv)
        assert table(out, "by-environment", arm="dqn")["value"].item() == pytest.approx(expected)
    assert "up to step 6,000" in said(out)
    assert "last" in fails(runs, "--last", 0, "--out", tmp_path / "x")
    assert "step must have a return before it, got 1" in fails(runs, "--step", 1, "--out", tmp_path / "x")
    assert "step must be one that every arm has reached, 10000 at most" in fails(
        runs, "--step", 10_001, "--out", tmp_path / "x"
    )


@pytest.mark.usefixtures("undrawn")
def test_a_run_has_come_as_far_as_its_log_and_not_its_last_return(reported, runs):
    """No episode of seed 3 ended in the last two pieces: its returns in the last half are rows 6 to 8, of 3 each."""
    log = runs / "None-3" / "log.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    silent = [{"step": row["step"], "episodes": 0} for row in rows[8:]]
    _written(log, "".join(json.dumps(row) + "\n" for row in [*rows[:8], *silent]))
    out, _ = reported(runs, "--last", 0.5)
    assert "left out:" not in said(out)
    assert table(out, "by-environment", arm="dqn")["value"].item() == pytest.approx((8 + 16 + 21) / 3)
    out, _ = reported(runs)  # in the last tenth there is none: its newest counts
    assert table(out, "by-environment", arm="dqn")["value"].item() == pytest.approx((10 + 20 + 24) / 3)


@pytest.mark.usefixtures("undrawn")
def test_scores_at_a_step_between_rows(reported, tmp_path):
    """Runs with a row every 1000, 700 and 3000 steps: at step 2500 the last one has no return yet, and it is said."""
    rows = [
        ("ppo", "gym/a", seed, step, 1.0)
        for seed, period in enumerate((1000, 700, 3000))
        for step in range(period, 10_001, period)
    ]
    columns = ["agent", "env", "seed", "step", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "ppo.csv", index=False)
    out, _ = reported(tmp_path / "ppo.csv", "--step", 2500)
    assert table(out, "by-environment")["seeds"].item() == 2
    assert "ppo: seed 2 of gym/a is left out: it has no return up to step 2,500" in said(out)
    out, _ = reported(tmp_path / "ppo.csv", "--step", 3500)
    assert table(out, "by-environment")["seeds"].item() == 3


@pytest.mark.usefixtures("undrawn")
def test_what_several_paths_lead_to_is_read_once(reported, runs, tmp_path, capsys):
    write_fleet(tmp_path / "sweep" / "fleet", (0, 1), lambda seed: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    once, _ = reported(tmp_path / "sweep")
    again, _ = reported(tmp_path / "sweep", tmp_path / "sweep" / "fleet", out="again")
    cli.main(["collect", str(tmp_path / "sweep"), "--out", str(tmp_path / "small"), "--points", "6"])
    capsys.readouterr()
    small, _ = reported(tmp_path / "small", tmp_path / "small" / "dqn.csv", out="both")
    for out in (once, again, small):
        assert table(out, "by-environment")["value"].item() == 6
        assert said(out).count("is left out") == 0


@pytest.mark.usefixtures("undrawn")
def test_runs_and_what_collect_made_of_them_are_one_arm(reported, tmp_path, capsys):
    write_fleet(tmp_path / "runs" / "fleet", (0, 1), lambda seed: [1.0, 2.0], metric="mico")
    cli.main(["collect", str(tmp_path / "runs"), "--out", str(tmp_path / "small"), "--points", "2"])
    capsys.readouterr()
    out, _ = reported(tmp_path / "runs", tmp_path / "small")
    assert table(out, "by-environment")[["arm", "seeds"]].to_numpy().tolist() == [["dqn + mico", 2]]
    assert said(out).count("with seed 0 that is as far or farther") == 1


@pytest.mark.usefixtures("undrawn")
def test_points_of_curves(reported, fails, runs, tmp_path):
    sizes = []
    for points in (200, 5):
        out, _ = reported(runs, "--points", points)
        sizes.append(len(held(out)["envs"][0]["steps"]) * 3 // 4 // 8)  # base64 of doubles
    assert sizes == [10, 5]
    assert "points" in fails(runs, "--points", 0, "--out", tmp_path / "x")


@pytest.mark.usefixtures("undrawn")
def test_the_bootstrap(reported, fails, runs, tmp_path):
    def interval(*argv):
        return table(reported(runs, *argv)[0], "aggregates", arm="dqn", aggregate="mean")[["low", "high"]].to_numpy()

    rng = np.random.default_rng(7)
    scores = np.array([10.0, 20.0, 30.0])
    drawn = scores[rng.integers(3, size=(200_000, 3))].mean(axis=1)
    assert interval("--resamples", 20_000)[0] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.01)
    few = {seed: interval("--resamples", 7, "--seed", seed).tobytes() for seed in (0, 1, 2, 3)}
    assert len(set(few.values())) > 1
    assert interval("--resamples", 7, "--seed", 2).tobytes() == few[2]
    assert "resamples" in fails(runs, "--resamples", 0, "--out", tmp_path / "x")
    assert "seed must not be negative" in fails(runs, "--seed", -1, "--out", tmp_path / "x")


@pytest.mark.usefixtures("undrawn")
def test_the_title(reported, runs):
    assert "<h1>runs</h1>" in (reported(runs)[0] / "report.html").read_text()
    assert "<h1>Mine &amp; yours</h1>" in (reported(runs, "--title", "Mine & yours")[0] / "report.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_tables_of_other_people_alone_and_beside_runs(reported, fails, runs, tmp_path):
    rows = [("ppo", "minatar/breakout", seed, step, step * seed) for seed in (1, 2) for step in (5000, 10_000)]
    pd.DataFrame(rows, columns=["agent", "env", "seed", "step", "score"]).to_csv(tmp_path / "theirs.csv", index=False)
    out, _ = reported(tmp_path / "theirs.csv", "--last", 0.1)
    assert table(out, "by-environment")["value"].item() == pytest.approx(15_000)
    assert "how they were made is not known" in said(out)
    out, _ = reported(runs, tmp_path / "theirs.csv", "--last", 0.1)
    assert set(table(out, "by-environment")["arm"]) == {"ppo", "dqn + mico", "dqn"}
    assert "columns" in fails(_written(tmp_path / "bad.csv", "a,b\n1,2\n"), "--out", tmp_path / "x")
    assert "nothing: No such file" in fails(tmp_path / "nothing", "--out", tmp_path / "x")


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_what_collect_wrote(reported, fails, tmp_path, capsys):
    for agent in ("dqn", "iqn"):
        write_fleet(tmp_path / "runs" / agent, (0, 1), lambda seed: [1.0 + seed] * 2, agent=agent)
    cli.main(["collect", str(tmp_path / "runs"), "--out", str(tmp_path / "small"), "--points", "2"])
    capsys.readouterr()
    out, _ = reported(tmp_path / "small")
    assert table(out, "by-environment")[["arm", "value"]].to_numpy().tolist() == [["dqn", 1.5], ["iqn", 1.5]]
    _written(tmp_path / "small" / "iqn.csv", "agent,env,seed,step,score\niqn,minatar/breakout,0,1000,abc\n")
    out, printed = reported(tmp_path / "small")
    assert "iqn.csv is left out, for it is damaged:" in printed
    assert set(table(out, "by-environment")["arm"]) == {"dqn"}


@pytest.mark.usefixtures("undrawn")
def test_tables_that_are_wrong_are_named(fails, runs, tmp_path):
    head = "agent,env,seed,step,score\n"
    sound = _written(tmp_path / "ok.csv", f"{head}a,e,0,10,1\n")
    word = _written(tmp_path / "word.csv", f"{head}b,e,0,10,1\nb,e,0,20,abc\n")
    message = f"{word} must have numbers as score, but one is 'abc', in row 2"
    assert message in fails(sound, word, "--out", tmp_path / "x")
    early = _written(tmp_path / "early.csv", f"{head}b,e,0,-10,1\n")
    message = f"{early} must have numbers from 0 to 2⁵³ as step, but one is -10, in row 1"
    assert message in fails(early, "--out", tmp_path / "x")
    scale = _written(tmp_path / "scale.csv", "env,low,high\nother,0,1\nminatar/breakout,0,x\n")
    message = f"{scale} must have numbers as high, but one is 'x', in row 2"
    assert message in fails(runs, "--normalise", scale, "--out", tmp_path / "x")
    empty = _written(tmp_path / "empty.csv", "")
    assert f"{empty} is not: No columns" in fails(runs, "--normalise", empty, "--out", tmp_path / "x")


def test_infinite_returns_do_not_spoil_curves(reported, tmp_path):
    rows = [("ppo", "gym/a", seed, step, 1.0 + seed) for seed in (0, 1, 2) for step in range(10, 101, 10)]
    given = pd.DataFrame(rows, columns=["agent", "env", "seed", "step", "score"])
    given.loc[(given["seed"] == 2) & (given["step"] == 30), "score"] = np.inf
    given.to_csv(tmp_path / "theirs.csv", index=False)
    out, printed = reported(tmp_path / "theirs.csv")
    curves = pd.read_csv(out / "figures" / "curves.csv").set_index("step")
    assert curves["count"].to_dict() == dict.fromkeys(range(10, 101, 10), 3) | {30: 2}
    assert curves["value"].to_dict() == pytest.approx(dict.fromkeys(range(10, 101, 10), 2.0) | {30: 1.5})
    assert np.isfinite(curves[["low", "high"]]).all(axis=None)
    sentence = "ppo: seed 2 of gym/a has infinite returns, first at step 30: curves leave them out"
    assert sentence in said(out)
    assert sentence in " ".join(printed.split())


def _written(path, text):
    path.write_text(text)
    return path


@pytest.mark.usefixtures("undrawn")
def test_fields_that_differ_between_fleets_tell_arms_apart(reported, tmp_path):
    for alpha in (0.01, 0.1):
        write_fleet(tmp_path / "runs" / str(alpha), (0, 1), lambda seed: [1.0], metric="mico", alpha=alpha)
    out, _ = reported(tmp_path / "runs")
    arms = {"dqn + mico (metric.alpha=0.01)", "dqn + mico (metric.alpha=0.1)"}
    assert {arm["name"] for arm in held(out)["arms"]} == arms
    for alpha in ("0.01", "0.1"):
        assert re.search(rf"dqn \+ mico \(metric\.alpha={alpha}\)\s+{alpha}\s", said(out))


@pytest.mark.usefixtures("undrawn")
def test_arms_come_baselines_first_and_then_by_their_fields(reported, tmp_path):
    """A field may be a number here and a word there, or be missing in a table of somebody else's."""
    (tmp_path / "theirs.csv").write_text("agent,env,seed,step,score\ndqn,minatar/breakout,9,1000,1\n")
    for place, fields in {"a": {"alpha": 0.5}, "b": {"alpha": "most"}, "c": {"alpha": 0.05}, "d": None}.items():
        metric = None if fields is None else "mico"
        write_run(tmp_path / "runs" / place, [1.0], metric=metric, **fields or {})
    out, _ = reported(tmp_path / "runs", tmp_path / "theirs.csv")
    arms = [f"dqn + mico (metric.alpha={alpha})" for alpha in ("0.05", "0.5", "most")]
    assert [arm["name"] for arm in held(out)["arms"]] == ["dqn", *arms]


@pytest.mark.usefixtures("undrawn")
def test_runs_that_are_not_as_they_should_be(reported, runs, tmp_path):
    """One is going and in the midst of a line, one froze, one is empty, two are damaged, one is there twice."""
    whole = (runs / "None-3" / "log.jsonl").read_text()
    (runs / "None-3" / "log.jsonl").write_text("\n".join(whole.splitlines()[:4]) + '\n{"step": 5000, "ret')
    write_run(runs / "frozen", [1.0] * 5, seed=4, frozen=5100, steps=10_000)
    write_run(runs / "empty", [], seed=5, steps=10_000)
    write_run(runs / "bad-log", [1.0] * 10, seed=6)
    (runs / "bad-log" / "log.jsonl").write_text('{"step": 1, "return": 3}\n{"step"\n{"step": 3, "return": 4}\n')
    write_run(runs / "bad-config", [1.0] * 10, seed=7)
    (runs / "bad-config" / "config.json").write_text('{"run": ')
    write_run(runs / "again", [1.0] * 9, seed=1)
    out, printed = reported(runs)
    text = said(out)
    for sentence in (
        "None-3 is at step 4,000 of 10,000",
        "frozen is frozen at step 5,100, not finite",
        "empty is at step 0, without a return yet",
        "bad-log is left out, for it is damaged:",
        "bad-config is left out, for it is damaged:",
        "again is left out: there is a run of dqn in minatar/breakout with seed 1",
        "dqn: seed 3 of minatar/breakout is left out",
        "dqn: seed 4 of minatar/breakout is left out",
    ):
        assert sentence in text
        assert sentence in " ".join(printed.split())
    assert table(out, "by-environment", arm="dqn")[["seeds", "value"]].to_numpy().tolist() == [[2, 15.0]]
    assert table(out, "cells", arm="dqn")[["seeds", "least", "most"]].to_numpy().tolist() == [[4, 4000, 10_000]]
    assert "4 × 4,000 to 10,000 of 10,000" in text


@pytest.mark.usefixtures("undrawn")
def test_an_arm_that_froze_does_not_hold_back_the_others(reported, runs):
    for seed in (1, 2):
        write_run(runs / f"bad-{seed}", [1.0], agent="iqn", seed=seed, frozen=1100, steps=10_000)
    out, _ = reported(runs)
    assert table(out, "by-environment").set_index("arm")["value"].to_dict() == {"dqn": 20.0, "dqn + mico": 21.0}
    assert set(table(out, "aggregates")["arm"]) == {"dqn", "dqn + mico"}
    assert "iqn: seed 1 of minatar/breakout is left out: it has come to step 1,100 of 10,000" in said(out)
    alone, _ = reported(*(runs / f"bad-{seed}" for seed in (1, 2)), out="alone")
    assert table(alone, "by-environment")["value"].item() == 1.0


@pytest.mark.usefixtures("undrawn")
def test_scores_from_long_before_the_end_are_said_to_be_so(reported, runs):
    write_run(runs / "new", [1.0, 2.0], agent="iqn", steps=10_000)
    out, printed = reported(runs)
    sentence = "scores are taken long before the end, at step 2,000 of 10,000 in minatar/breakout: not every arm"
    assert sentence in said(out)
    assert f"note: {sentence}" in printed
    assert table(out, "by-environment", arm="dqn")["value"].item() == 4.0
    assert "long before the end" not in said(reported(runs, "--step", 2000)[0])
    write_run(runs / "more", [1.0], steps=10_000, env="minatar/asterix")
    assert "at step 1,000 of 10,000 in minatar/asterix, and so in 1 more environments" in said(reported(runs)[0])


def test_an_environment_with_fewer_seeds_keeps_what_it_has(reported, tmp_path):
    """It is in no table of all environments, but in that of its own returns and in the bars of improvement."""
    (tmp_path / "scale.csv").write_text("env,low,high\na,0,10\nb,0,10\n")
    for env, seeds in {"a": range(4), "b": range(1)}.items():
        for metric in (None, "mico"):
            place = tmp_path / "runs" / f"{env}-{metric}"
            write_fleet(
                place, seeds, lambda seed, metric=metric: [0.0, 4.0 + bool(metric)], env=env, metric=metric, name="x"
            )
    out, _ = reported(tmp_path / "runs", "--normalise", tmp_path / "scale.csv", "--last", 0.1)
    assert set(table(out, "aggregates")["environments"]) == {1}
    assert "dqn: b is left out: it has no score of seed 1, 2, 3" in said(out)
    assert table(out, "by-environment", arm="dqn")[["env", "seeds", "value"]].to_numpy().tolist() == [
        ["a", 4, 4.0],
        ["b", 1, 4.0],
    ]
    percent = pd.read_csv(out / "figures" / "improvement-dqn-mico.csv").set_index("env")["improvement"]
    assert percent.to_dict() == {"a": 25.0, "b": 25.0}


@pytest.mark.usefixtures("undrawn")
def test_environments_that_an_arm_lacks_are_not_in_aggregates_and_are_named(reported, runs):
    write_fleet(runs / "other", (1, 2, 3), lambda seed: [1.0] * 10, env="minatar/asterix")
    assert "minatar/asterix is not in the aggregates: dqn + mico has no scores in it" in said(reported(runs)[0])


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("about", "arms"),
    [
        ([{"path": "/a/map.txt", "digest": "1"}, {"path": "/b/map.txt", "digest": "1"}], 1),
        ([{"path": "/a/map.txt", "digest": "1"}, {"path": "/a/map.txt", "digest": "2"}], 2),
        ([{"path": "map.txt"}, {"path": "/a/map.txt", "digest": "1"}], 2),
        ([{"path": "map.txt"}, {"path": "other.txt"}], 2),
    ],
    ids=["moved", "edited", "from before", "two from before"],
)
def test_maps_are_told_apart_by_what_they_hold_not_by_where_they_lie(reported, tmp_path, about, arms):
    for seed, own in enumerate(about):
        folder = write_run(tmp_path / "runs" / f"run-{seed}", [1.0] * 10, seed=seed, env="mdp/map")
        config = json.loads((folder / "config.json").read_bytes())
        config["settings"]["env"] |= own
        (folder / "config.json").write_text(json.dumps(config))
    assert table(reported(tmp_path / "runs")[0], "by-environment")["arm"].nunique() == arms


@pytest.mark.parametrize(
    ("others", "shared"), [(["asterix"], {"dqn": 1, "dqn + mico": 1}), (["asterix", "freeway"], {"dqn": 3})]
)
def test_an_arm_with_few_environments_is_not_in_aggregates_and_is_named(reported, runs, others, shared):
    """One of two is half of them, and one of three is less; its comparison with the baseline stays."""
    scale = runs.parent / "scale.csv"
    scale.write_text("env,low,high\n" + "".join(f"minatar/{game},0,10\n" for game in ("breakout", *others)))
    for game in others:
        write_fleet(runs / game, (1, 2, 3), lambda seed: [1.0] * 10, env=f"minatar/{game}")
    out, _ = reported(runs, "--normalise", scale)
    found = table(out, "aggregates", aggregate="mean").set_index("arm")["environments"]
    assert found.to_dict() == shared
    few = "dqn + mico is not in the aggregates: it has scores in 1 of 3 environments"
    assert (few in said(out)) == ("dqn + mico" not in shared)
    assert set(table(out, "comparisons", arm="dqn + mico")["environments"]) == {1}
    assert set(pd.read_csv(out / "figures" / "aggregates-against-steps.csv")["arm"]) == set(shared)


@pytest.mark.usefixtures("undrawn")
def test_the_baseline_has_the_same_fields(reported, tmp_path):
    rows = [
        ("dqn", metric, horizon, "x", seed, 1, 10 * horizon + (metric == "mico"))
        for metric in ("none", "mico")
        for horizon in (1, 3)
        for seed in (0, 1)
    ]
    columns = ["agent", "metric", "agent.horizon", "env", "seed", "step", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "mine.csv", index=False)
    out, _ = reported(tmp_path / "mine.csv")
    gaps = table(out, "comparisons", comparison="difference of mean")
    assert gaps[["arm", "baseline", "value"]].to_numpy().tolist() == [
        [f"dqn + mico (agent.horizon={horizon})", f"dqn (agent.horizon={horizon})", 1.0] for horizon in (1, 3)
    ]


def test_steps_that_aggregates_against_steps_lack_are_in_its_caption(reported, tmp_path):
    (tmp_path / "scale.csv").write_text("env,low,high\na,0,10\nb,0,10\n")
    for env, rows in {"a": 10, "b": 4}.items():
        write_fleet(tmp_path / "runs" / env, (0, 1), lambda seed, rows=rows: [5.0 + seed] * rows, env=env)
    out, _ = reported(tmp_path / "runs", "--normalise", tmp_path / "scale.csv")
    assert "what lies beyond step 4,000 is left out: not every environment's runs are so long" in said(out)


@pytest.mark.usefixtures("undrawn")
def test_many_that_are_equally_far_are_told_at_once(reported, tmp_path):
    fleet = write_fleet(tmp_path / "runs" / "mine", range(5), lambda seed: [1.0], steps=9000)
    out, printed = reported(tmp_path / "runs")
    assert "mine: 5 runs are at step 1,000 of 9,000" in said(out)
    assert "run-seed3 is at" not in printed
    for seed in range(20):
        (fleet / f"run-{seed}").mkdir()
        for file in ("config.json", "log.jsonl"):
            (fleet / f"run-{seed}" / file).write_text("{")
    out, printed = reported(tmp_path / "runs")
    assert printed.count("note: ") == 13
    assert "note: 11 more notes are on the page" in printed
    assert said(out).count("for it is damaged") == 20


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "config",
    [
        "[]",
        '{"run": "x", "agent": ["dqn"], "metric": null, "env": "e", "seed": 0}',
        '{"run": "x", "agent": "dqn", "metric": null, "env": "e", "seed": 0, "steps": "many"}',
        '{"run": "x", "agent": "dqn", "metric": null, "env": "e", "seed": 0, "starts": 3}',
        '{"run": "x", "agent": "dqn", "metric": null, "env": "e", "seed": 0, "settings": {"agent": "dqn"}}',
    ],
)
def test_configurations_that_are_none(reported, runs, config):
    (runs / "mico-2" / "config.json").write_text(config)
    out, _ = reported(runs)
    assert re.search(r"mico-2 is left out, for it is damaged: \S*mico-2/config\.json:? ", said(out))
    assert table(out, "by-environment", arm="dqn + mico")["seeds"].item() == 2


@pytest.mark.usefixtures("undrawn")
def test_returns_that_are_not_finite_are_stated(reported, runs):
    log = runs / "None-2" / "log.jsonl"
    log.write_text(log.read_text().replace('"return": 20}', '"return": "NaN"}'))
    out, _ = reported(runs, "--last", 0.1)
    assert "dqn: seed 2 of minatar/breakout is left out" in said(out)
    assert table(out, "by-environment", arm="dqn")[["seeds", "value"]].to_numpy().tolist() == [[2, 20.0]]


@pytest.mark.usefixtures("undrawn")
def test_folders_of_one_name_are_told_apart(reported, tmp_path):
    for place, seed in (("a", 1), ("b", 2)):
        write_run(tmp_path / place / "runs" / "x", [1.0 * seed], seed=seed)
    out, _ = reported(tmp_path / "a" / "runs", tmp_path / "b" / "runs", tmp_path / "a" / "runs")
    assert table(out, "by-environment")[["seeds", "value"]].to_numpy().tolist() == [[2, 1.5]]


@pytest.mark.usefixtures("undrawn")
def test_seeds_and_cells_that_others_have(reported, runs):
    write_run(runs / "more", [1.0] * 10, seed=9)
    write_run(runs / "other", [1.0] * 10, seed=1, env="minatar/asterix")
    text = said(reported(runs)[0])
    assert "dqn + mico in minatar/breakout lacks seed 9, which another arm has" in text
    assert "dqn + mico has no run in minatar/asterix" in text


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_that_is_not_finished(reported, tmp_path):
    sweep = tmp_path / "sweep"
    write_fleet(sweep / "000-a", (0, 1), lambda seed: [1.0], name="dqn-none")
    described = {"000-a": ["dqn-none-seed0", "dqn-none-seed1"], "001-b": [f"iqn-none-seed{seed}" for seed in range(5)]}
    fleets = [{"name": name, "runs": [{"name": run} for run in runs]} for name, runs in described.items()]
    (sweep / "sweep.json").write_text(json.dumps({"fleets": fleets}))
    (sweep / "status").mkdir()
    (sweep / "status" / "001-b.json").write_text(json.dumps({"state": "failed", "error": "no room"}))
    for source in (sweep, tmp_path):
        text = said(reported(source, out="report/it")[0])
        assert "001-b: 5 of 5 runs have not begun: iqn-none-seed0, iqn-none-seed1, iqn-none-seed2 and 2 more" in text
        assert "001-b failed: no room" in text
    (sweep / "sweep.json").write_text('{"fleets": [{}]}')
    assert "sweep/sweep.json is damaged" in said(reported(sweep, out="report/it")[0])


@pytest.mark.usefixtures("undrawn")
def test_runs_of_a_fleet_that_never_began(reported, tmp_path):
    fleet = write_fleet(tmp_path / "runs", (0, 1), lambda seed: [1.0])
    listed = json.loads((fleet / "fleet.json").read_text())
    (fleet / "fleet.json").write_text(json.dumps(listed | {"runs": [*listed["runs"], "run-seed2"]}))
    assert "runs: 1 of 3 runs have not begun: run-seed2" in said(reported(fleet)[0])


@pytest.mark.usefixtures("undrawn")
def test_runs_of_a_fleet_that_lost_their_configuration(reported, fails, tmp_path):
    for name in ("some", "all"):
        fleet = write_fleet(tmp_path / "runs" / name, range(3), lambda seed: [1.0], agent="dqn")
        for run in [*fleet.glob("run-*")][: 2 if name == "some" else 3]:
            (run / "config.json").unlink()
    out, printed = reported(tmp_path / "runs")
    for sentence in (
        "some: 2 of 3 runs are left out, for their config.json is missing: run-seed",
        "all: 3 of 3 runs are left out, for their config.json is missing: run-seed0, run-seed1, run-seed2",
    ):
        assert sentence in said(out)
        assert sentence in " ".join(printed.split())
    assert "config.json is missing" in fails(tmp_path / "runs" / "all", "--out", tmp_path / "x")


@pytest.mark.usefixtures("undrawn")
def test_how_to_run_it_again(reported, tmp_path):
    later = {**ORIGIN, "step": 500, "device": "gpu: H200", "commit": None}
    fleet = write_fleet(tmp_path / "runs" / "mine", (0, 1), lambda seed: [1.0, 2.0], metric="mico")
    config = json.loads((fleet / "run-seed0" / "config.json").read_text())
    other = {"starts": [ORIGIN, later], "computed_as": {"metric": {"name": "mico", "alpha": 0.0}}}
    (fleet / "run-seed0" / "config.json").write_text(json.dumps(config | other))
    text = said(reported(tmp_path / "runs")[0])
    fields = "--agent.discount 0.99 --metric.alpha 0.01 --metric.beta 0.1"
    common = "mico train --env minatar/breakout --agent dqn --metric mico --seeds"
    assert f"{common} 0 1 {fields} --steps 2000 --out again/mine " in text
    assert f"{common} 1 {fields} --steps 2000 --out again/mine-run-seed1 " in text
    assert "from step 0 on cpu: cpu, commit 0123abc; mico-rl 0.1.0, jax 0.10.0" in text
    assert "from step 500 on gpu: H200, commit unknown" in text
    assert "baselines share the program of a metric loss with α = 0, which is the same: run-seed0 " in text


@pytest.mark.usefixtures("undrawn")
def test_a_report_is_made_anew_and_nothing_else_is_touched(reported, fails, runs, tmp_path):
    out, _ = reported(runs)
    assert (out / "tables" / "comparisons.csv").exists()
    (out / "mine.txt").write_text("mine")
    (out / "tables" / "mine.csv").write_text("mine")
    reported(runs / "None-1")
    assert not (out / "tables" / "comparisons.csv").exists()
    assert [path.read_text() for path in (out / "mine.txt", out / "tables" / "mine.csv")] == ["mine", "mine"]
    (out / "tables" / "comparisons.csv").write_text("mine")
    assert "comparisons.csv is there already" in fails(runs, "--out", out)
    assert (out / "tables" / "comparisons.csv").read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
def test_folders_of_others_are_refused(fails, runs, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("")
    assert "holds other things than a report, such as thesis.txt" in fails(runs, "--out", tmp_path / "other")
    assert "is a file" in fails(runs, "--out", tmp_path / "other" / "thesis.txt")
    (tmp_path / "strange").mkdir()
    for listed in ("{}", '{"files": ["../runs/None-1/config.json"]}', "x"):
        (tmp_path / "strange" / "report.json").write_text(listed)
        assert "report.json" in fails(runs, "--out", tmp_path / "strange")
    assert (runs / "None-1" / "config.json").exists()


def test_nothing_to_report_on(fails, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "there is no run with a return" in fails(tmp_path / "empty", "--out", tmp_path / "x")
    write_run(tmp_path / "runs" / "one", [])
    assert "there is no run with a return" in fails(tmp_path / "runs", "--out", tmp_path / "x")
    _written(tmp_path / "none.csv", "agent,env,seed,step,score\na,e,0,10,\n")
    assert "no return is a finite number" in fails(tmp_path / "none.csv", "--out", tmp_path / "x")
    assert "SOURCE" in fails("--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
