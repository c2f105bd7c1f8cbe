"""Links in a folder of results, which somebody else may have made: nothing is written, or removed, through one."""

import os
import re
import shutil

import pytest

from mico import cli
from mico.sweeps.status import read_status
from mico.tabular import MDP
from small_sweeps import flags_of_pair, pair_of_fleets
from trainings import FLAGS
from written_runs import write_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

TRAIN = ["train", "--env", "mdp/frozen-lake", "--agent", "dqn", "--metric", "mico", "--seeds", "0", *FLAGS]
RUN = "dqn-mico-seed0"


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody with an old checkpoint of the same training, and how it has to stay."""
    folder = tmp_path / "victim"
    (folder / "params").mkdir(parents=True)
    for name in ("thesis.tex", "params/80.arrays", "params/thesis.tex"):
        (folder / name).write_text("years of work\n")
    before = everything(folder)
    yield folder
    assert everything(folder) == before


def everything(folder):
    """All that is in a folder; a lock file comes and goes, and so may the time of the folder that it is in."""
    found = {path: path.read_bytes() if path.is_file() else os.path.lexists(path) for path in folder.rglob("*")}
    return {path: what for path, what in found.items() if path.name != "lock"}


def refused(argv, capsys, name="symbolic link"):
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, argv)])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert re.fullmatch(rf"mico: [^\n]*{name}[^\n]*\n", printed.err), printed.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "out"
    cli.main([*TRAIN, "--steps", "80", "--out", str(out)])
    return out


@pytest.mark.parametrize(
    "name", ["timing.jsonl", "checkpoints", RUN, f"{RUN}/log.jsonl", f"{RUN}/params", f"{RUN}/tensorboard"]
)
def test_a_training_writes_through_no_link(tmp_path, trained, capsys, name):
    """Each once ended with exit 0, after it had written to, cut or deleted what the link led to."""
    out = tmp_path / "out"
    shutil.copytree(trained, out)
    if (out / name).exists():
        shutil.move(out / name, tmp_path / "theirs")
    else:
        (tmp_path / "theirs").mkdir()
    (out / name).symlink_to(tmp_path / "theirs")
    before = everything(tmp_path)
    refused([*TRAIN, "--steps", "160", "--resume", "--out", out], capsys)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["timing.jsonl", f"{RUN}/log.jsonl", "checkpoints/none-yet"])
def test_a_dangling_link_makes_no_file(tmp_path, trained, capsys, name):
    """A training that was only begun has neither rows nor checkpoints, and makes both files."""
    out = tmp_path / "out"
    shutil.copytree(trained, out)
    shutil.rmtree(out / "checkpoints")
    shutil.rmtree(out / RUN / "params")
    (out / "checkpoints").mkdir()
    (out / "checkpoints/none-yet").touch()
    for log in ("timing.jsonl", f"{RUN}/log.jsonl"):
        (out / log).write_text("")
    (out / name).unlink()
    (out / name).symlink_to(tmp_path / "nowhere")
    refused([*TRAIN, "--steps", "160", "--resume", "--out", out], capsys)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["timing.jsonl", f"{RUN}/log.jsonl"])
def test_a_pipe_in_place_of_a_log_is_refused(tmp_path, trained, capsys, name):
    """To open one to write waits for a reader, for ever."""
    out = tmp_path / "out"
    shutil.copytree(trained, out)
    (out / name).unlink()
    os.mkfifo(out / name)
    refused([*TRAIN, "--steps", "160", "--resume", "--out", out], capsys, "must be a regular file")
    assert not (out / RUN / "params/160.arrays").exists()


def test_out_itself_may_be_a_link(tmp_path, trained):
    shutil.copytree(trained, tmp_path / "disk")
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    cli.main([*TRAIN, "--steps", "160", "--resume", "--out", str(tmp_path / "out")])
    assert (tmp_path / "disk" / RUN / "params/160.arrays").is_file()


@pytest.mark.parametrize("name", ["status", "fleet"])
def test_a_sweep_writes_through_no_link(tmp_path, victim, capsys, name):
    out = tmp_path / "out"
    fleets = pair_of_fleets(out, steps=40)
    (out / (name if name == "status" else fleets[1].name)).symlink_to(victim)
    refused([*flags_of_pair(40), "--out", out], capsys)
    assert read_status(out, fleets[0].name).state == "waiting"


@pytest.mark.parametrize("name", ["tables", "figures"])
def test_a_report_writes_through_no_link(tmp_path, victim, capsys, name):
    write_run(tmp_path / "runs/a", [1.0, 2.0])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.json").write_text('{"files": []}')
    (tmp_path / "out" / name).symlink_to(victim)
    refused(["report", tmp_path / "runs", "--resamples", "100", "--out", tmp_path / "out"], capsys)


def test_an_experiment_writes_through_no_link(tmp_path, victim, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/cells").symlink_to(victim)
    refused(["experiment", "value-gap", "--quick", "--workers", "1", "--out", tmp_path / "out"], capsys)


@pytest.mark.parametrize("name", ["runs", "runs/of-a-demo", "runs/learning", "runs/learnt-metric"])
def test_a_demo_empties_and_writes_nothing_behind_a_link(tmp_path, victim, capsys, name):
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    if name != "runs":
        (out / "runs/of-a-demo").touch()
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(victim / "thesis.tex" if name.endswith("demo") else victim)
    refused(["demo", "--quick", "--out", out], capsys)
    assert not [*out.glob("*.csv")]


def test_a_demo_removes_links_and_not_what_they_lead_to(tmp_path, victim):
    from mico.cli.demo import _emptied

    folder = tmp_path / "out/runs/learning"
    folder.mkdir(parents=True)
    (folder / "theirs").symlink_to(victim)
    assert _emptied(tmp_path / "out", "runs", "learning") == folder
    assert not [*folder.iterdir()]


def test_the_problem_of_runs_is_stored_behind_no_link(tmp_path, victim):
    import mico

    (tmp_path / "out").mkdir()
    (tmp_path / "out/problem").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        mico.train(MDP([[[1.0]]], [[0.0]], 0.9), seeds=[0], steps=40, out=tmp_path / "out")
