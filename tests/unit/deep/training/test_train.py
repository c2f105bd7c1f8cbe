"""The training loop: what it writes, against plain loops; when it stops; and that the device never waits for it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep import load
from mico.deep.config.run import Schedule, describe
from mico.deep.envs import environment
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.fleet.jax_engine import JaxEngine
from mico.deep.fleet.shards import ShardedFleet
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.training import chunking
from mico.deep.training import train as module
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.train import Manner, train
from mico.runs.folder import read_runs
from mico.runs.log import read_log, read_rows
from small_runs import SCHEDULE, small_agent, small_run
from tensorboards import events
from trainings import Crash, crashing, left

pytestmark = pytest.mark.usefixtures("quick_compilation")

RUNS = [small_run(metric=MICo(alpha=alpha), seed=seed) for alpha in (0.0, 0.25) for seed in (0, 1)]
NAMES = [f"dqn-mico-alpha{alpha}-seed{seed}" for alpha in (0.0, 0.25) for seed in (0, 1)]


@pytest.fixture(scope="module")
def out(tmp_path_factory, quick_compilation):
    folder = tmp_path_factory.mktemp("train") / "out"
    train(RUNS, folder, steps=200)
    return folder


def test_targets_are_copied_after_every_period_and_only_then(tmp_path, monkeypatch):
    schedule, times, copies, play = replace(SCHEDULE, target_period=80, log_period=40), [0], [], ShardedFleet.play
    copy = ShardedFleet.copy_targets

    def played(parts, states, time, length, learns):
        times.append(time + length)
        return play(parts, states, time, length, learns)

    def copied(parts, states):
        after = copy(parts, states)
        same = jax.tree.map(np.array_equal, after[0].params, after[0].target)
        copies.append((times[-1], all(jax.tree.leaves(same))))
        return after

    monkeypatch.setattr(ShardedFleet, "play", played)
    monkeypatch.setattr(ShardedFleet, "copy_targets", copied)
    train([replace(RUNS[0], schedule=schedule)], tmp_path / "out", steps=280)
    assert copies == [(80, True), (160, True), (240, True)]


def logs(out):
    return {path.parent.name: read_log(path) for path in sorted(out.glob("*/log.jsonl"))}


def test_what_is_on_disk(out):
    assert sorted(path.name for path in out.iterdir()) == sorted(["checkpoints", "fleet.json", "timing.jsonl", *NAMES])
    fleet = json.loads((out / "fleet.json").read_bytes())
    settings = json.loads(json.dumps([describe(run) for run in RUNS]))
    assert fleet == {"runs": NAMES, "steps": 200, "settings": settings, "parts": [1] * len(RUNS)}
    for index, name in enumerate(NAMES):
        assert sorted(path.name for path in (out / name).iterdir()) == ["config.json", "log.jsonl", "params"]
        assert [path.name for path in (out / name / "params").iterdir()] == ["200.arrays"]
        config = json.loads((out / name / "config.json").read_bytes())
        assert (config["run"], config["seed"], config["steps"]) == (name, index % 2, 200)
        assert (config["agent"], config["metric"], config["env"]) == ("dqn", "mico", "mdp/frozen-lake")
        assert config["varied"] == {"metric.alpha": [0.0, 0.25][index // 2]}
        assert config["settings"] == fleet["settings"][index]
        (start,) = config["starts"]
        assert start["step"] == 0
        assert start["versions"]["jax"] == jax.__version__
        assert start["device"].startswith(jax.devices()[0].platform)
        assert start["commit"] is None or re.fullmatch("[0-9a-f]{40}(-dirty)?", start["commit"])
        assert set(config) - {"starts", "settings"} == {*("run", "agent", "metric", "env", "seed", "varied", "steps")}


def test_wall_clock_is_in_its_own_file(out):
    timing = read_log(out / "timing.jsonl")
    assert timing["step"].tolist() == [40, 80, 120, 160, 200]
    assert (timing["seconds"].diff()[1:] > 0).all()
    assert np.allclose(timing["time"].diff()[1:], timing["seconds"].diff()[1:], atol=0.05)
    paces = 4 * timing["step"].diff()[1:] / timing["seconds"].diff()[1:]  # of four runs together
    assert np.allclose(timing["steps_per_second"][1:], paces, rtol=1e-6)


def test_rows(out):
    for name, log in logs(out).items():
        alpha = 0.25 if "0.25" in name else 0.0
        assert log["step"].tolist() == [40, 80, 120, 160, 200]
        by_hand = [1.0, 1 - 0.9 * 40 / 200, 1 - 0.9 * 80 / 200, 1 - 0.9 * 120 / 200, 1 - 0.9 * 160 / 200]
        assert log["epsilon"].tolist() == pytest.approx(by_hand)
        learnt = log.iloc[1:]
        losses = ["loss", "td_loss", "metric_loss"]
        assert log.loc[0, losses].isna().all()  # nothing was learnt before
        assert (learnt[losses] > 0).all(axis=None)
        mixed = (1 - alpha) * learnt["td_loss"] + alpha * learnt["metric_loss"]
        assert np.allclose(learnt["loss"], mixed, rtol=1e-5)
        assert np.allclose(log["reduced_distance"], 0.1 * log["angle"])
        assert log["angle"].between(0, np.pi).all()
        assert (log["distance"] > log["reduced_distance"]).all()
        assert np.isfinite(log[["q", "norm"]]).all(axis=None)
    table = read_runs(out)
    assert set(table["metric.alpha"]) == {0.0, 0.25}
    assert table["step"].max() == 200


def test_values_norms_and_distances_are_those_of_the_run(tmp_path):
    """In an MDP of one state, every mean over states is the number of that state."""
    run = small_run(seed=3, env=environment("mdp/action-reward", max_steps=5))
    train([run], tmp_path, steps=80)
    trained, here = load(tmp_path / "dqn-none-seed3"), np.ones(1, dtype=bool)
    row = logs(tmp_path)["dqn-none-seed3"].iloc[-1]
    assert row["q"] == pytest.approx(trained.predict(here).max(), rel=1e-5)
    assert row["norm"] == pytest.approx(np.linalg.norm(trained.represent(here)), rel=1e-5)
    assert row["distance"] == pytest.approx(row["norm"] ** 2, rel=1e-5)  # a state has no angle to itself
    assert row["angle"] == row["reduced_distance"] == 0


def random_episodes(run, steps):
    """Returns and lengths of the episodes that end in so many random steps, and the steps they end at: a plain loop."""
    own = jax.random.key(run.seed)
    state, _ = run.env.reset(jax.random.fold_in(jax.random.fold_in(own, 1), 0))
    found, total, length = [], 0.0, 0

    @jax.jit
    def move(state, time):
        _, choice, chance = jax.random.split(jax.random.fold_in(jax.random.fold_in(own, 2), time), 3)
        action = jnp.int32(jax.random.uniform(choice, (2,))[1] * run.env.spec.num_actions)
        return run.env.step(state, action, chance)

    for time in range(steps):
        state, outcome = move(state, time)
        total, length = total + float(outcome.reward), length + 1
        if outcome.ended:
            found.append((time + 1, total, length))
            total, length = 0.0, 0
    return found


def gym_episodes(run, steps):
    """The same for an environment outside JAX, by Gymnasium itself."""
    own, env = jax.random.key(run.seed), gymnasium.make(run.env.id)
    found, total, length = [], 0.0, 0
    env.reset(seed=episode_seed(run.seed, 0))
    for time in range(steps):
        choice = jax.random.split(jax.random.fold_in(jax.random.fold_in(own, 2), time), 3)[1]
        _, reward, terminal, timeout, _ = env.step(int(jax.random.uniform(choice, (2,))[1] * 2))
        total, length = total + reward, length + 1
        if terminal or timeout:
            found.append((time + 1, total, length))
            total, length = 0.0, 0
            env.reset(seed=episode_seed(run.seed, len(found)))
    return found


def assert_rows_are(episodes, log):
    """Row by row, the episodes that ended since the row before."""
    for start, row in zip([0, *log["step"]], log.to_dict("records")):
        ended = [(total, length) for time, total, length in episodes if start < time <= row["step"]]
        assert row["episodes"] == len(ended)
        if not ended:
            assert np.isnan([row["return"], row["return_min"], row["return_max"], row["length"]]).all()
            continue
        totals, lengths = zip(*ended, strict=True)
        assert row["return"] == sum(totals) / len(totals)
        assert (row["return_min"], row["return_max"]) == (min(totals), max(totals))
        assert row["length"] == sum(lengths) / len(lengths)


def test_returns_are_those_of_a_plain_loop(tmp_path):
    """Rewards of −1 and −100 are whole, so that sums of them are exact."""
    env = environment("mdp/cliff-walking", max_steps=9)
    schedule = Schedule(learning_starts=160, target_period=40, log_period=40)
    runs = [small_run(seed=seed, env=env, schedule=schedule) for seed in (4, 5)]
    train(runs, tmp_path, steps=152)
    for run, log in zip(runs, logs(tmp_path).values(), strict=True):
        assert log["step"].tolist() == [40, 80, 120, 152]  # the last row is shorter
        assert set(log) == {"step", "epsilon", "episodes", "return", "return_min", "return_max", "length"}
        episodes = random_episodes(run, 152)
        assert len({total for _, total, _ in episodes}) > 3
        assert_rows_are(episodes, log)


def test_returns_outside_jax_are_those_of_a_plain_loop(tmp_path):
    schedule = replace(SCHEDULE, learning_starts=120)
    parts = {
        "env": environment("gym/CartPole-v1"),
        "network": NetworkConfig("mlp", width=8, hidden=8),
        "schedule": schedule,
    }
    runs = [small_run("dqn", MICo(alpha=0.25), seed=seed, **parts) for seed in (4, 5)]
    train(runs, tmp_path, steps=160)
    for run, log in zip(runs, logs(tmp_path).values(), strict=True):
        assert_rows_are(gym_episodes(run, 120), log.iloc[:3])
        last = log.iloc[3]
        assert last["td_loss"] > 0
        assert last["loss"] == pytest.approx(0.75 * last["td_loss"] + 0.25 * last["metric_loss"], rel=1e-5)


def test_logs_can_be_read_and_returns_are_reported_while_training(out, tmp_path):
    reports = []

    def report(progress):
        rows = logs(tmp_path)[NAMES[0]]
        reports.append((progress.step, progress.steps, 0 if rows.empty else rows["step"].iloc[-1]))
        if len(rows):
            newest = [log["return"].dropna() for log in logs(tmp_path).values()]
            expected = [returns.iloc[-1] if len(returns) else np.nan for returns in newest]
            np.testing.assert_array_equal(progress.returns, expected)

    train(RUNS, tmp_path, steps=200, report=report)
    assert reports == [(step, 200, step) for step in (0, 40, 80, 120, 160, 200)]
    assert left(tmp_path) == left(out)  # and looking changes nothing


def test_callbacks_see_each_row_as_soon_as_it_is_written(out, tmp_path):
    seen, steps = [], []

    def look(row):
        (written,) = [read_rows(tmp_path / row.run / "log.jsonl")[-1]]
        assert written == {"step": row.step} | row.values
        assert NAMES[row.index] == row.run
        assert all(type(value) in (int, float) for value in row.values.values())
        seen.append((row.step, row.index))

    assert train(RUNS, tmp_path, steps=200, callbacks=[look, lambda row: steps.append(row.step)]) == 200
    assert seen == [(step, index) for step in (40, 80, 120, 160, 200) for index in range(4)]
    assert steps == [step for step, _ in seen]
    assert left(tmp_path) == left(out)


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_that_returns_true_stops_after_a_checkpoint_from_which_it_resumes(out, tmp_path, answer):
    stops = [lambda row: row.step >= 80 and answer]
    assert train(RUNS, tmp_path, steps=200, callbacks=stops) == 120  # which was played while the row of 80 was read
    assert Checkpoints(tmp_path / "checkpoints").latest() == 120
    assert load(tmp_path / NAMES[0]).step == 120
    assert train(RUNS, tmp_path, steps=200, resume=True) == 200
    assert left(tmp_path) == left(out)


@pytest.mark.parametrize("answer", [None, False, 7, "text"])
def test_whatever_else_a_callback_returns_stops_nothing(tmp_path, answer):
    assert train(RUNS[:1], tmp_path, steps=80, callbacks=[lambda row: answer]) == 80


def test_reports_say_when_something_was_compiled_and_when_learning_starts(tmp_path):
    run = small_run(seed=0, schedule=replace(SCHEDULE, learning_starts=80))
    jax.clear_caches()
    found = []
    train([run], tmp_path, steps=400, report=found.append)
    assert {progress.learns_from for progress in found} == {80}
    by_step = {progress.step: progress.compiled for progress in found}
    assert by_step[0]  # the state before the first step
    assert by_step[80]  # the program that learns, while the chunk up to here was played
    assert not any(by_step[step] for step in (200, 240, 280, 320, 360, 400))


def test_a_training_too_short_to_learn_says_so(tmp_path):
    with pytest.warns(UserWarning, match="^nothing is learnt up to step 40: learning begins after step 40$"):
        train(RUNS, tmp_path, steps=40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(RUNS, tmp_path, steps=44, resume=True)
    assert all(log["loss"].notna().tolist() == [False, True] for log in logs(tmp_path).values())


def test_the_next_chunk_is_on_its_way_before_the_last_is_read(tmp_path, monkeypatch):
    events, given = [], []
    prepared, added = JaxEngine.compile_chunk, module.added

    def noted(self, state, time, length, learns):
        events.append(f"play {time}")
        given.extend(jax.tree.leaves(state))
        return prepared(self, state, time, length, learns)

    monkeypatch.setattr(module, "default_shard_sizes", lambda runs: [len(runs)])  # as on a GPU
    monkeypatch.setattr(JaxEngine, "compile_chunk", noted)
    monkeypatch.setattr(module, "added", lambda sums, tally: events.append("read") or added(sums, tally))
    train(RUNS, tmp_path, steps=160)
    assert events == ["play 0", "play 40", "read", "play 80", "read", "play 120", "read", "read"]
    assert all(leaf.is_deleted() for leaf in given)  # the state is given away, not copied


def test_a_run_that_is_not_finite_is_frozen_and_the_others_go_on(tmp_path):
    """Adam's first step has the length of the rate; with one of 1e30 the second loss is infinite, at step 48."""
    rates = {"bad": (0.01, 0.02, 0.03, 1e30), "good": (0.01, 0.02, 0.03, 0.04), "without": (0.01, 0.02, 0.03)}
    found, reports = {}, []
    for name, given in rates.items():
        runs = [small_run(small_agent(learning_rate=rate), MICo(alpha=0.25), seed=7) for rate in given]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(runs, tmp_path / name, steps=200, report=reports.append)
        frozen = "dqn-mico-learning-rate1e+30-seed7: not finite at step 48; it stays as it was before"
        assert [str(one.message) for one in caught] == ([frozen] if name == "bad" else [])
        assert np.isnan(reports[-1].returns).tolist() == [rate > 1 for rate in given]
        found[name] = logs(tmp_path / name)
    *others, frozen = found["bad"]
    for name in others:
        assert found["bad"][name].equals(found["good"][name])
        np.testing.assert_allclose(found["bad"][name], found["without"][name], rtol=1e-4)
    last = found["bad"][frozen]
    assert last["step"].tolist() == [40, 80]
    assert last["not_finite_at"].tolist()[1:] == [48]
    leaves = jax.tree.leaves(load(tmp_path / "bad" / frozen).params)  # as they were after the first update
    assert max(np.abs(leaf).max() for leaf in leaves) == pytest.approx(1e30, rel=0.01)


