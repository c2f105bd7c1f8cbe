"""`mico train`: its flags make the runs they say, it refuses in one line, and it shows where it is."""

import dataclasses
import io
import json
import re
import resource
import subprocess
import sys
import warnings
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from rich.console import Console

from mico import cli
from mico.cli import train as command
from mico.cli import training_display
from mico.cli.train_options import parse
from mico.cli.training_display import Display
from mico.deep.agents import AGENTS, VALUE_AGENTS
from mico.deep.config.presets import PRESETS
from mico.deep.config.run import describe, varied
from mico.deep.envs import ENVS
from mico.deep.metric_losses import METRIC_LOSSES
from mico.deep.networks import ENCODERS
from mico.deep.training.train import Manner, Progress
from trainings import FLAGS, left

pytestmark = pytest.mark.usefixtures("quick_compilation")

SOMEWHERE = ["--steps", "100", "--out", "unused"]
LAKE = ["train", "--env", "mdp/frozen-lake", "--metric", "mico", *FLAGS, "--seeds", "0", "1", "--steps"]


def runs(*flags):
    return parse([*SOMEWHERE, *map(str, flags)]).runs


def fields(settings):
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


# Flags


def test_the_first_example_of_the_documentation():
    line = "--env minatar/breakout --agent dqn --metric mico --seeds 0 1 2 --steps 200000 --out runs/x"
    options, steps, found = parse(line.split())
    assert (steps, str(options.out), options.resume, options.tensorboard) == (200_000, "runs/x", False, False)
    preset = PRESETS["minatar"]["dqn"]
    for run, seed in zip(found, range(3), strict=True):
        assert (run.seed, run.env.name) == (seed, "minatar/breakout")
        assert (run.agent, run.network, run.replay, run.schedule) == preset[:4]
        assert run.metric == METRIC_LOSSES["mico"](alpha=0.01)


@pytest.mark.parametrize("agent", VALUE_AGENTS)
def test_presets_by_environment_and_by_name(agent):
    for env, preset in (("mdp/two-state", "table"), ("gym/CartPole-v1", "vector")):
        (run,) = runs("--env", env, "--agent", agent, "--steps", "10M")  # so many that the log period is the preset's
        assert ENVS[env.partition("/")[0]].preset == preset
        assert (run.agent, run.network, run.replay, run.schedule) == PRESETS[preset][agent][:4]
        assert run.metric is None
    (run,) = runs("--env", "minatar/asterix", "--agent", agent, "--preset", "atari", "--metric", "ksme")
    assert (run.agent, run.network, run.replay, run.schedule) == PRESETS["atari"][agent][:4]
    assert run.metric == METRIC_LOSSES["ksme"](alpha=PRESETS["atari"][agent].alpha)
    (run,) = runs("--agent", agent, "--metric", "simsr")
    assert run.metric.alpha == 0.5


def test_presets_of_an_actor():
    for env, preset in (("gym/Pendulum-v1", "vector"), ("control/pendulum-swingup", "control")):
        (run,) = runs("--env", env, "--agent", "sac", "--metric", "mico", "--steps", "10M")
        assert (run.agent, run.network, run.replay, run.schedule) == PRESETS[preset]["sac"][:4]
        assert run.metric == METRIC_LOSSES["mico"](alpha=1e-5, second="frozen")


def test_a_problem_leaves_discount_and_policy_to_the_agent():
    (run,) = runs("--env", "mdp/bound-example", "--env.k", 3)
    assert run.env.settings().keys() == {"observation", "max_steps", "start", "k"}
    for flag in ("--env.discount", "--env.policy"):
        with pytest.raises(ValueError, match=f"unknown option {flag}"):
            runs("--env", "mdp/bound-example", flag, "0.5")


def test_fields_of_a_metric_need_a_metric():
    with pytest.raises(ValueError, match=r"--metric.alpha is a field of a metric loss: it needs --metric, one of mico"):
        runs("--metric.alpha", 0.1)


def another(hint, value):
    """A value that a field could have instead."""
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if choice != value)
    if hint is str:  # of an encoder
        return next(name for name in ENCODERS if name != value)
    if value is None:
        return 2.5
    if hint in (int, int | None):
        return value * 2 if value else 8
    return value / 2 if value else 0.25


