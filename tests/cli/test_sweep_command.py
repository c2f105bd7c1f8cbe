"""`mico sweep`: its flags say what a file would, each option does what it says, and it refuses in one line."""

import io
import json
import re
import sys

import pytest
from rich.console import Console

from mico import cli
from mico.cli import sweep as command
from mico.cli.sweep_display import Display
from mico.cli.sweep_options import parse
from mico.deep.training.train import Manner
from mico.runs.lock import exclusive
from mico.sweeps import absent, local
from mico.sweeps.absent import shape_of
from mico.sweeps.grid import Sweep, cells
from mico.sweeps.manifest import Limits, planned
from mico.sweeps.named import SWEEPS
from mico.sweeps.status import Status, read_status, write_status
from mico.tabular import make, save
from small_sweeps import flags_of_pair, pair_of_fleets, small_sweep

SOMEWHERE = ["--out", "unused"]
LINE = (
    "--env minatar/breakout minatar/asterix --agent dqn iqn --metric none mico --metric.alpha .01 .1 --seeds 0 1 2"
    " --steps 200000"
)


def sweep(*flags):
    return parse([*map(str, flags), *SOMEWHERE])[1]


def options(*flags):
    return parse(["--env", "mdp/two-state", "--steps", "400", *map(str, flags)])[0]


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch, unchecked):
    """Runs in a folder of its own: exit code 2, one line, and nothing else is printed or written."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        with pytest.raises(SystemExit) as stop:
            cli.main(["sweep", *map(str, argv)])
        printed = capsys.readouterr()
        assert (stop.value.code, printed.out) == (2, "")
        assert re.fullmatch(r"mico: [^\n]+\n", printed.err)
        assert not [*tmp_path.iterdir()]
        return printed.err

    return run


# Which sweep


def test_flags_are_a_sweep():
    assert sweep(*LINE.split()) == Sweep(
        200_000, ("minatar/breakout", "minatar/asterix"), ("dqn", "iqn"), ("none", "mico"), (0, 1, 2),
        fields={"metric.alpha": (0.01, 0.1)},
    )  # fmt: skip
    assert sweep("--env", "mdp/two-state", "--steps", 400) == Sweep(400, ("mdp/two-state",))


def test_toml_and_flags_give_the_same(tmp_path):
    toml = tmp_path / "x.toml"
    toml.write_text(
        'steps = 200000\nenv = ["minatar/breakout", "minatar/asterix"]\nagent = ["dqn", "iqn"]\n'
        'metric = ["none", "mico"]\nseeds = [0, 1, 2]\n[fields]\nmetric.alpha = [0.01, 0.1]\n'
    )
    assert sweep(toml) == sweep(*LINE.split())


def test_flags_take_the_place_of_what_a_name_or_a_file_says(tmp_path):
    full = SWEEPS["minatar"].sweep
    given = ("--steps", 4000, "--seeds", 7, "--agent", "dqn", "--metric", "mico", "--env", "minatar/freeway")
    found = sweep("minatar", *given, "--metric.alpha", 0.5, 1, "--env.actions", "minimal")
    assert (found.steps, found.seeds, found.agent, found.metric) == (4000, (7,), ("dqn",), ("mico",))
    assert found.env == ("minatar/freeway",)
    assert found.fields == {**full.fields, "metric.alpha": (0.5, 1.0), "env.actions": ("minimal",)}
    (tmp_path / "x.toml").write_text('steps = 400\nenv = "mdp/two-state"\n[fields]\nagent.horizon = [1, 2]\n')
    found = sweep(tmp_path / "x.toml", "--preset", "vector", "--schedule.epsilon", 0.5)
    assert found == Sweep(
        400, ("mdp/two-state",), preset="vector", fields={"agent.horizon": (1, 2), "schedule.epsilon": (0.5,)}
    )


def test_critics_that_read_what_the_actor_does_are_swept_by_flags_and_files(tmp_path, capsys):
    """Which only metric losses allow that train φ by themselves."""
    line = "--env gym/Pendulum-v1 --agent sac --seeds 0 1 --steps 2000 --metric dbc --agent.critics-read actor"
    (tmp_path / "x.toml").write_text(
        'steps = 2000\nenv = "gym/Pendulum-v1"\nagent = "sac"\nseeds = [0, 1]\nmetric = ["none", "dbc"]\n'
        '[fields_by_metric.dbc]\nagent.critics-read = "actor"\nmetric.variant = ["paper", "rewrite"]\n'
    )
    for given, counted in ((line.split(), "2 runs"), ([str(tmp_path / "x.toml")], "6 runs")):
        cli.main(["sweep", *given, "--dry-run"])
        assert f"{counted} of 2,000 steps" in capsys.readouterr().out
    found = sweep(tmp_path / "x.toml", "--metric.variant", "original")
    assert {(cell.metric, cell.fields) for cell in cells(found)} == {
        ("none", ()), ("dbc", (("agent.critics_read", "actor"), ("metric.variant", "original")))
    }  # fmt: skip


def test_steps_are_counts_in_whole_updates_of_all_runs(tmp_path):
    assert sweep("--env", "mdp/two-state", "--steps", "1e4").steps == 10_000
    (tmp_path / "x.toml").write_text('steps = 1e3\nenv = "mdp/two-state"\n[fields]\nschedule.update_period = [3, 4]\n')
    with pytest.warns(UserWarning, match=r"^steps is 1,008, not 1,000: rounded up to a multiple of 12"):
        assert sweep(tmp_path / "x.toml").steps == 1_008


def test_files_of_mdps_are_whole_paths(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save("mine.npz", make("two-state"))
    assert sweep("--env", "mdp/mine.npz", "mdp/two-state", "--steps", 400).env == (
        f"mdp/{tmp_path}/mine.npz", "mdp/two-state"
    )  # fmt: skip
    cli.main(["sweep", "--env", "mdp/mine.npz", "--steps", "1000", "--seeds", "0", "1", "--dry-run"])
    assert "000-mdp-mine.npz-dqn-none" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"^env has several files called mine.npz"):
        sweep("--env", "mdp/mine.npz", "mdp/./mine.npz", "--steps", 400)


def test_fields_are_those_of_any_run():
    line = "--env mdp/two-state --steps 400 --agent dqn rainbow --metric none mico --agent.num-atoms 5 9 --metric.error"
    more = "huber squared --metric.self_pairs exclude --agent.reward-clip 1 --replay.capacity 99"
    found = sweep(*line.split(), *more.split())
    assert found.fields == {
        "agent.num_atoms": (5, 9),
        "agent.reward_clip": (1.0,),
        "metric.error": ("huber", "squared"),
        "metric.self_pairs": ("exclude",),
        "replay.capacity": (99,),
    }
    assert len(cells(found)) == 1 + 2 + 2 + 4  # of DQN and Rainbow, without and with MICo


# What the options do


def unfinished(flags):
    """What is not trained to its end has failed."""
    with pytest.raises(SystemExit) as stop:
        cli.main(flags)
    assert stop.value.code == 1


def test_options_reach_those_who_train(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(local, "in_turn", lambda fleets, out, manner, watch: given.append((len(fleets), manner)))
    several = lambda fleets, out, manner, watch, count: given.append((len(fleets), manner, count))  # noqa: E731
    monkeypatch.setattr(local, "in_processes", several)
    manner = ["--checkpoint-seconds", "7.5", "--checkpoint-replay", "empty", "--tensorboard"]
    for more in ([], manner, ["--processes", "3"]):
        unfinished([*flags_of_pair(), "--out", str(tmp_path), *more])
    assert given == [(2, Manner()), (2, Manner(7.5, "empty", True)), (2, Manner(), 3)]


def test_options_reach_ray(tmp_path, monkeypatch):
    cluster = pytest.importorskip("mico.sweeps.cluster")
    given = []
    monkeypatch.setattr(cluster.ray, "init", lambda **options: given.append(options["address"]))
    monkeypatch.setattr(cluster, "check_room", lambda need: given.append(need.cpus))
    monkeypatch.setattr(cluster, "on_ray", lambda fleets, out, manner, watch, need: given.append(need))
    for more in (["auto"], ["10.0.0.1:6379", "--cpus", "2.5", "--gpus", "0.5", "--retries", "3"]):
        unfinished([*flags_of_pair(), "--out", str(tmp_path), "--ray", *more])
    assert given == ["auto", 1.0, cluster.Need(1.0, None, 10), "10.0.0.1:6379", 2.5, cluster.Need(2.5, 0.5, 3)]


def test_without_ray_it_says_what_to_install_and_leaves_nothing(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "mico.sweeps.cluster", raising=False)
    monkeypatch.delattr("mico.sweeps.cluster", raising=False)
    assert "pip install '.[cluster]'" in refused(*flags_of_pair()[1:], "--out", "x/y", "--ray", "auto")


def test_a_cluster_that_is_not_there_leaves_nothing(refused):
    pytest.importorskip("ray")
    message = "no Ray cluster at --ray 127.0.0.1:9"
    assert message in refused(*flags_of_pair()[1:], "--out", "x/y", "--ray", "127.0.0.1:9")


def test_a_fleet_that_no_node_has_room_for_leaves_nothing(refused, monkeypatch):
    cluster = pytest.importorskip("mico.sweeps.cluster")
    monkeypatch.setattr(cluster.ray, "init", lambda **options: None)
    monkeypatch.setattr(cluster.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}])
    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: {"CPU": 2.0})
    message = "a fleet needs 3 cores and 0 GPUs, but the nodes have 2 cores and 0 GPUs"
    assert message in refused(*flags_of_pair()[1:], "--out", "x/y", "--ray", "auto", "--cpus", "3")


@pytest.mark.parametrize(
    ("env", "package", "extra"),
    [("atari/breakout", "ale_py", "atari"), ("control/cartpole-balance", "dm_control", "control")],
)
def test_without_the_package_of_an_environment_nothing_is_left(refused, monkeypatch, env, package, extra):
    def missing(name):
        raise ModuleNotFoundError(f"{name} needs: pip install '.[{extra}]'")

    monkeypatch.setattr(absent, "environment", missing)
    shape_of.cache_clear()
    try:
        agent = "sac" if extra == "control" else "dqn"
        printed = refused("--env", env, "--agent", agent, "--steps", 400, "--out", "x/y", "--memory", 100)
    finally:
        shape_of.cache_clear()
    assert f"{env} cannot be run: {env} needs: pip install '.[{extra}]'" in printed


def test_without_tensorboard_nothing_is_left(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert "pip install '.[tensorboard]'" in refused(*flags_of_pair()[1:], "--out", "x", "--tensorboard")


def test_steps_that_updates_do_not_divide_are_rounded_up_and_that_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(local, "in_turn", lambda fleets, out, manner, watch: None)
    line = ["sweep", "--env", "mdp/two-state", "--agent", "dqn", "--steps", "402", "--schedule.update-period", "4", "5"]
    line += ["--schedule.learning-starts", "200", "--schedule.target-period", "200", "--schedule.log-period", "200"]
    unfinished([*line, "--out", str(tmp_path / "x")])
    printed = capsys.readouterr()
    assert "mico: steps is 420, not 402: rounded up to a multiple of 20, the steps between updates\n" in printed.err
    assert "2 runs of 420 steps" in printed.out
    assert json.loads((tmp_path / "x/sweep.json").read_text())["sweep"]["steps"] == 420
    unfinished([*line, "--out", str(tmp_path / "x")])  # the same command again is the same sweep


def test_a_dry_run_says_what_the_size_of_fleets_is_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.host_memory, "available", lambda: 2 * 10_300_000)
    line = ["sweep", "--env", "minatar/breakout", "--seeds", *map(str, range(8)), "--steps", "1000000", "--dry-run"]
    cli.main(line)
    printed = capsys.readouterr().out
    assert "8 runs of 1,000,000 steps in 8 fleets" in printed
    assert "Fleets are sized for this machine, up to 10.3 MB each; --memory sets another size." in printed
    cli.main([*line, "--memory", "130"])
    printed = capsys.readouterr().out
    assert "8 runs of 1,000,000 steps in 1 fleet," in printed
    assert "sized for this machine" not in printed


def fleets_of(capsys, *flags):
    cli.main([*flags_of_pair(), "--max-runs", "4", *map(str, flags), "--dry-run"])
    return int(re.match(r"4 runs of 400 steps in (\d+) fleets?, ", capsys.readouterr().out)[1])


def test_limits_make_smaller_fleets(capsys):
    (fleet,) = planned(small_sweep(env=["mdp/two-state"]), None, Limits(None, None))
    assert fleets_of(capsys) == 1
    assert fleets_of(capsys, "--max-runs", 1) == 4
    assert fleets_of(capsys, "--memory", fleet.size / 1e9) == 1
    assert fleets_of(capsys, "--memory", 0.6 * fleet.size / 1e9) == 2


def test_memory_is_that_of_the_device_shared_by_the_processes(monkeypatch):
    monkeypatch.setattr(command.host_memory, "available", lambda: 8_000)
    assert command._memory(options("--out", "x")) == 4_000
    assert command._memory(options("--out", "x", "--processes", 4)) == 1_000
    assert command._memory(options("--out", "x", "--memory", 2)) == 2_000_000_000
    monkeypatch.setattr(command.host_memory, "available", lambda: 0)
    assert command._memory(options("--out", "x")) is None


def test_a_dry_run_says_what_it_takes_and_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    flags = [
        "sweep",
        "--env",
        "minatar/breakout",
        "--metric",
        "none",
        "mico",
        "--seeds",
        "0",
        "1",
        "--steps",
        "1000000",
    ]
    cli.main([*flags, "--dry-run", "--out", "there", "--max-runs", "2"])
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"4 runs of 1,000,000 steps in 2 fleets, the largest of about [\d.]+ MB\.", printed)
    assert re.search(r"000-minatar-breakout-dqn-none-mico 2 [\d.]+ MB as mico, α = 0 waiting", printed)
    assert not [*tmp_path.iterdir()]


def test_a_dry_run_says_how_far_a_sweep_is(tmp_path, capsys):
    fleets = pair_of_fleets(tmp_path)
    write_status(tmp_path, fleets[0].name, Status("finished", 400))
    write_status(tmp_path, fleets[1].name, Status("failed", 40, error="why"))
    cli.main([*flags_of_pair(), "--out", str(tmp_path), "--dry-run"])
    printed = capsys.readouterr().out
    assert "finished" in printed
    assert "failed" in printed


def test_a_dry_run_says_which_readings_are_not_the_others(capsys):
    part = ["sweep", "atari-60", "--env", "atari/pong", "--agent", "dqn", "rainbow", "--seeds", "0", "--memory", "99"]
    cli.main([*part, "--dry-run"])
    printed = capsys.readouterr().out
    assert "These readings are not those of our defaults, --preset atari:" in printed
    assert "  replay.next: reset-frame, ours true-frame\n" in printed
    assert "  agent.priorities: td, ours combined (rainbow)\n" in printed
    cli.main([*part, "--preset", "atari", "--dry-run"])
    printed = capsys.readouterr().out
    assert "These readings are not those of the released code, --preset atari-released:" in printed
    assert "  agent.priorities: combined, released td (rainbow)\n" in printed
    cli.main([*flags_of_pair(), "--dry-run"])
    assert "readings" not in capsys.readouterr().out


# What it refuses


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--env mdp/two-stat --steps 400 --out x", "env 'mdp/two-stat' is no problem: did you mean two-state"),
        ("--env mdp/two-state --agent dqn dqm --steps 400 --out x", "agent 'dqm' is unknown: did you mean dqn"),
        ("--env minatar/brekout --steps 400 --out x", "game 'brekout' is not in MinAtar: did you mean breakout"),
        ("--env mdp/two-state --metric mico --metric.alpha --steps 400 --out x", "metric.alpha must have at least one"),
        ("--env mdp/two-state --metric mico --metric.alpha .1 .1 --steps 400 --out x", "metric.alpha 0.1 is given"),
        ("--env mdp/two-state --seeds 1 1 --steps 400 --out x", "seed 1 is given twice"),
        ("--env mdp/two-state --seeds --steps 400 --out x", "seeds must have at least one value, got none"),
        ("--env --steps 400 --out x", "env must have at least one value, got none"),
        ("--steps 400 --out x", "env is missing: give --env, one environment or several"),
        ("--env mdp/two-state --out x", "steps is missing: give --steps, the agent steps of each run"),
        ("--env mdp/two-state --steps 400", "out is needed, a folder for the sweep"),
        ("--env mdp/two-state --steps 400 --out x --memory 0", "memory must be more than 0, but is 0.0"),
        ("--env mdp/two-state --steps 400 --out x --memory 1e-9", "memory must be at least"),
        ("--env mdp/two-state --steps 400 --out x --max-runs 0", "max_runs must be at least 1, but is 0"),
        ("--env mdp/two-state --steps 400 --out x --processes 0", "processes must be at least 1, but is 0"),
        ("--env mdp/two-state --steps 400 --out x --cpus 0", "cpus must be more than 0, but is 0.0"),
        ("--env mdp/two-state --steps 400 --out x --gpus -1", "gpus must not be negative, but is -1.0"),
        ("--env mdp/two-state --steps 400 --out x --retries -1", "retries must not be negative, but is -1"),
        ("--env mdp/two-state --steps 400 --out x --checkpoint-seconds -1", "checkpoint_seconds must not be negative"),
        ("--env mdp/two-state --steps 400 --out x --ray auto --processes 2", "processes are for this machine alone"),
        ("minatr --out x", "sweep must be a name or a .toml or .json file, got 'minatr': did you mean minatar?"),
        ("x.toml --out x", "x.toml: No such file or directory"),
        ("--env mdp/two-state --agent sac --steps 400 --out x", "those of mdp are discrete: try dqn, "),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_refused_in_a_line(refused, flags, message):
    assert message in refused(*flags.split())


def test_another_sweep_in_the_folder_and_another_process_are_refused(tmp_path, capsys):
    pair_of_fleets(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main([*flags_of_pair(800), "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "steps is 800, but the sweep here was made with 400" in capsys.readouterr().err
    with exclusive(tmp_path), pytest.raises(SystemExit) as stop:
        cli.main([*flags_of_pair(), "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "is being written by process" in capsys.readouterr().err


def test_fields_of_no_run_are_named(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", "--env", "mdp/two-state", "--steps", "400", "--metric.alpha", "1", "--dry-run"])
    assert stop.value.code == 2
    assert "--metric.alpha" in capsys.readouterr().err


# What it shows


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("mico.cli.sweep_display.time.monotonic", lambda: now[0])
    return now


def play(display, fleets, clock):
    for step in (0, 40, 140, 240):
        display.update(fleets[0], Status("running", step, (1.0, None) if step < 240 else (1.0, 3.0)))
        clock[0] += 20


def test_lines_where_there_is_no_terminal(tmp_path, clock):
    fleets, file = pair_of_fleets(tmp_path), io.StringIO()
    display = Display(fleets, fleets, Console(file=file, width=300))
    play(display, fleets, clock)
    display.update(fleets[0], Status("finished", 400, (1.0, 3.0)))
    display.update(fleets[1], Status("failed", 40, error="why"))
    name, other = (fleet.name for fleet in fleets)
    assert file.getvalue().splitlines() == [
        f"{name}: step 40 of 400; steps/s are not known yet; return 1.00 (dqn)",
        f"{name}: step 140 of 400; 10 steps/s; return 1.00 (dqn)",  # 100 steps of two runs in 20 seconds
        f"{name}: step 240 of 400; 10 steps/s; return 1.00 (dqn), 3.00 (dqn + mico)",
        f"{name} is finished; return 1.00 (dqn), 3.00 (dqn + mico) (1 of 2 fleets done)",
        f"{other} failed: why (1 of 2 fleets done)",
    ]
    assert display.failed == {fleets[1]: Status("failed", 40, error="why")}


def test_a_table_on_a_terminal(tmp_path, clock):
    fleets, file = pair_of_fleets(tmp_path), io.StringIO()
    console = Console(file=file, force_terminal=True, width=160, highlight=False, markup=False)
    display = Display(fleets, fleets, console)
    with display.shown:
        play(display, fleets, clock)
        clock[0] -= 20
        display.shown.refresh()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    assert "0 of 2 fleets done" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert f"{fleets[0].name} step 240 of 400 10 steps/s return 1.00 (dqn), 3.00 (dqn + mico)" in lines


def test_help_names_the_sweeps_and_the_fields(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", "--env", "mdp/two-state", "--metric", "mico", "--help"])
    printed = capsys.readouterr().out
    assert stop.value.code == 0
    for word in (*SWEEPS, "--metric.alpha", "--agent.learning-rate", "--schedule.log-period", "--dry-run"):
        assert word in printed


def test_finished_sweeps_say_so_and_which_runs_froze(tmp_path, capsys):
    fleets = pair_of_fleets(tmp_path)
    for fleet in fleets:
        write_status(tmp_path, fleet.name, Status("finished", 400))
        for member in fleet.members:
            (tmp_path / fleet.name / member.name).mkdir(parents=True)
            (tmp_path / fleet.name / member.name / "log.jsonl").write_text('{"step": 200, "return": 1.0}\n')
        (tmp_path / fleet.name / "fleet.json").write_text("{}")
    log = tmp_path / fleets[1].name / "dqn-mico-seed1" / "log.jsonl"
    log.write_text(log.read_text() + '{"step": 300, "not_finite_at": 220}\n')
    cli.main([*flags_of_pair(), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "2 of 2 fleets were finished before." in printed
    assert f"All 2 fleets are finished; logs and parameters are in {tmp_path}." in printed
    assert f"Stopped learning because a loss was not finite: {fleets[1].name}/dqn-mico-seed1 at step 220." in printed
    assert all(read_status(tmp_path, fleet.name).state == "finished" for fleet in fleets)