@pytest.mark.parametrize(("period", "rows"), [(8, [8, 16, 24, 32, 40, 48]), (40, [40, 80])])
def test_a_frozen_run_has_a_single_row_that_says_so(tmp_path, period, rows):
    """The one at which it froze, at step 48, or the next one."""
    run = small_run(small_agent(learning_rate=1e30), seed=7, schedule=replace(SCHEDULE, log_period=period))
    with pytest.warns(UserWarning, match="not finite at step 48"):
        train([run], tmp_path, steps=160)
    (log,) = logs(tmp_path).values()
    assert log["step"].tolist() == rows
    assert log["not_finite_at"].dropna().tolist() == [48]


def test_a_frozen_run_that_is_stopped_before_its_next_row_has_the_step_at_which_it_froze(tmp_path, monkeypatch):
    monkeypatch.setattr(chunking, "_SHORT", 8)
    monkeypatch.setattr(chunking, "_LEARNING", 1e12)  # chunks stay short, however fast this machine is
    monkeypatch.setattr(chunking, "_CHANGES", 0)
    runs = [small_run(small_agent(learning_rate=rate), seed=7) for rate in (0.01, 1e30)]

    def report(progress):
        if progress.step == 48:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped at step 56"), pytest.warns(match="not finite at step 48"):
        train(runs, tmp_path / "stopped", steps=80, report=report)
    folders = [path.parent for path in sorted((tmp_path / "stopped").glob("*/config.json"))]
    assert [load(folder).step for folder in folders] == [56, 48]
    train(runs, tmp_path / "stopped", steps=80, resume=True)
    with pytest.warns(match="not finite at step 48"):
        train(runs, tmp_path / "whole", steps=80)
    assert left(tmp_path / "stopped") == left(tmp_path / "whole")