def acting(agent):
    """Flags of an agent and of an environment that it can act in."""
    return "--agent", agent, "--env", "minatar/breakout" if agent in VALUE_AGENTS else "gym/Pendulum-v1"


PARTS = [("agent", agent) for agent in AGENTS]
PARTS += [(part, "rainbow") for part in ("metric", "network", "replay", "schedule", "env")]


@pytest.mark.parametrize(("part", "agent"), PARTS)
def test_every_field_is_a_flag_that_changes_it_alone(part, agent):
    outside = ("--env", "atari/pong") if part == "schedule" else ()  # where all of a schedule has a meaning
    which = (*acting(agent), *outside, "--metric", "mico")
    (usual,) = runs(*which)
    settings = getattr(usual, part)
    hints = get_type_hints(type(settings))
    changed = 0
    for name, value in fields(settings).items():
        if (part, name) == ("env", "game"):
            continue
        new = 7 if name == "max_steps" else another(hints[name], value)
        (found,) = runs(*which, f"--{part}.{name.replace('_', '-')}", new)
        assert fields(getattr(found, part)) == fields(settings) | {name: new}
        assert dataclasses.replace(found, **{part: settings}) == usual
        changed += 1
    assert changed >= 3


@pytest.mark.parametrize("agent", AGENTS)
def test_help_shows_the_fields_of_the_chosen_parts(agent, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *acting(agent), "--metric", "mico", "--help"])
    printed = capsys.readouterr().out
    assert stop.value.code == 0
    (run,) = runs(*acting(agent), "--metric", "mico")
    for part in ("agent", "metric", "network", "replay", "schedule"):
        assert f" {part} options " in printed
        for field in dataclasses.fields(getattr(run, part)):
            flag = f"--{part}.{field.name.replace('_', '-')} "
            assert flag in printed
            after = " ".join(printed[printed.index(flag) :].replace("│", " ").split())
            assert re.match(rf"\S+ .*?{re.escape(field.metadata['help'])} \(default: ", after)
    own = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in AGENTS.items()}
    for name in set().union(*own.values()) - own[agent]:
        assert f"--agent.{name.replace('_', '-')} " not in printed
    order = [printed.index(f" {part} options ") for part in ("agent", "metric", "env", "network", "replay", "schedule")]
    assert order == sorted(order)


