"""A sweep on this machine: killed, stopped or failing in part, it goes on to what an undisturbed one leaves."""

import os
import shutil
import signal

import pytest
from jax.errors import JaxRuntimeError

from mico import cli
from mico.deep import load
from mico.deep.training.train import Manner
from mico.runs.folder import read_runs
from mico.sweeps import fleets as module
from mico.sweeps import local
from mico.sweeps.fleets import attempt, finished
from mico.sweeps.status import read_status
from small_sweeps import (
    begun,
    flags_of_pair,
    is_under_way,
    left_by,
    pair_of_fleets,
    small_sweep,
    starts,
    states,
    wait_for,
    writer_of,
)
from trainings import FLAGS, ended, left, mico

pytestmark = pytest.mark.usefixtures("quick_compilation")
EAGER = Manner(checkpoint_seconds=0)


def unseen(fleet, status):
    pass


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, quick_compilation):
    """A sweep that nothing happened to: its fleets, its folder and what it left."""
    out = tmp_path_factory.mktemp("undisturbed")
    fleets = pair_of_fleets(out)
    local.in_turn(fleets, out, Manner(), unseen)
    assert states(fleets, out) == ["finished", "finished"]
    return fleets, out, left_by(fleets, out)


def test_results_read_as_what_they_stand_for(undisturbed):
    _, out, _ = undisturbed
    frame = read_runs(out)
    assert set(frame["metric"]) == {"none", "mico"}
    runs = frame.groupby(["experiment", "run"]).first()
    assert sorted(run for _, run in runs.index) == [
        "dqn-mico-seed0",
        "dqn-mico-seed1",
        "dqn-none-seed0",
        "dqn-none-seed1",
    ]
    rows = frame[frame["name"] == "loss"].groupby(["experiment", "run"]).size()
    assert set(rows) == {9}  # a row every 40 steps, once the fleet learns


def test_a_baseline_is_called_one_loads_as_one_and_is_evaluated(undisturbed, capsys):
    fleets, out, _ = undisturbed
    run = load(out / fleets[1].name / "dqn-none-seed1")
    assert run.settings.metric is None
    assert run.step == 400
    cli.main(["evaluate", str(out / fleets[1].name), "--episodes", "2"])
    assert "none" in capsys.readouterr().out


def test_a_baseline_equals_a_training_without_a_metric_loss(undisturbed, tmp_path):
    """Up to rounding: as programs they differ, and the losses that count are the same."""
    _, out, _ = undisturbed
    baseline = small_sweep(env=["mdp/two-state"], metric=["none"])
    fleets = begun(baseline, tmp_path)
    local.in_turn(fleets, tmp_path, Manner(), unseen)
    ours, alone = read_runs(out), read_runs(tmp_path)
    ours = ours[ours["metric"] == "none"]
    for name in ("return", "td_loss", "q"):
        one, other = (frame[frame["name"] == name].sort_values(["seed", "step"])["value"] for frame in (ours, alone))
        assert one.size >= 18
        assert one.to_numpy() == pytest.approx(other.to_numpy(), rel=1e-3)


def test_train_can_go_on_with_a_fleet_of_a_sweep(undisturbed, tmp_path):
    """With the flags that its runs are computed by; they keep their names."""
    fleets, out, expected = undisturbed
    shutil.copytree(out / fleets[0].name, tmp_path / "fleet")
    words = "train --env mdp/two-state --metric mico --metric.alpha 0 0.01 --seeds 0 --steps 400 --resume --out"
    cli.main([*words.split(), str(tmp_path / "fleet"), *FLAGS])
    assert left(tmp_path / "fleet") == expected[fleets[0].name]
    assert load(tmp_path / "fleet" / "dqn-none-seed0").settings.metric is None
    words = words.replace("--metric.alpha 0 0.01", "--metric.alpha 0")
    with pytest.raises(SystemExit):
        cli.main([*words.split(), str(tmp_path / "fleet"), *FLAGS])


def test_killed_in_the_middle_it_goes_on_when_run_again(undisturbed, tmp_path):
    fleets, _, expected = undisturbed
    flags = [*flags_of_pair(), "--checkpoint-seconds", "0", "--out", tmp_path]
    process = mico(*flags)
    wait_for(lambda: is_under_way(fleets[1], tmp_path) or process.poll() is not None)
    process.kill()
    ended(process)
    assert states(fleets, tmp_path) == ["finished", "running"]
    cli.main([*map(str, flags)])
    assert left_by(fleets, tmp_path) == expected
    assert [starts(fleet, tmp_path) for fleet in fleets] == [1, 2]


def test_ctrl_c_leaves_what_goes_on_when_run_again(undisturbed, tmp_path):
    fleets, _, expected = undisturbed
    pair_of_fleets(tmp_path)

    def press(fleet, status):
        if fleet == fleets[0] and status.step == 200:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        local.in_turn(fleets, tmp_path, Manner(), press)
    assert states(fleets, tmp_path) == ["stopped", "waiting"]
    assert 200 <= read_status(tmp_path, fleets[0].name).step < 400
    local.in_turn(fleets, tmp_path, Manner(), unseen)
    assert left_by(fleets, tmp_path) == expected