def board(folder):
    """What TensorBoard shows: a session that starts at a step takes the place of what was there from it on."""
    found = []
    for event in events(folder):
        if event.HasField("session_log"):
            found = [one for one in found if one[0] < event.step]
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    return found


def test_tensorboard_has_each_row_once(tmp_path):
    pytest.importorskip("tensorboardX")
    for steps, at in ((80, 1000), (160, 120), (160, 1000)):  # an end, a crash that leaves a row too many, and the rest
        with contextlib.suppress(Crash):
            train(RUNS, tmp_path, steps=steps, manner=Manner(tensorboard=True), resume=True, report=crashing(at))
    for name, log in logs(tmp_path).items():
        assert log["step"].tolist() == [40, 80, 120, 160]
        rows = [
            (row["step"], key, pytest.approx(value, rel=1e-6))
            for row in log.to_dict("records")
            for key, value in row.items()
            if key != "step" and not np.isnan(value)
        ]
        assert sorted(board(tmp_path / name / "tensorboard")) == sorted(rows, key=lambda row: row[:2])


def test_chunks_grow_with_the_speed_and_change_nothing(out, tmp_path, monkeypatch):
    """From eight steps on to forty, which is all that the periods allow."""
    monkeypatch.setattr(chunking, "_SHORT", 8)
    monkeypatch.setattr(module, "COMPILATION", 0.0)  # so that another length is worth a program
    steps = []
    train(RUNS, tmp_path, steps=200, report=lambda progress: steps.append(progress.step))
    lengths = np.diff(steps).tolist()
    assert lengths[:5] == [8] * 5
    assert lengths[-2:] == [40, 40]
    assert set(lengths) == {8, 40}
    assert left(tmp_path) == left(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_the_end_of_a_chunk_and_saves(out, tmp_path, number):
    before = signal.getsignal(number)

    def report(progress):
        if progress.step == 40:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt, match="stopped at step 80 of 200, which is saved: --resume continues"):
        train(RUNS, tmp_path, steps=200, report=report)  # at 40 is read what was played before 80
    assert signal.getsignal(number) is before
    assert Checkpoints(tmp_path / "checkpoints").latest() == 80
    assert all((tmp_path / name / "params" / "80.arrays").is_file() for name in NAMES)
    train(RUNS, tmp_path, steps=200, resume=True)
    assert left(tmp_path) == left(out)


