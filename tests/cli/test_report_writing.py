"""Reports from Python and from the shell: what leads, whose columns and names are taken, and what is refused."""

import html
import json
import re
import shlex
import subprocess
import sys

import pandas as pd
import pytest

from mico import cli
from mico.cli import report_writing
from mico.cli.report_writing import report
from mico.evidence.figures import Drawing, Undrawn, drawings
from mico.evidence.study import Choices, study
from mico.runs.lock import OccupiedError, locked_folder
from mico.runs.sources import read_sources
from mico.runs.tables import read_scores
from written_runs import write_fleet, write_run


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(report_writing, "drawings", lambda study: iter(()))


def page(out):
    text = (out / "report.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", " ", text.partition("<nav")[2].partition("<noscript>")[0]))


def rising(late=0, rows=12, top=1.0):
    """Returns of 0, and of `top` from a row on that is later by some."""
    return [0.0] * (3 + late) + [top] * (rows - 3 - late)


@pytest.fixture
def tied(tmp_path):
    """Two arms that end at 1 in a room, one of them two rows later; three seeds, of which the last is a row later."""
    for metric, late in ((None, 0), ("mico", 2)):
        write_fleet(
            tmp_path / "runs" / f"{metric}",
            range(3),
            lambda seed, late=late: rising(late + (seed == 2)),
            env="mdp/four-rooms",
            metric=metric,
        )
    return tmp_path / "runs"


def looked_at(source):
    return study(read_sources([source]), Choices(None, None, 0.1, None, 200, 100, 0))


# What leads


@pytest.mark.usefixtures("undrawn")
def test_where_all_arms_end_at_the_ceiling_learning_speed_leads(tied, tmp_path):
    report(tied, tmp_path / "out")
    text = page(tmp_path / "out")
    assert "Most runs of every arm end at the best score: mdp/four-rooms (1.00)." in text
    html_text = (tmp_path / "out" / "report.html").read_text()
    order = [html_text.index(f'id="{name}"') for name in ("first", "scores", "learning-speed", "by-environment", "ran")]
    assert order == sorted(order)
    found = pd.read_csv(tmp_path / "out" / "tables" / "learning-speed.csv").set_index(["arm", "measure"])
    # By hand: rows of 1,000 steps; the first 1 is in row 4, 4, 5 of twelve, and two rows later with the loss.
    assert found.loc[("dqn", "steps"), ["value", "reached", "runs", "threshold"]].tolist() == pytest.approx(
        [13_000 / 3, 3, 3, 0.9]
    )
    assert found.loc[("dqn", "mean"), "value"] == pytest.approx((9 + 9 + 8) / 12 / 3)
    gaps = pd.read_csv(tmp_path / "out" / "tables" / "learning-speed-differences.csv").set_index("measure")
    assert gaps[["value", "low", "high"]].to_numpy().tolist() == [
        pytest.approx([-1 / 6] * 3),
        pytest.approx([2000.0] * 3),
    ]
    assert "3 of 3" in text


