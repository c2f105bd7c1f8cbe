"""`mico.train` from Python: names and objects, lists, callbacks, resuming and refusals."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import gymnasium
import numpy as np
import pytest

import mico
from mico import cli
from mico.deep.agents import DQN
from mico.deep.envs import MinAtar, Tabular
from mico.deep.metric_losses import MICo
from mico.tabular import MDP, Problem
from mico.tabular import load as load_problem

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore:The log of each run"),
]

ROOMS = "mdp/two-state"
SMALL = {
    "replay.capacity": 500,
    "schedule.learning_starts": 100,
    "schedule.update_period": 4,
    "schedule.target_period": 100,
    "schedule.log_period": 100,
}


def config(folder, name):
    return json.loads((folder / name / "config.json").read_text())


def test_lists_make_a_run_for_each_combination_with_seeds_varying_fastest(tmp_path):
    fields = SMALL | {"metric.alpha": [0, 0.1]}
    runs = mico.train(ROOMS, "dqn", "mico", seeds=[0, 3], steps="200", out=tmp_path / "x", **fields)
    assert [(run.settings.metric.alpha, run.settings.seed, run.step) for run in runs] == [
        (0, 0, 200),
        (0, 3, 200),
        (0.1, 0, 200),
        (0.1, 3, 200),
    ]
    assert {folder.name for folder in (tmp_path / "x").glob("dqn-*")} == {
        f"dqn-mico-alpha{alpha}-seed{seed}" for alpha in (0.0, 0.1) for seed in (0, 3)
    }


def test_it_trains_what_the_command_line_trains(tmp_path):
    from mico import cli

    flags = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    flags += ["--env", ROOMS, "--metric", "mico", "--metric.beta", "0.3", "--seeds", "5", "--steps", "200"]
    cli.main(["train", *flags, "--out", str(tmp_path / "a")])
    mico.train(ROOMS, "dqn", "mico", seeds=5, steps=2e2, out=tmp_path / "b", **SMALL, metric__beta=0.3)
    logs = [(tmp_path / where / "dqn-mico-seed5" / "log.jsonl").read_bytes() for where in "ab"]
    assert logs[0] == logs[1]
    one, other = (config(tmp_path / where, "dqn-mico-seed5")["settings"] for where in "ab")
    assert one == other


def test_objects_stand_for_names_with_their_fields(tmp_path):
    agent, metric, env = DQN(learning_rate=0.01), MICo(alpha=0.2, pairs="shuffled"), MinAtar("breakout", sticky=0.3)
    (run,) = mico.train(env, agent, metric, seeds=0, steps=200, out=tmp_path / "x", **SMALL | {"metric.beta": 0.7})
    assert run.settings.agent == agent
    assert run.settings.env == env
    assert (run.settings.metric.alpha, run.settings.metric.pairs, run.settings.metric.beta) == (0.2, "shuffled", 0.7)


def test_no_metric_loss_is_none_by_any_name(tmp_path):
    for where, metric in (("a", None), ("b", "none")):
        (run,) = mico.train(ROOMS, metric=metric, seeds=0, steps=200, out=tmp_path / where, **SMALL)
        assert run.settings.metric is None


def test_callbacks_see_each_row_and_may_stop_the_training(tmp_path):
    seen = []
    runs = mico.train(ROOMS, seeds=[0, 1], steps=400, out=tmp_path / "a", callbacks=seen.append, **SMALL)
    assert [(row.run, row.step) for row in seen] == [
        (f"dqn-none-seed{seed}", step) for step in (100, 200, 300, 400) for seed in (0, 1)
    ]
    rows = [json.loads(line) for line in (tmp_path / "a" / "dqn-none-seed1" / "log.jsonl").read_text().splitlines()]
    mine = [row for row in seen if row.index == 1]
    for row, written in zip(mine, rows, strict=True):
        assert {"step": row.step, **row.values}.keys() == written.keys()
        for name, value in row.values.items():
            assert float(written[name]) == pytest.approx(value, rel=0, abs=0, nan_ok=True)

    stopped = mico.train(
        ROOMS, seeds=[0, 1], steps=400, out=tmp_path / "b", callbacks=[lambda row: row.step >= 200], **SMALL
    )
    assert all(200 <= run.step < 400 for run in stopped)
    whole = mico.train(ROOMS, seeds=[0, 1], steps=400, out=tmp_path / "b", resume=True, **SMALL)
    observation = np.eye(2, dtype=bool)
    for one, other in zip(runs, whole, strict=True):
        assert one.step == other.step == 400
        np.testing.assert_array_equal(one.represent(observation), other.represent(observation))


def test_more_steps_continue_a_finished_training(tmp_path):
    mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "x", **SMALL)
    (run,) = mico.train(ROOMS, seeds=0, steps=400, out=tmp_path / "x", resume=True, **SMALL)
    assert run.step == 400


def test_progress_is_shown_when_asked(tmp_path, capsys):
    mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "a", **SMALL)
    assert capsys.readouterr() == ("", "")
    mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "b", progress=True, **SMALL)
    assert "1 run of 200 steps" in capsys.readouterr().err


def test_ctrl_c_leaves_a_folder_that_can_be_resumed(tmp_path):
    code = textwrap.dedent(f"""
        import mico
        fields = {SMALL!r}
        print("ready", flush=True)
        mico.train({ROOMS!r}, seeds=0, steps=2_000_000, out="x", callbacks=lambda row: print(row.step, flush=True),
                   **fields)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    killer = threading.Timer(100, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "300":
                os.kill(process.pid, signal.SIGINT)
                break
        process.stdout.read()
        assert process.wait() != 0
    finally:
        killer.cancel()
        process.kill()
    reached = mico.load(tmp_path / "x" / "dqn-none-seed0").step
    assert 300 <= reached < 2_000_000
    assert (tmp_path / "x" / "checkpoints").is_dir()


REFUSED = [
    ({"env": "breakout"}, "minatar/breakout"),
    ({"env": 5}, "env must be a name"),
    ({"env": mico.make("two-state").mdp.chain()}, "got Chain, which has no actions"),
    ({"agent": "dqm"}, "did you mean dqn"),
    ({"env": "minatar/brekout", "agent": "sac"}, "did you mean breakout"),
    ({"env": "control/cartpole-swingp"}, "did you mean cartpole-swingup"),
    ({"agent": 5}, "agent must be one of dqn"),
    ({"metric": "mica"}, "did you mean mico"),
    ({"metric": DQN()}, "metric must be one of .*, got an object of DQN$"),
    ({"agent": gymnasium.make("CartPole-v1")}, "agent must be one of .*, got an object of TimeLimit$"),
    ({"preset": "tabel"}, "did you mean table"),
    ({"seeds": []}, "seeds must hold at least one"),
    ({"seeds": [0, 0]}, "seed"),
    ({"seeds": -1}, "seed must"),
    ({"seeds": "x"}, "seeds must be a whole number"),
    ({"steps": "x"}, "steps must be a whole number"),
    ({"steps": 0}, "steps must"),
    ({"steps": 1.5}, "steps must be a whole number"),
    ({"metric.alpha": 0.1}, "metric.alpha is a field of a metric loss: it needs metric"),
    ({"callbacks": 3}, "callbacks must be functions, got 3"),
    ({"callbacks": ["x"]}, "callbacks must be functions, got 'x'"),
    ({"seeds": None}, "seeds must be a whole number"),
    ({"seeds": 0.5}, "seeds must be a whole number"),
    ({"out": None}, "out must be a path"),
    ({"checkpoint_seconds": "a"}, "checkpoint_seconds must be a number"),
    ({"progress": "maybe"}, "progress must be True, False or None"),
    ({"agent.learning_rat": 0.1}, "did you mean agent.learning_rate"),
    ({"agent.learning_rate": []}, "agent.learning_rate must have a value"),
    ({"agent.learning_rate": "x"}, "learning_rate"),
    ({"schedule.learning_starts": "x"}, "schedule.learning_starts must be a whole number"),
    ({"replay.capacity": [100, 200]}, "replay.capacity must be one value"),
]


@pytest.mark.parametrize(("given", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_bad_input_is_refused_before_anything_is_written(given, says, tmp_path, unchecked):
    arguments = {"env": ROOMS, "seeds": 0, "steps": 200, "out": tmp_path / "x"} | SMALL | given
    with pytest.raises(ValueError, match=says):
        mico.train(**arguments)
    assert not (tmp_path / "x").exists()


def two_states(reward=1.0):
    """State 0 pays by action 1 and stays; state 1 absorbs."""
    return MDP([[[1, 0], [1, 0]], [[0, 1], [0, 1]]], [[0.0, reward], [0.0, 0.0]], discount=0.9)


@pytest.mark.parametrize(
    ("env", "fields"),
    [
        (mico.make("two-state"), {}),
        (two_states(), {"env.max_steps": 30}),
        (Tabular(two_states(), max_steps=30), {}),
    ],
    ids=["problem", "mdp", "environment"],
)
def test_an_mdp_given_as_an_object_is_stored_with_its_runs(env, fields, tmp_path):
    (run,) = mico.train(env, seeds=0, steps=200, out=tmp_path / "mine", **SMALL, **fields)
    assert run.settings.env.name == "mdp/mine.npz"
    given = env.problem if isinstance(env, Tabular) else env if isinstance(env, Problem) else Problem(env)
    stored = load_problem(tmp_path / "mine" / "problem" / "mine.npz")
    np.testing.assert_array_equal(stored.mdp.reward, given.mdp.reward)
    for one, other in zip(stored.mdp.outcomes(), given.mdp.outcomes(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert run.settings.env.max_steps == (100 if isinstance(env, Problem) else 30)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine").rename(tmp_path / "elsewhere" / "moved")  # wherever the folder is, the file is beside the runs
    again = mico.load(tmp_path / "elsewhere" / "moved" / "dqn-none-seed0")
    frames = np.eye(given.mdp.num_states, dtype=bool)
    np.testing.assert_array_equal(again.predict(frames), run.predict(frames))
    assert mico.evaluate(again, episodes=2, seed=0).shape == (2,)
    cli.main(["evaluate", str(tmp_path / "elsewhere" / "moved"), "--episodes", "2"])
    cli.main(["watch", str(tmp_path / "elsewhere" / "moved"), "--steps", "5", "--memory", "20"])
    (more,) = mico.train(env, seeds=0, steps=300, out=tmp_path / "elsewhere" / "moved", resume=True, **SMALL, **fields)
    assert more.step == 300


def test_an_mdp_given_as_an_object_leaves_nothing_if_it_is_refused(tmp_path):
    with pytest.raises(ValueError, match="steps must be at least 1"):
        mico.train(two_states(), seeds=0, steps=0, out=tmp_path / "deep" / "x", **SMALL)
    assert list(tmp_path.iterdir()) == []
    mico.train(two_states(), seeds=0, steps=200, out=tmp_path / "x", **SMALL)
    mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "named", **SMALL)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=r"env is not the problem of the runs in out, which .*x\.npz holds"):
        mico.train(two_states(2.0), seeds=0, steps=300, out=tmp_path / "x", resume=True, **SMALL)
    with pytest.raises(ValueError, match="already contains runs"):
        mico.train(two_states(), seeds=0, steps=200, out=tmp_path / "x", **SMALL)
    with pytest.raises(ValueError, match="already contains runs"):
        mico.train(two_states(), seeds=0, steps=200, out=tmp_path / "named", **SMALL)
    with pytest.raises(ValueError, match="env"):
        mico.train(two_states(), seeds=0, steps=300, out=tmp_path / "named", resume=True, **SMALL)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert not (tmp_path / "named" / "problem").exists()


def test_few_rows_are_said_with_and_without_a_display(tmp_path, capsys):
    sentence = "will have 2 rows, one every 100 steps: a smaller"
    with pytest.warns(UserWarning, match=f"{sentence} schedule.log_period gives a curve") as warned:
        mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "quiet", progress=False, **SMALL)
    assert len(warned) == 1
    assert "rows" not in capsys.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "shown", progress=True, **SMALL)
        mico.train(ROOMS, seeds=0, steps=1000, out=tmp_path / "enough", progress=False, **SMALL)
    assert f"{sentence} --schedule.log-period" in " ".join(capsys.readouterr().err.split())


def test_a_folder_that_holds_runs_is_not_overwritten(tmp_path):
    mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "x", **SMALL)
    with pytest.raises(ValueError, match="resume"):
        mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "x", **SMALL)


def test_evaluate_takes_a_run_or_its_folder(tmp_path):
    (run,) = mico.train(ROOMS, seeds=0, steps=200, out=tmp_path / "x", **SMALL)
    one = mico.evaluate(run, episodes="5", seed=1, max_steps=20)
    np.testing.assert_array_equal(
        one, mico.evaluate(tmp_path / "x" / "dqn-none-seed0", episodes=5, seed=1, max_steps=20)
    )
    assert one.shape == (5,)
    assert repr(run) == "Trained(env='mdp/two-state', agent='dqn', metric='none', seed=0, step=200)"
    with pytest.raises(ValueError, match="dqn-none-seed0"):
        mico.load(tmp_path / "x")