def test_a_signal_before_the_first_step_saves_too(out, tmp_path):
    def report(progress):
        os.kill(os.getpid(), signal.SIGINT)

    for _ in range(2):  # the second one finds the first one's checkpoint, and has nothing to add
        with pytest.raises(KeyboardInterrupt, match="stopped at step 0 of 200"):
            train(RUNS, tmp_path, steps=200, resume=True, report=report)
        assert Checkpoints(tmp_path / "checkpoints").latest() == 0
    train(RUNS, tmp_path, steps=200, resume=True)
    assert left(tmp_path) == left(out)


def test_a_second_signal_stops_at_once(out, tmp_path):
    def report(progress):
        if progress.step == 80:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt, match="stopped at once: --resume continues from the last checkpoint"):
        train(RUNS, tmp_path, steps=200, report=report)
    assert Checkpoints(tmp_path / "checkpoints").latest() is None
    train(RUNS, tmp_path, steps=200, resume=True)
    assert left(tmp_path) == left(out)


def test_outside_the_main_thread_there_are_no_signals_to_wait_for(out, tmp_path):
    thread = threading.Thread(target=train, args=(RUNS, tmp_path), kwargs={"steps": 200})
    thread.start()
    thread.join()
    assert left(tmp_path) == left(out)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 6}, "steps must be a multiple of update_period 4, got 6: the next is 8"),
        ({"steps": 0}, "steps must be at least 1 and below 2³¹, got 0"),
        ({"steps": 2**31}, "steps must be at least 1 and below 2³¹, got 2147483648"),
        ({"manner": Manner(checkpoint_seconds=-1.0)}, r"checkpoint_seconds must not be negative, but is -1\.0"),
        ({"manner": Manner(checkpoint_seconds=float("nan"))}, "checkpoint_seconds must not be negative, but is nan"),
        ({"runs": []}, "runs must hold one run at least, but is empty"),
        ({"runs": [RUNS[0], RUNS[0]]}, "runs must differ, but several are dqn-mico-seed0: give each seed"),
        ({"runs": [small_run(seed=0, network=NetworkConfig("minatar"))]}, "encoder 'minatar' needs images"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        train(**({"runs": RUNS, "out": tmp_path / "new", "steps": 200} | given))
    assert not (tmp_path / "new").exists()


def test_folders_that_hold_something_are_refused_and_stay_as_they_are(out, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"is not empty and contains no runs, but thesis\.tex"):
            train(RUNS, tmp_path, steps=200, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match=r"already contains runs: resume .*, or choose another folder"):
        train(RUNS, out, steps=200)


def test_two_processes_cannot_write_one_folder(tmp_path):
    hold = (
        "import sys, pathlib; from mico.runs.lock import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(ValueError, match=f"is being written by process {other.pid}"):
            train(RUNS, tmp_path, steps=200)
        other.stdin.close()
    assert not [*tmp_path.iterdir()]