def test_help_shows_the_options_of_a_problem(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        cli.main(["train", "--env", "mdp/garnet", "--help"])
    printed = capsys.readouterr().out
    for flag in ("--env.seed INT", "--env.num-states INT", "--env.observation {one-hot,image}", "--env.max-steps INT"):
        assert flag in printed


def test_lists_make_a_fleet():
    found = runs("--metric", "mico", "--metric.alpha", 0, 0.01, 0.1, "--seeds", 5, 6)
    assert [(run.metric.alpha, run.seed) for run in found] == [
        (alpha, seed) for alpha in (0.0, 0.01, 0.1) for seed in (5, 6)
    ]
    found = runs("--agent.learning-rate", 1e-3, 1e-4, "--schedule.epsilon", 0.1, 0.2)
    assert [(run.agent.learning_rate, run.schedule.epsilon) for run in found] == [
        (1e-3, 0.1), (1e-3, 0.2), (1e-4, 0.1), (1e-4, 0.2)
    ]  # fmt: skip
    found = runs("--env", "minatar/breakout", "--env.sticky", 0, 0.1)
    assert [run.env.sticky for run in found] == [0.0, 0.1]
    assert varied(found) == [{"env.sticky": 0.0}, {"env.sticky": 0.1}]
    assert [run.agent.reward_clip for run in runs("--agent.reward-clip", 1, 2)] == [1.0, 2.0]


def test_problems_have_their_own_options():
    (run,) = runs("--env", "mdp/garnet", "--env.seed", 0, "--env.num-states", 10, "--env.max-steps", 30)
    assert run.env.problem.mdp.num_states == 10
    own = {"observation": "one-hot", "max_steps": 30, "start": "uniform"}
    of_problem = {"seed": 0, "num_states": 10, "num_actions": 4, "branching": "printed"}
    assert describe(run)["env"] == {"name": "mdp/garnet"} | own | of_problem
    image = ("--env.observation", "image", "--network.encoder", "minatar")
    (run,) = runs("--env", "mdp/four-rooms", *image, "--env.start", 3, "--env.slip", 0.25)
    assert (run.env.spec.shape, run.env.start) == ((13, 13, 3), 3)
    (run,) = runs("--env", "gym/CartPole-v1", "--env.max-steps", 12)
    assert run.env.max_steps == 12


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch, unchecked):
    """Runs in a folder of its own: exit code 2, one line, and nothing else is printed or written."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as stop:
            cli.main([*map(str, argv)])
        printed = capsys.readouterr()
        assert (stop.value.code, printed.out) == (2, "")
        assert printed.err.startswith("mico: ")
        assert printed.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
        return printed.err

    return run


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--agent dqm", "agent 'dqm' is unknown: did you mean dqn, qr-dqn?"),
        ("--metric mic", "metric 'mic' is unknown: did you mean mico, dbc-mico?"),
        ("--preset atar", "preset 'atar' is unknown: did you mean atari, minatar, table?"),
        ("--env mdb/garnet", "env 'mdb/garnet' is no environment: did you mean mdp/garnet?"),
        ("--env breakout", "env 'breakout' is no environment: did you mean minatar/breakout or atari/breakout?"),
        ("--env four-rooms --env.slip 0.1", "did you mean mdp/four-rooms?"),
        ("--env CartPole-v1", "did you mean gym/CartPole-v1?"),
        ("--env walker-walk", "did you mean control/walker-walk?"),
        ("--env mdp/none.npz", "none.npz: No such file or directory"),
        ("--env mdp/fourrooms --env.goal 3", "env 'mdp/fourrooms' is no problem: did you mean four-rooms"),
        ("--env minatar/brekout", "game 'brekout' is not in MinAtar: did you mean breakout"),
        ("--env minatar", "env 'minatar' names a family alone: say which one, minatar/..."),
        ("--env gym/CartPol-v1", "did you mean CartPole-v1"),
        ("--env gym/Pendulum-v1", "agent 'dqn' needs discrete actions, but those of gym/Pendulum-v1 are continuous"),
        ("--agent sac", "'sac' needs continuous actions, but those of minatar are discrete: try dqn, "),
        ("--agent sac --preset atari", "agent 'sac' has no settings in preset atari, which is for dqn, rainbow"),
        ("--agent sac --env gym/CartPole-v1", "'sac' needs continuous actions, but those of gym/CartPole-v1 are discr"),
        ("--agent sac --env gym/Pendulum-v1 --schedule.target-period 9", "target_period must be none with SAC"),
        ("--schedule.target-period none", "target_period must be a number of steps with DQN, got none"),
        ("--agent", "--agent: expected one argument"),
        ("--agent.learning-rate", "agent.learning_rate needs a value"),
        ("--agent.learning-rate -1", "learning_rate must lie in [0, inf], but is -1.0"),
        ("--agent.horizon 1 3", "agent.horizon is the same for all runs of a fleet, but is [1, 3]"),
        ("--env mdp/four-rooms --env.slip 0 0.1", "env.slip is the same for all runs of a fleet, but is [0.0, 0.1]"),
        ("--env.sticky 2", "sticky must lie in [0, 1], but is 2.0"),
        ("--seeds", "seeds needs a number"),
        ("--seeds -1", "seed must lie in [0, 2³¹), but is -1"),
        ("--seeds 4 4", "seeds must differ, but 4 is given twice"),
        ("--replay.capacity 3", "capacity must be at least 8, but is 3"),
        ("--steps 0", "steps must be at least 1 and below 2³¹, got 0"),
        ("--steps -8", "steps must be at least 1 and below 2³¹, got -8"),
        ("--env mdp/two-state --preset minatar", "encoder 'minatar' needs images of 3×3 or more, not [2]"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_line(refused, flags, message):
    assert message in refused("train", *SOMEWHERE, *flags.split())


def test_frames_are_steps_of_the_emulator():
    atari = ["--out", "unused", "--env", "atari/pong"]
    assert parse([*atari, "--frames", "10_000_000"]).steps == 2_500_000
    assert parse([*atari, "--frames", "4000", "--env.frame-skip", "2"]).steps == 2_000


def rounded(flags):
    """What was parsed, and the lines that are said of it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = parse(["--out", "unused", *flags.split()])
    return found, [str(one.message) for one in said]