def test_figures_of_ties_are_those_of_learning_speed(tied):
    found = list(drawings(looked_at(tied)))
    drawn = {one.name: one for one in found if isinstance(one, Drawing)}
    assert set(drawn) == {"learning-speed", "aggregates-against-steps", "curves"}
    assert any("No figures of final scores" in one.why for one in found if isinstance(one, Undrawn))
    left, right = drawn["learning-speed"].figure.axes
    dots = [line.get_xdata()[0] for line in right.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([13_000 / 3, 19_000 / 3])
    assert (left.get_xlabel(), right.get_xlabel()) == ("mean return over training", "steps to 0.9 of the best")


@pytest.mark.usefixtures("undrawn")
def test_runs_that_never_get_there_are_counted(tied, tmp_path):
    write_run(tied / "late" / "run", [0.0] * 12, env="mdp/four-rooms", seed=3)
    report(tied, tmp_path / "out")
    found = pd.read_csv(tmp_path / "out" / "tables" / "learning-speed.csv").set_index(["arm", "measure"])
    assert found.loc[("dqn", "steps"), ["value", "reached", "runs"]].tolist() == pytest.approx([25_000 / 4, 3, 4])
    assert re.search(r"≥ 6,250 \[.*?\]\s+3 of 4", page(tmp_path / "out"))


@pytest.mark.usefixtures("undrawn")
def test_where_final_scores_differ_they_lead(tied, tmp_path):
    write_fleet(tied / "other", range(3), lambda seed: rising(top=0.5), env="mdp/four-rooms", agent="iqn")
    report(tied, tmp_path / "out")
    text = (tmp_path / "out" / "report.html").read_text()
    assert 'id="first"' not in text
    order = [text.index(f'id="{name}"') for name in ("ran", "scores", "aggregates", "learning-speed")]
    assert order == sorted(order)
    found = pd.read_csv(tmp_path / "out" / "tables" / "learning-speed.csv").set_index(["arm", "measure"])
    assert found.loc[("iqn", "steps"), ["value", "reached"]].tolist() == [12_000, 0]
    assert "never" in page(tmp_path / "out")


def test_one_environment_of_two_at_the_ceiling_does_not_lead_but_is_drawn(tied):
    for metric, top in ((None, 0.5), ("mico", 1.0)):
        levels = rising(top=top)
        write_fleet(tied / f"lake-{metric}", range(3), lambda seed, own=levels: own, env="mdp/lake", metric=metric)
    found = looked_at(tied)
    assert (found.tied, found.leads_with_speed) == (["mdp/four-rooms"], False)
    names = [one.name for one in drawings(found) if isinstance(one, Drawing)]
    assert "learning-speed" in names
    assert "probability-of-improvement" in names


# Single rows


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("period", "word"), [(5000, "longer than"), (1000, "as long as"), (500, None), (None, None)])
def test_runs_of_one_row_say_why(tmp_path, capsys, period, word):
    run = write_run(tmp_path / "runs" / "run", [0.4], env="mdp/four-rooms")
    config = json.loads((run / "config.json").read_text())
    if period is not None:
        config["settings"]["schedule"] = {"log_period": period}
    (run / "config.json").write_text(json.dumps(config))
    cli.main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    why = "Every run has one return, so there are no curves"
    if word is not None:
        why += f": the log period, {period:,} steps, is {word} the runs' 1,000 steps."
    assert why in page(tmp_path / "out")
    assert f"note: {why}" in capsys.readouterr().out
    assert "<h2>Curves</h2>" not in page(tmp_path / "out")
    assert "href=#curves" not in page(tmp_path / "out").replace('"', "")
    assert not (tmp_path / "out" / "tables" / "learning-speed.csv").exists()


def test_runs_of_one_row_have_no_figures_of_curves_and_no_grey_block(tmp_path):
    for metric in (None, "mico"):
        write_fleet(tmp_path / f"{metric}", (0, 1), lambda seed: [0.38 - 0.05 * seed], metric=metric)
    found = list(drawings(looked_at(tmp_path)))
    names = {one.name for one in found if isinstance(one, Drawing)}
    assert names == {"intervals", "probability-of-improvement"}
    why = " ".join(one.why for one in found if isinstance(one, Undrawn))
    assert "No curves: every run has a single return." in why
    assert "No performance profiles: of 2 scores an arm their intervals would fill the figure." in why


FINALS = "agent,env,seed,step,score\n"


@pytest.mark.parametrize(
    "rows",
    [
        "dqn,atari/pong,0,50000000,18\ndqn,atari/pong,1,50000000,17\n"
        "rainbow,atari/pong,0,40000000,20\nrainbow,atari/pong,1,40000000,19\n",
        "a,e,0,10,1\nb,e,0,20,3\n",
    ],
)
def test_final_scores_at_different_steps(tmp_path, capsys, rows):
    (tmp_path / "finals.csv").write_text(FINALS + rows)
    cli.main(["report", str(tmp_path / "finals.csv"), "--out", str(tmp_path / "out")])
    assert "it has no return up to step" in capsys.readouterr().out
    arms = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "out" / "report.html").read_text())[1])["arms"]
    assert [arm["name"] for arm in arms] == list(dict.fromkeys(row.split(",")[0] for row in rows.split()))


# Columns


THEIRS = "algo,game,run,timestep,reward\n" + "".join(
    f"ppo,Chess,{seed},{step},{step * seed}\n" for seed in (1, 2) for step in (5, 10)
)
PAIRS = ["algo=agent", "game=env", "run=seed", "timestep=step", "reward=score"]


@pytest.fixture
def report_fails(capsys):
    def run(*argv):
        with pytest.raises(SystemExit, match=r"^2$"):
            cli.main(["report", *map(str, argv)])
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1
        return printed.err

    return run


