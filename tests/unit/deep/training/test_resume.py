"""Whatever happens to a training, what it leaves in the end is what it would have left."""

import json
import random
import re
import shutil
import signal
import time
import warnings
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path

import jax
import numpy as np
import pytest

from mico import cli
from mico.deep.config.run import run_names
from mico.deep.envs import environment
from mico.deep.metric_losses import MICo
from mico.deep.networks.encoders import NetworkConfig
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.chunking import Chunks
from mico.deep.training.run_folder import Outputs
from mico.deep.training.train import Manner, train
from mico.runs.folder import read_runs
from mico.runs.log import read_log
from small_runs import small_run
from trainings import ACTOR_FLAGS, FLAGS, Crash, crashing, ended, left, mico, reference

pytestmark = pytest.mark.usefixtures("quick_compilation")

HOSTED = {
    "hosted": environment("gym/CartPole-v1"),
    "atari": environment("atari/breakout", max_steps=25),
    "pendulum": environment("gym/Pendulum-v1", max_steps=25),
}
AGENTS = ["dqn", "rainbow", "iqn", *HOSTED]


def fleet(name):
    """Two runs of an agent; or of DQN, or SAC, on an environment outside JAX."""
    if name == "pendulum":
        return [small_run("sac", MICo(alpha=0.25), env=HOSTED[name], seed=seed) for seed in (0, 1)]
    if name in HOSTED:
        parts = {"env": HOSTED[name], "network": NetworkConfig("mlp", width=8, hidden=8)}
        runs = [small_run("dqn", MICo(alpha=0.25), seed=seed, **parts) for seed in (0, 1)]
        return [replace(run, replay=replace(run.replay, stack=4 if name == "atari" else 1)) for run in runs]
    return [small_run(name, MICo(alpha=0.25), seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What undisturbed trainings of 240 steps leave."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = reference(fleet(name), tmp_path_factory.mktemp(name), 240)
        return found[name]

    return of


@pytest.mark.parametrize("name", AGENTS)
def test_crashes_leave_no_trace(tmp_path, expected, name):
    """Rows beyond the last checkpoint are there when the second training begins, and are written again."""
    for seconds, at in ((1e9, 80), (0.0, 120), (1e9, 200)):
        with pytest.raises(Crash):
            train(
                fleet(name),
                tmp_path,
                steps=240,
                resume=True,
                manner=Manner(checkpoint_seconds=seconds),
                report=crashing(at),
            )
    assert Checkpoints(tmp_path / "checkpoints").latest() == 80
    assert all(read_log(path)["step"].iloc[-1] == 200 for path in tmp_path.glob("*/log.jsonl"))
    train(fleet(name), tmp_path, steps=240, resume=True)
    assert left(tmp_path) == expected(name)


def check_chunks(runs, out, expected, lengths, monkeypatch):
    """Chunks of given lengths, one after the other, within the forty steps that periods allow."""
    ends = np.cumsum(lengths).tolist()
    assert ends[-1] == 40

    def next_length(self, time, *, learns):
        return next(end for end in ends if end > time % 40) - time % 40

    monkeypatch.setattr(Chunks, "next", next_length)
    steps = []
    train(runs, out, steps=240, report=lambda progress: steps.append(progress.step))
    assert len(steps) == 1 + 6 * len(lengths)
    assert left(out) == expected


@pytest.mark.parametrize(("name", "lengths"), [("dqn", [8, 32]), ("hosted", [20, 20]), ("hosted", [4, 36])])
def test_chunks_leave_no_trace(tmp_path, expected, monkeypatch, name, lengths):
    check_chunks(fleet(name), tmp_path, expected(name), lengths, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_chunks_leave_no_trace_in_programs_as_users_have_them(tmp_path, monkeypatch, name):
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        whole = reference(fleet(name), tmp_path / "whole", 240)
        for lengths in ([8] * 5, [20, 20], [12, 28]):
            check_chunks(fleet(name), tmp_path / str(lengths), whole, lengths, monkeypatch)
    finally:
        jax.config.update("jax_disable_most_optimizations", True)


def test_checkpoints_are_kept_while_it_trains_and_only_as_often_as_asked(tmp_path):
    for seconds, kept in ((0.0, ["160", "200", "240"]), (1e9, ["240"])):
        out = tmp_path / kept[0]
        train(fleet("dqn"), out, steps=240, manner=Manner(checkpoint_seconds=seconds))
        assert sorted(path.name for path in (out / "checkpoints").iterdir()) == [f"{step}.arrays" for step in kept]


def test_more_steps_are_as_if_they_had_been_asked_for_at_once(tmp_path, expected):
    train(fleet("dqn"), tmp_path, steps=160)
    train(fleet("dqn"), tmp_path, steps=240, resume=True)
    assert left(tmp_path) == expected("dqn")
    assert json.loads((tmp_path / "fleet.json").read_bytes())["steps"] == 240
    for path in tmp_path.glob("*/config.json"):
        assert json.loads(path.read_bytes())["steps"] == 240


def test_steps_that_end_within_a_chunk_can_be_gone_on_from(tmp_path):
    """The chunks of 40 end where targets are copied and rows are written, also after a stop at 100."""
    steps = []
    train(fleet("dqn"), tmp_path, steps=100)
    train(fleet("dqn"), tmp_path, steps=240, resume=True, report=lambda progress: steps.append(progress.step))
    assert steps == [100, 120, 160, 200, 240]
    for path in tmp_path.glob("*/log.jsonl"):
        assert read_log(path)["step"].tolist() == [40, 80, 100, 120, 160, 200, 240]


def test_a_finished_training_is_left_alone(tmp_path, expected):
    train(fleet("dqn"), tmp_path, steps=240)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/params/*")}
    reports = []
    train(fleet("dqn"), tmp_path, steps=240, resume=True, report=reports.append)
    (progress,) = reports
    assert (progress.step, progress.steps) == (240, 240)
    newest = [read_log(path)["return"].dropna().iloc[-1] for path in sorted(tmp_path.glob("*/log.jsonl"))]
    np.testing.assert_array_equal(progress.returns, newest)
    assert left(tmp_path) == expected("dqn")
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_frozen_run_stays_frozen_without_another_word(tmp_path):
    runs = [replace(run, agent=replace(run.agent, learning_rate=rate)) for run, rate in zip(fleet("dqn"), (0.01, 1e30))]
    with pytest.warns(UserWarning, match="seed1: not finite at step 48"):
        train(runs, tmp_path / "whole", steps=240)
    with pytest.warns(UserWarning, match="not finite at step 48"), pytest.raises(Crash):
        train(runs, tmp_path / "parts", steps=240, manner=Manner(checkpoint_seconds=0.0), report=crashing(200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(runs, tmp_path / "parts", steps=240, resume=True)
    assert left(tmp_path / "parts") == left(tmp_path / "whole")


def other(run, part, **fields):
    return replace(run, **{part: replace(getattr(run, part), **fields)})


def test_a_folder_from_before_a_field_of_the_schedule_goes_on_as_by_default(tmp_path):
    runs = fleet("dqn")
    train(runs, tmp_path, steps=80)
    file = tmp_path / "fleet.json"
    found = json.loads(file.read_bytes())
    for one in found["settings"]:
        assert one["schedule"].pop("acting") == "after-learning"
    file.write_text(json.dumps(found))
    train(runs, tmp_path, steps=120, resume=True)
    assert json.loads(file.read_bytes())["settings"][0]["schedule"]["acting"] == "after-learning"
    assert json.loads((tmp_path / "dqn-mico-seed0/log.jsonl").read_text().splitlines()[-1])["step"] == 120


def test_other_settings_are_refused_by_name(tmp_path):
    runs = fleet("dqn")
    train(runs, tmp_path, steps=80)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    made = "but the run here was made with"
    for changed, message in [
        (
            [other(run, "agent", learning_rate=0.5) for run in runs],
            rf"agent\.learning_rate of .*seed0 is 0\.5, {made} 0\.01",
        ),
        ([runs[0], other(runs[1], "metric", alpha=0.5)], rf"metric\.alpha of dqn-mico-seed1 is 0\.5, {made} 0\.25"),
        ([replace(run, metric=None) for run in runs], rf"metric\.name of dqn-mico-seed0 is None, {made} 'mico'"),
        (
            [other(run, "replay", capacity=100) for run in runs],
            rf"replay\.capacity of dqn-mico-seed0 is 100, {made} 200",
        ),
        ([replace(runs[0], seed=1), replace(runs[1], seed=0)], rf"seed of dqn-mico-seed0 is 1, {made} 0"),
        (runs[:1], "runs must be those of the folder, dqn-mico-seed0, dqn-mico-seed1, got 1 runs"),
        (fleet("rainbow"), rf"agent\.name of dqn-mico-seed0 is 'rainbow', {made} 'dqn'"),
    ]:
        with pytest.raises(ValueError, match=message):
            train(changed, tmp_path, steps=80, resume=True)
    with pytest.raises(ValueError, match="steps is 40, but the runs here were made for 80"):
        train(runs, tmp_path, steps=40, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def everything(out):
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize(
    ("deleted", "there"),
    [
        (["checkpoints"], r"rows and parameters \(such as dqn-mico-seed0/params/80\.arrays\)"),
        (["checkpoints/*"], r"rows and parameters \(such as dqn-mico-seed0/params/80\.arrays\)"),
        (["checkpoints", "*/params"], r"rows \(such as dqn-mico-seed0/log\.jsonl\)"),
        (["checkpoints", "*/log.jsonl"], r"parameters \(such as dqn-mico-seed0/params/80\.arrays\)"),
    ],
)
def test_without_its_checkpoints_nothing_of_a_training_is_touched(tmp_path, expected, deleted, there):
    out, copy = tmp_path / "out", tmp_path / "copy"
    train(fleet("dqn"), out, steps=80)
    shutil.copytree(out, copy)
    for path in [path for pattern in deleted for path in out.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = everything(out)
    for steps in (80, 240):
        with pytest.raises(ValueError, match=rf"out has {there}, but no checkpoint to resume from: restore its che"):
            train(fleet("dqn"), out, steps=steps, resume=True)
        assert everything(out) == before
    shutil.copytree(copy, out, dirs_exist_ok=True)
    train(fleet("dqn"), out, steps=240, resume=True)
    assert left(out) == expected("dqn")


@pytest.mark.parametrize("at", ["save", "_make_room", "_set_aside"])
def test_a_crash_within_the_first_checkpoint_leaves_no_trace(tmp_path, expected, monkeypatch, at):
    """All rows and all parameters are there, which tells nobody that the checkpoint is not."""

    def crash(*_, **__):
        raise Crash

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, at, crash)
            with pytest.raises(Crash):
                train(fleet("dqn"), tmp_path, steps=240, resume=True)
        assert left(tmp_path) == expected("dqn")
    steps = []
    train(fleet("dqn"), tmp_path, steps=240, resume=True, report=lambda progress: steps.append(progress.step))
    assert steps[0] == 0
    assert left(tmp_path) == expected("dqn")


def spoiled(path):
    """A row in the midst is another, and shorter."""
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first[: len(first) // 2] + b"\n", *rest]))


def longer(path):
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b" " + first, *rest]))


@pytest.mark.parametrize(
    ("damage", "found"), [(spoiled, r"has \d+"), (longer, r"has \d+"), (Path.unlink, "is missing")]
)
def test_a_damaged_log_is_refused_and_nothing_is_touched(tmp_path, expected, damage, found):
    train(fleet("dqn"), tmp_path, steps=80)
    log = tmp_path / "dqn-mico-seed1" / "log.jsonl"
    whole = log.read_bytes()
    damage(log)
    before, reports = everything(tmp_path), []
    message = rf"seed1/log\.jsonl is damaged: at step 80 it had {len(whole)} bytes, .* now it {found}; restore the log"
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            train(fleet("dqn"), tmp_path, steps=240, resume=True, report=reports.append)
        assert everything(tmp_path) == before
    assert not reports
    log.write_bytes(whole)
    train(fleet("dqn"), tmp_path, steps=80, resume=True)
    assert json.loads((tmp_path / "fleet.json").read_bytes())["steps"] == 80
    train(fleet("dqn"), tmp_path, steps=240, resume=True)
    assert [start["step"] for start in json.loads((log.parent / "config.json").read_bytes())["starts"]] == [0, 80, 80]
    assert left(tmp_path) == expected("dqn")


def test_a_log_edited_in_place_is_refused_and_nothing_is_touched(tmp_path):
    """A number of as many digits: neither the length of the log nor the ends of its rows tell."""
    train(fleet("dqn"), tmp_path, steps=80)
    log = tmp_path / "dqn-mico-seed1" / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"step": 40', b'"step": 48'))
    before = everything(tmp_path)
    with pytest.raises(ValueError, match=r"seed1/log\.jsonl was edited: its first \d+ bytes are not .* at step 80"):
        train(fleet("dqn"), tmp_path, steps=160, resume=True)
    assert everything(tmp_path) == before
    log.write_bytes(whole)
    train(fleet("dqn"), tmp_path, steps=160, resume=True)


def test_rows_after_the_checkpoint_may_be_anything(tmp_path, expected):
    """They are cut off, and written again."""
    train(fleet("dqn"), tmp_path, steps=80)
    with (tmp_path / "dqn-mico-seed1" / "log.jsonl").open("ab") as file:
        file.write(b'{"step": 99, "return": 1}\n{"ste')
    train(fleet("dqn"), tmp_path, steps=240, resume=True)
    assert left(tmp_path) == expected("dqn")


def test_if_all_checkpoints_are_damaged_nothing_is_touched(tmp_path):
    train(fleet("dqn"), tmp_path, steps=80)
    flipped(tmp_path / "checkpoints" / "80.arrays")
    before = everything(tmp_path)
    with pytest.warns(UserWarning, match=r"80\.arrays is skipped"), pytest.raises(ValueError, match="are damaged: 80"):
        train(fleet("dqn"), tmp_path, steps=240, resume=True)
    assert everything(tmp_path) == before


def flipped(path, where=0.5):
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 1
    path.write_bytes(data)


def flipped_index(path):
    flipped(path, 0.99)


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [flipped, flipped_index, truncated])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, expected, damage):
    with pytest.raises(Crash):
        train(fleet("dqn"), tmp_path, steps=240, manner=Manner(checkpoint_seconds=0.0), report=crashing(200))
    latest = Checkpoints(tmp_path / "checkpoints").latest()
    damage(tmp_path / "checkpoints" / f"{latest}.arrays")
    steps = []
    with pytest.warns(UserWarning, match=rf"{latest}\.arrays is skipped"):
        train(fleet("dqn"), tmp_path, steps=240, resume=True, report=lambda progress: steps.append(progress.step))
    assert steps[0] == latest - 40
    assert left(tmp_path) == expected("dqn")


def test_half_a_row_of_wall_clock_is_dropped(tmp_path):
    with pytest.raises(Crash):
        train(fleet("dqn"), tmp_path, steps=240, report=crashing(120))
    with (tmp_path / "timing.jsonl").open("a") as file:
        file.write('{"step": 160, "ti')
    train(fleet("dqn"), tmp_path, steps=240, resume=True)
    again = [40, 80, 120, 160, 200, 240]  # there was no checkpoint: time that was lost was spent all the same
    assert read_log(tmp_path / "timing.jsonl")["step"].tolist() == [40, 80, 120, *again]


def test_every_start_leaves_its_versions_and_device(tmp_path, monkeypatch):
    """What the first start wrote stays, whatever later ones have installed."""
    train(fleet("dqn"), tmp_path, steps=80)
    version = metadata.version
    with monkeypatch.context() as patch:
        patch.setattr(metadata, "version", lambda name: "99.0" if name == "jax" else version(name))
        train(fleet("dqn"), tmp_path, steps=160, resume=True)
    for path in tmp_path.glob("*/config.json"):
        first, second = json.loads(path.read_bytes())["starts"]
        assert (first["step"], first["versions"]["jax"]) == (0, version("jax"))
        assert (second["step"], second["versions"]["jax"]) == (80, "99.0")
        assert first["versions"]["numpy"] == second["versions"]["numpy"] == np.__version__
    assert read_runs(tmp_path)["step"].max() == 160


@pytest.mark.parametrize(
    ("damaged", "text", "message"),
    [
        ("fleet.json", "{", r"fleet\.json is not JSON"),
        ("fleet.json", "[]", r"fleet\.json does not describe a fleet"),
        ("fleet.json", '{"steps": 80, "settings": []}', r"fleet\.json does not describe a fleet: it needs runs"),
        ("fleet.json", '{"steps": 80, "settings": [], "runs": ["a"]}', r"fleet\.json does not describe a fleet"),
        ("fleet.json", '{"steps": 80, "settings": [1], "runs": ["a"]}', r"fleet\.json does not describe a fleet"),
        ("fleet.json", '{"settings": [], "runs": []}', r"fleet\.json does not describe a fleet"),
        ("dqn-mico-seed1/config.json", "{", r"seed1/config\.json is not JSON"),
        ("dqn-mico-seed1/config.json", "{}", r"seed1/config\.json is not the configuration of a run"),
    ],
)
def test_files_that_are_not_ours_are_named_and_left_alone(tmp_path, damaged, text, message):
    runs = fleet("dqn")
    Outputs(tmp_path, dict(zip(run_names(runs), runs)), 80, resume=False)
    (tmp_path / damaged).write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    with pytest.raises(ValueError, match=message):
        train(runs, tmp_path, steps=160, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_folder_that_was_only_begun_can_be_resumed(tmp_path, expected):
    """As a process leaves it that was killed while it wrote the first files."""
    (tmp_path / ".fleet.json.tmp").write_text("{")
    (tmp_path / "lock").write_text("")
    train(fleet("dqn"), tmp_path, steps=240, resume=True)
    assert left(tmp_path) == expected("dqn")


# In processes of their own


KILLED = {
    "dqn": "--env mdp/frozen-lake --agent dqn --metric mico",
    "rainbow": "--env mdp/frozen-lake --agent rainbow --metric mico",
    "qr-dqn": "--env mdp/frozen-lake --agent qr-dqn --metric mico --agent.num-quantiles 8",
    "iqn": "--env mdp/frozen-lake --agent iqn --metric mico --agent.num-target-quantiles 8",
    "m-iqn": "--env mdp/frozen-lake --agent m-iqn --metric mico --agent.num-target-quantiles 8",
    "hosted": "--env gym/CartPole-v1 --agent dqn --metric mico",
    "atari": "--env atari/breakout --env.max-steps 50 --network.encoder mlp --agent dqn --metric mico",
    "hosted-rainbow": "--env gym/CartPole-v1 --agent rainbow --metric mico",
    "pendulum": "--env gym/Pendulum-v1 --agent sac --metric mico",
    "dbc": "--env gym/Pendulum-v1 --agent sac --metric dbc",
}
STEPS = {"dqn": 24_000, "rainbow": 24_000, "qr-dqn": 16_000, "iqn": 8_000, "m-iqn": 8_000}  # 2,400 outside JAX
KILLS = 10  # of each kind: a hundred in all


def command(name, out, *more):
    flags = ACTOR_FLAGS if name in ("pendulum", "dbc") else FLAGS
    return [
        "train",
        *KILLED[name].split(),
        *flags,
        "--seeds",
        0,
        1,
        "--steps",
        STEPS.get(name, 2_400),
        "--out",
        out,
        *more,
    ]


def undisturbed(name, out, **how):
    """What a process leaves that nobody disturbs."""
    assert ended(mico(*command(name, out), **how))[::2] == (0, "")
    return left(out)


def killed(name, out, when, **how):
    """Start or go on, and kill −9; whether that came before the end."""
    process = mico(*command(name, out, "--resume", "--checkpoint-seconds", 0.3), **how)
    when()
    process.kill()
    code, _, errors = ended(process)
    assert (code in (0, -signal.SIGKILL), errors) == (True, "")
    return code != 0


def after(pattern, out, delay):
    """Wait until there is another file than before, and then a little."""

    def when():
        before = set(out.glob(pattern))
        deadline = time.monotonic() + 240
        while set(out.glob(pattern)) <= before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)

    return when


def test_processes_stopped_at_any_moment_end_as_one_that_was_not(tmp_path):
    """Killed while it imports and compiles, before its first checkpoint and after one; then interrupted."""
    out = tmp_path / "stopped"
    cli.main([*map(str, command("dqn", tmp_path / "whole"))])
    moments = [lambda: time.sleep(1), after("fleet.json", out, 0.1), after("checkpoints/[0-9]*", out, 0.05)]
    assert [killed("dqn", out, when) for when in moments] == [True, True, True]
    process = mico(*command("dqn", out, "--resume", "--checkpoint-seconds", 0.3))
    after("checkpoints/[0-9]*", out, 0.0)()
    process.send_signal(signal.SIGINT)
    code, printed, errors = ended(process)
    assert code == 130
    assert "Resuming at step" in printed
    (step,) = re.fullmatch(r"mico: stopped at step (\d+) of 24000, which is saved: .*\n", errors).groups()
    assert (out / "checkpoints" / f"{step}.arrays").is_file()
    code, printed, errors = ended(mico(*command("dqn", out, "--resume")))
    assert (code, errors) == (0, "")
    assert f"Resuming at step {int(step):,}." in printed
    assert left(out) == left(tmp_path / "whole")


@pytest.mark.parametrize("name", ["rainbow", "hosted", "atari", "pendulum"])
def test_a_process_killed_once_ends_as_one_that_was_not(tmp_path, name):
    """As soon as its second checkpoint is there; prioritised replay, and episodes outside JAX, of all kinds."""
    out, less = tmp_path / "killed", ("--steps", 800)
    cli.main([*map(str, (*command(name, tmp_path / "whole"), *less))])
    process = mico(*command(name, out, *less, "--checkpoint-seconds", 0))
    after("checkpoints/[0-9]*", out, 0.0)()
    after("checkpoints/[0-9]*", out, 0.02)()
    process.kill()
    assert ended(process)[::2] == (-signal.SIGKILL, "")
    code, printed, errors = ended(mico(*command(name, out, *less, "--resume")))
    assert (code, errors) == (0, "")
    assert re.search(r"Resuming at step [1-9]\S*\.", printed)
    assert left(out) == left(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_hundred_kills(tmp_path, name):
    """At random times; where one comes too late, that training is over, and another is begun."""
    how, rng = {"quick": False}, random.Random(name)
    undisturbed(name, tmp_path / "cold", **how)
    start = time.monotonic()
    whole = undisturbed(name, tmp_path / "warm", **how)
    seconds = time.monotonic() - start
    assert whole == left(tmp_path / "cold")
    out, kills = tmp_path / "0", 0
    while kills < KILLS:
        if killed(name, out, partial(time.sleep, rng.uniform(0.2, seconds)), **how):
            kills += 1
        else:
            assert left(out) == whole, f"after {kills} kills"
            out = tmp_path / str(kills)
    assert ended(mico(*command(name, out, "--resume"), **how))[::2] == (0, "")
    assert left(out) == whole