@pytest.mark.parametrize(
    ("flags", "steps", "line"),
    [
        ("--steps 1001", 1_004, "steps is 1,004, not 1,001: rounded up to a multiple of 4, the steps between updates"),
        ("--steps 1e6", 1_000_000, None),
        ("--steps 200k", 200_000, None),
        ("--env mdp/two-state --steps 1001", 1_001, None),
        ("--env atari/pong --frames 402", 104, "frames is 416, not 402: rounded up to a multiple of 16, the steps "),
        ("--env atari/pong --frames 1M", 250_000, None),
    ],
)
def test_counts_are_read_as_people_type_them_and_rounded_up_to_whole_updates(flags, steps, line):
    found, said = rounded(flags)
    assert found.steps == steps
    assert len(said) == (line is not None)
    assert all(one.startswith(line) for one in said)


def test_periods_are_rounded_up_to_whole_updates_too():
    found, said = rounded("--steps 4000 --schedule.log-period 250 --schedule.target-period 1e3 --replay.capacity 1.5k")
    (run,) = found.runs
    assert (run.schedule.log_period, run.schedule.target_period, run.replay.capacity) == (252, 1_000, 1_500)
    assert said == ["schedule.log_period is 252, not 250: rounded up to a multiple of 4, the steps between updates"]


def test_a_resumed_training_keeps_its_log_period(tmp_path):
    def log_period(steps, *more):
        (run,) = parse(["--env", "mdp/two-state", "--steps", steps, "--out", str(tmp_path), *more]).runs
        return run.schedule.log_period

    assert (log_period("20k"), log_period("40k"), log_period("10M")) == (500, 1_000, 5_000)
    (run,) = parse(["--env", "mdp/two-state", "--steps", "20k", "--out", str(tmp_path)]).runs
    (tmp_path / "fleet.json").write_text(json.dumps({"settings": [describe(run)]}))
    assert log_period("40k", "--resume") == 500
    assert log_period("40k") == 1_000
    assert log_period("40k", "--resume", "--schedule.log-period", "200") == 200
    (tmp_path / "fleet.json").write_text("damaged, which the training itself refuses")
    assert log_period("40k", "--resume") == 1_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--env atari/pong", "steps is missing"),
        ("--env atari/pong --frames 400 --steps 100", "steps is 100 and frames is 400: give one of them"),
        ("--env atari/pong --frames -16", "frames must be at least 1, but is -16"),
        ("--env atari/ --steps 100", "names a family alone: say which one, atari/"),
        ("--env atari/pnog --steps 4", "did you mean pong"),
        ("--frames 400", "frames is 400, but only Atari has frames, and not minatar/breakout"),
    ],
)
def test_steps_and_frames_that_do_not_go_together(refused, flags, message):
    assert message in refused("train", "--out", "unused", *flags.split())


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--agent.learning-rat 3", "--agent.learning-rate"),
        ("--metric.alpha 1", "--metric.alpha"),
        ("--env mdp/garnet", "--env.seed"),
        ("--steps x", "--steps"),
    ],
)
def test_flags_that_are_none_or_missing_are_named(capsys, flags, named):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *SOMEWHERE, *flags.split()])
    assert stop.value.code == 2
    assert named in capsys.readouterr().err