@pytest.mark.usefixtures("undrawn")
def test_columns_of_other_people(tmp_path, report_fails, capsys):
    theirs, out = tmp_path / "theirs.csv", tmp_path / "out"
    theirs.write_text(THEIRS)
    message = report_fails(theirs, "--out", out)
    assert "found algo, game, run, timestep, reward." in message
    assert f"--columns {' '.join(PAIRS)} " in message
    assert not out.exists()
    (tmp_path / "scale.csv").write_text("game,low,best\nChess,0,100\n")
    argv = [theirs, "--normalise", tmp_path / "scale.csv", "--last", "0.2", "--out", out, "--columns", *PAIRS]
    assert "lacks high; found env, low, best. Name them with --columns NAME=high" in report_fails(*argv)
    cli.main(["report", *map(str, argv), "best=high"])
    scores = pd.read_csv(out / "tables" / "aggregates.csv").set_index("aggregate")["value"]
    assert scores["mean"] == pytest.approx(0.15)
    kept = json.loads((out / "report.json").read_text())["options"]
    assert kept["columns"] == dict(pair.split("=") for pair in [*PAIRS, "best=high"])
    assert kept["sources"] == [str(theirs)]
    line = f"mico report {theirs} --columns {' '.join(PAIRS)} best=high --normalise {tmp_path / 'scale.csv'} --last 0.2"
    assert f"{line} --out {out}" in page(out)
    capsys.readouterr()


@pytest.mark.usefixtures("undrawn")
def test_columns_that_are_nobodys(tmp_path, report_fails, tied):
    (tmp_path / "theirs.csv").write_text(THEIRS)
    fails = lambda *pairs: report_fails(tmp_path / "theirs.csv", "--out", tmp_path / "x", "--columns", *pairs)  # noqa: E731
    assert "got 'allgo': found algo, game, run, timestep, reward; did you mean algo?" in fails("allgo=agent")
    assert "did you mean agent?" in fails("algo=agant")
    assert "one column to agent, got algo=agent and game=agent" in fails("algo=agent", "game=agent")
    assert "pairs such as algo=agent" in fails("algo")
    message = report_fails(tied, "--out", tmp_path / "x", "--columns", "algo=agent")
    assert "columns are for CSV files, and there is none" in message
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_printed_command_makes_the_same_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it's mine.csv").write_text(THEIRS)
    columns = dict(pair.split("=") for pair in PAIRS)
    report("it's mine.csv", "out", columns=columns, title="A & B", points=7, resamples=50, seed=3, step=10)
    (line,) = re.findall(r"mico (report .*? --out out)", page(tmp_path / "out"))
    before = (tmp_path / "out" / "report.html").read_bytes()
    cli.main(shlex.split(line))
    assert (tmp_path / "out" / "report.html").read_bytes() == before


# From Python