def test_a_fleet_that_fails_does_not_stop_the_others(undisturbed, tmp_path, capsys):
    fleets, _, expected = undisturbed
    pair_of_fleets(tmp_path)
    (tmp_path / fleets[0].name).write_text("in the way")
    flags = [*flags_of_pair(), "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as stop:
        cli.main(flags)
    printed = capsys.readouterr().out
    assert stop.value.code == 1
    assert "1 of 2 fleets failed; the same command tries them again:" in printed
    assert f"  {fleets[0].name}: out must be a folder, but {tmp_path / fleets[0].name} is a file" in printed
    assert states(fleets, tmp_path) == ["failed", "finished"]
    assert "Traceback" in read_status(tmp_path, fleets[0].name).details
    (tmp_path / fleets[0].name).unlink()
    cli.main(flags)
    assert "All 2 fleets are finished" in capsys.readouterr().out
    assert left_by(fleets, tmp_path) == expected
    assert [starts(fleet, tmp_path) for fleet in fleets] == [1, 1]  # what was finished did not run again


def test_a_finished_fleet_whose_folder_is_gone_runs_again(undisturbed, tmp_path):
    fleets, out, expected = undisturbed
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    assert finished(fleets[0], tmp_path)
    shutil.rmtree(tmp_path / fleets[0].name)
    assert not finished(fleets[0], tmp_path)
    cli.main([*flags_of_pair(), "--out", str(tmp_path)])
    assert left_by(fleets, tmp_path) == expected


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (JaxRuntimeError("RESOURCE_EXHAUSTED: no room"), "this takes more memory than there is: --max-runs or"),
        (JaxRuntimeError("INTERNAL: who knows"), "JaxRuntimeError: INTERNAL: who knows"),
        (ValueError("env 'x'\n is bad"), "env 'x' is bad"),
        (PermissionError(13, "Permission denied", "/there"), "/there: Permission denied"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_a_line(undisturbed, tmp_path, monkeypatch, error, line):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(module, "train", broken)
    status = attempt(undisturbed[0][0], tmp_path, Manner())
    assert status.state == "failed"
    assert status.error.startswith(line)
    assert read_status(tmp_path, undisturbed[0][0].name) == status
    assert not finished(undisturbed[0][0], tmp_path)


def test_a_fleet_whose_end_cannot_be_written_down_has_failed(undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "train", lambda *_, **__: (tmp_path / "gone").touch())
    monkeypatch.setattr(module, "write_status", refusing(module.write_status, tmp_path / "gone"))
    status = attempt(undisturbed[0][0], tmp_path, Manner())
    assert (status.state, status.error) == ("failed", "the disk: full")


def refusing(write, once):
    def written(*arguments):
        if once.exists():
            raise OSError(28, "full", "the disk")
        write(*arguments)

    return written


def test_another_process_in_the_folder_is_waited_for(undisturbed, tmp_path, monkeypatch):
    calls = []

    def occupied_twice(*_, **__):
        calls.append(1)
        if len(calls) < 3:
            raise module.OccupiedError("is being written")

    monkeypatch.setattr(module, "train", occupied_twice)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    assert attempt(undisturbed[0][0], tmp_path, Manner()).state == "finished"
    assert len(calls) == 3
    monkeypatch.setattr(module, "_PATIENCE", -1.0)
    calls.clear()
    assert attempt(undisturbed[0][0], tmp_path, Manner()).error == "is being written"


def test_how_fleets_are_trained_reaches_the_loop(undisturbed, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(module, "train", lambda *_, **options: given.update(options))
    attempt(undisturbed[0][0], tmp_path, Manner(7.5, "empty", True))
    assert given["manner"] == Manner(7.5, "empty", True)
    assert given["resume"]


# Several processes


def test_one_of_several_processes_is_killed_and_then_all_are_stopped(undisturbed, tmp_path):
    fleets, _, expected = undisturbed
    flags = [*flags_of_pair(), "--checkpoint-seconds", "0", "--processes", "2", "--out", tmp_path]
    process = mico(*flags)
    wait_for(lambda: is_under_way(fleets[0], tmp_path) or process.poll() is not None)
    victim = writer_of(fleets[0], tmp_path)
    os.kill(victim, signal.SIGSTOP)  # or it might come to its end before the other has begun
    lock = tmp_path / fleets[1].name / "lock"
    wait_for(lambda: (lock.exists() and lock.stat().st_size > 0) or process.poll() is not None)
    assert len({process.pid, victim, writer_of(fleets[1], tmp_path)}) == 3  # each in a process of its own
    os.kill(victim, signal.SIGKILL)
    code, out, _ = ended(process)
    assert code == 1
    assert f"{fleets[0].name}: its process ended before its time, with signal 9" in out
    assert states(fleets, tmp_path) == ["failed", "finished"]
    process = mico(*flags)
    wait_for(lambda: starts(fleets[0], tmp_path) == 2 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code in (0, 130)  # it may have been quicker
    assert (
        code == 0 or f"stopped; what was trained is saved in {tmp_path}: run the same command again to continue" in err
    )
    cli.main([*map(str, flags)])
    assert left_by(fleets, tmp_path) == expected


def test_processes_end_with_the_one_that_started_them(undisturbed, tmp_path):
    fleets, _, _ = undisturbed
    flags = [*flags_of_pair(40_000), "--processes", "2", "--out", tmp_path]
    process = mico(*flags)
    wait_for(lambda: all((tmp_path / fleet.name / "fleet.json").exists() for fleet in fleets))
    workers = [writer_of(fleet, tmp_path) for fleet in fleets]
    assert all(is_alive(pid) for pid in workers)
    process.kill()
    ended(process)
    wait_for(lambda: not any(is_alive(pid) for pid in workers), seconds=20)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