def test_folders_that_cannot_be_written(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in refused(*LAKE, 40, "--out", "file")
    assert "file" in refused(*LAKE, 40, "--out", "file/below")
    assert "/proc/mico" in refused(*LAKE, 40, "--out", "/proc/mico")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    assert "mine is not empty and contains no runs, but notes.txt" in refused(*LAKE, 40, "--out", "mine")


# What it prints


@pytest.fixture(scope="module")
def trained(tmp_path_factory, quick_compilation):
    """A training of 160 steps, undisturbed."""
    out = tmp_path_factory.mktemp("trained") / "out"
    cli.main([*LAKE, "160", "--out", str(out)])
    return out


def test_lines_where_there_is_no_terminal(tmp_path, trained, capsys, monkeypatch):
    monkeypatch.setattr(training_display, "_SHORTEST", 0.0)
    monkeypatch.setattr(training_display, "_SHARE", 0.0)
    cli.main([*LAKE, "160", "--out", str(tmp_path)])
    first, few, compiling, *between, last = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert re.fullmatch(r"2 runs of 160 steps; their replay buffers take [\d.]+ kB\.", first)
    assert few.startswith("The log of each run will have 4 rows, one every 40 steps: ")
    assert compiling == "Compiling …"
    number = r"-?[\d.]+"
    progress = rf"step \d+ of 160; .*; return {number} \({number} … {number}\)"
    assert re.fullmatch(progress, between[1]), between
    assert [line.split()[1] for line in between[:3]] == ["40", "80", "120"]
    assert between[-1].split()[:4] == ["dqn", "+", "mico", "2"]
    assert last == f"Logs and parameters are in {tmp_path}."
    assert left(tmp_path) == left(trained)
    cli.main([*LAKE, "160", "--out", str(tmp_path), "--resume"])
    printed = capsys.readouterr().out
    assert "All 160 steps have been trained already." in printed
    assert "Compiling" not in printed
    assert "dqn + mico  " in printed
    assert left(tmp_path) == left(trained)
    assert "\x1b" not in "".join([first, *between, last, printed])
    assert "already contains runs: resume (--resume" in stopped(capsys, *LAKE, 160, "--out", tmp_path)


def stopped(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        cli.main([*map(str, argv)])
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_bar_and_returns_with_intervals_on_a_terminal(monkeypatch):
    found = runs("--env", "mdp/two-state", "--metric", "mico", "--metric.alpha", 0, 0.5, "--seeds", 0, 1, 2)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, highlight=False, markup=False)
    now = [100.0]
    monkeypatch.setattr(training_display.time, "monotonic", lambda: now[0])
    returns = np.array([1.0, 2.0, 3.0, 5.0, np.nan, np.nan])
    with Display(found, console) as display:
        for step in (0, 1000, 3000):
            display.update(Progress(step, 10_000, returns))
            now[0] += 2
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    assert "3000/10000" in text
    assert "4,500 steps/s, 0:00:09 left" in text  # 3,000 steps of six runs in four seconds, and 7,000 to go
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "dqn + mico (metric.alpha=0) 3 2.00 -0.48 … 4.48" in lines  # 2 ± 4.3027/√3
    assert any(line.startswith("dqn + mico (metric.alpha=0.5) 1 of 3 5.00 –") for line in lines)


def printed_lines(monkeypatch, reports, run=("--env", "mdp/two-state")):
    """What is printed where there is no terminal, with the time of each line: reports are times and what they say."""
    now, file, found = [0.0], io.StringIO(), []
    monkeypatch.setattr(training_display.time, "monotonic", lambda: now[0])
    display = Display(runs(*run), Console(file=file, width=200))
    for time, progress in reports:
        now[0] = float(time)
        display.update(progress)
        found += [(now[0], line) for line in file.getvalue().splitlines()[len(found) :]]
    return found


def test_it_says_compiling_until_the_speed_is_known(monkeypatch):
    """Twenty seconds before learning, five steps a second; compilation; then a hundred times as fast."""
    reports = [(0, 0, False), (12, 40, True), (24, 100, False), (40, 120, True), (44, 2_120, False), (59, 9_620, False)]
    none = np.full(1, np.nan)
    lines = printed_lines(monkeypatch, [(at, Progress(step, 99_620, none, 100, new)) for at, step, new in reports])
    assert [line for _, line in lines[1:]] == [
        "Compiling …",
        "step 40 of 99,620; compiling; return – (–)",
        "step 100 of 99,620; compiling; return – (–)",
        "step 120 of 99,620; compiling; return – (–)",
        "step 2,120 of 99,620; 500 steps/s, 0:03:15 left; return – (–)",  # 97,500 / 500; at once, as it is news
        "step 9,620 of 99,620; 500 steps/s, 0:03:00 left; return – (–)",
    ]


def test_before_learning_it_says_when_that_starts(monkeypatch):
    reports = [(0, 0), (20, 2_000)]
    lines = printed_lines(monkeypatch, [(at, Progress(step, 90_000, np.zeros(1), 20_000)) for at, step in reports])
    assert lines[-1][1].startswith("step 2,000 of 90,000; 100 steps/s before learning, which starts at step 20,000; ")


def test_lines_become_rare_in_long_trainings(monkeypatch):
    """One in ten seconds at first, one in three minutes after an hour, one in ten minutes after half a day."""
    steps = range(0, 2 * 43_200, 2)
    lines = printed_lines(monkeypatch, [(step, Progress(step, 10**6, np.zeros(1))) for step in steps])
    times = [time for time, line in lines if line.startswith("step ")]
    gaps = np.diff(times)
    assert set(gaps[:10]) == {10.0}
    assert next(gap for time, gap in zip(times, gaps) if time > 3_600) == pytest.approx(190, abs=10)
    assert gaps[-1] == pytest.approx(600, abs=2)
    assert 100 < len(times) < 300


def test_without_a_console_it_is_standard_error(capsys):
    with Display(runs("--env", "mdp/two-state")) as display:
        display.update(Progress(0, 400, np.full(1, np.nan)))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("1 run of 400 steps; its replay buffer takes")


def test_a_notebook_has_a_bar_only_with_widgets(monkeypatch):
    """Rich repaints in a notebook by ipywidgets; without them it would warn with every line."""
    found, console = runs("--env", "mdp/two-state"), Console(file=io.StringIO(), force_jupyter=True)
    for spec, expected in ((None, False), (object(), True)):
        monkeypatch.setattr(training_display.importlib.util, "find_spec", lambda name, spec=spec: spec)
        assert (Display(found, console)._live is not None) == expected


def test_the_display_comes_without_the_command_line():
    command = "import sys, mico.cli.training_display; sys.exit('tyro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0


# How it ends


def test_too_little_memory_is_a_line_and_other_failures_of_a_device_are_not(refused, monkeypatch):
    def failing(message):
        def train(*_, **__):
            raise JaxRuntimeError(message)

        return train

    monkeypatch.setattr(command, "train", failing("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes."))
    assert "there is not enough memory" in refused(*LAKE, 40, "--out", "x")
    monkeypatch.setattr(command, "train", failing("INTERNAL: who knows"))
    with pytest.raises(JaxRuntimeError, match="who knows"):
        cli.main([*LAKE, "40", "--out", "x"])


def test_without_tensorboard_it_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert "pip install '.[tensorboard]'" in refused(*LAKE, 40, "--out", "x", "--tensorboard")


@pytest.mark.parametrize("room", [300, 2_000, 4_000, 7_000])
def test_a_full_disk_is_a_line_and_what_was_there_goes_on(tmp_path, trained, capsys, room):
    """No file may grow beyond some bytes: too few for settings, for rows, for parameters, for parts of checkpoints."""
    out = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        error = stopped(capsys, *LAKE, 160, "--out", out, "--checkpoint-seconds", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert re.fullmatch(rf"mico: {out}/\S+: File too large\n", error)
    cli.main([*LAKE, "160", "--out", str(out), "--resume"])
    assert left(out) == left(trained)


def test_what_checkpoints_are_like_reaches_the_loop(tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(command, "train", lambda *args, **options: given.update(options))
    cli.main([*LAKE, "160", "--out", str(tmp_path), "--checkpoint-seconds", "7.5", "--checkpoint-replay", "empty"])
    assert given["manner"] == Manner(7.5, "empty", tensorboard=False)
    cli.main([*LAKE, "160", "--out", str(tmp_path)])
    assert given["manner"] == Manner(300.0, "whole", tensorboard=False)


@pytest.mark.parametrize(("env", "slow"), [("atari/pong", True), ("minatar/breakout", False)])
def test_pictures_on_a_cpu_are_said_to_be_slow(env, slow):
    file = io.StringIO()
    display = Display(runs("--env", env), Console(file=file, width=200))
    display.update(Progress(0, 400, np.full(1, np.nan)))
    assert ("learning from images of this size is slow on a CPU" in file.getvalue()) == slow