@pytest.mark.usefixtures("undrawn")
def test_reports_on_tables_in_memory(tmp_path):
    (tmp_path / "theirs.csv").write_text(THEIRS)
    columns = dict(pair.split("=") for pair in PAIRS)
    frame = pd.read_csv(tmp_path / "theirs.csv")
    found = report([frame, frame.assign(algo="a2c", reward=1)], str(tmp_path / "out"), columns=columns)
    assert found == tmp_path / "out" / "report.html"
    scores = pd.read_csv(tmp_path / "out" / "tables" / "by-environment.csv").set_index("arm")["value"]
    assert scores.to_dict() == {"a2c": 1, "ppo": 15}
    assert "This report" not in page(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text())["options"]["sources"] == [
        "a table in memory",
        "a table in memory",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": 1.5}, "last must be a share of the steps, above 0 and at most 1, got 1.5"),
        ({"points": 0}, "points must be 1 or more, got 0"),
        ({"resamples": 0}, "resamples must be from 1 to 1,000,000, got 0"),
        ({"resamples": 2**63}, "resamples must be from 1 to 1,000,000, got"),
        ({"seed": -1}, "seed must not be negative, got -1"),
        ({"step": 10**9}, "step must be one that every arm has reached"),
        ({"baseline": "iqn"}, "baseline must be one of dqn, dqn . mico"),
        ({"normalise": "humn"}, "normalise must be one of"),
        ({"columns": {"a": "b"}}, "columns must map to agent"),
    ],
)
def test_options_that_are_none_are_refused_before_anything_is_written(tied, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        report(tied, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_no_sources(tmp_path):
    with pytest.raises(ValueError, match="sources must name a folder of runs"):
        report([], tmp_path / "out")


# Names from files


@pytest.mark.usefixtures("undrawn")
def test_names_in_files_are_only_names(tied, tmp_path, capsys):
    """A run that calls itself a path, or rings the terminal's bell, is damaged; formulas do nothing."""
    run = tied / "None" / "run-seed0"
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"run": "../../victim"}))
    fleet = json.loads((tied / "mico" / "fleet.json").read_text())
    (tied / "mico" / "fleet.json").write_text(json.dumps(fleet | {"runs": ["../../outside"]}))
    write_run(tied / "odd" / "run", rising(), agent="=cmd()", env="mdp/four-rooms")
    write_run(tied / "odd" / "bell\x1b]0;PWNED\x07", rising(), agent="\x1b]0;PWNED\x07", env="mdp/four-rooms")
    cli.main(["report", str(tied), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "None/run-seed0 is left out, for it is damaged:" in printed
    assert "config.json: run must be a plain name" in printed
    assert "odd/bell�]0;PWNED� is left out, for it is damaged:" in printed
    assert "mico/fleet.json is damaged" in printed
    assert "victim" not in page(tmp_path / "out").rpartition("How to run it again")[2]
    assert "\x1b" not in printed
    assert "\x07" not in printed
    cells = (tmp_path / "out" / "tables" / "by-environment.csv").read_text()
    assert "'=cmd()" in cells


def test_figures_of_arms_whose_names_are_paths_stay_inside(tmp_path):
    agents = ["base", "../../outside", "/tmp/absolute", "é" * 80]
    rows = [
        (agent, env, seed, step, seed + step) for agent in agents for env in "xy" for seed in (0, 1) for step in (1, 2)
    ]
    table = pd.DataFrame(rows, columns=["agent", "env", "seed", "step", "score"])
    report(table, tmp_path / "deep" / "out", baseline="base")
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert all(file.startswith("deep/out/") for file in files)
    bars = {file for file in files if "improvement-" in file and file.endswith(".csv")}
    assert {f"deep/out/figures/improvement-{name}.csv" for name in ("outside", "tmp-absolute", "é" * 50)} <= bars


@pytest.mark.usefixtures("undrawn")
def test_json_that_is_nested_too_deeply_is_damaged(tied, tmp_path, capsys):
    (tied / "None" / "run-seed0" / "config.json").write_text("[" * 100_000)
    (tied / "mico" / "fleet.json").write_text('{"runs": ' + "[" * 100_000)
    cli.main(["report", str(tied), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "None/run-seed0 is left out, for it is damaged:" in printed
    assert "config.json is nested too deeply" in printed
    assert "mico/fleet.json is damaged" in printed


def test_a_report_that_waits_for_another_writes_nothing(tied, tmp_path):
    """Not even its list of files, which it once read and wrote before it had the folder."""
    with locked_folder(tmp_path / "out"), pytest.raises(OccupiedError, match="is being written by process"):
        report(tied, tmp_path / "out")
    assert not [*(tmp_path / "out").iterdir()]


def test_reports_and_archives_need_no_jax():
    """Nor does what they import: a report is made where only the core is installed."""
    code = """
import sys
for name in ("jax", "jaxlib", "equinox", "optax", "zstandard"):
    sys.modules[name] = None
import mico.cli.collect, mico.cli.report, mico.cli.report_writing
import importlib, pkgutil, mico.evidence, mico.pages, mico.plotting, mico.runs
for package in (mico.evidence, mico.pages, mico.plotting, mico.runs):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_frame_of_a_table_is_that_of_its_file(tmp_path):
    (tmp_path / "theirs.csv").write_text(THEIRS)
    columns = dict(pair.split("=") for pair in PAIRS)
    from_file = read_sources([tmp_path / "theirs.csv"], columns).frame
    in_memory = read_sources([pd.read_csv(tmp_path / "theirs.csv")], columns).frame
    same = ["agent", "env", "seed", "step", "value"]
    pd.testing.assert_frame_equal(from_file[same], in_memory[same])
    pd.testing.assert_frame_equal(from_file[same], read_scores(tmp_path / "theirs.csv", columns)[same])
