"""Checkpoints without the replay: what is drawn afterwards is true, and learning waits until there is enough."""

import shutil
import warnings
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mico.deep.fleet.jax_engine import JaxEngine, stack
from mico.deep.replay.nstep import gather_batch
from mico.deep.replay.replay import Replay
from mico.deep.replay.stub import empty_replay_from, strip_replay
from mico.deep.training.array_store import open_arrays
from mico.deep.training.checkpoints import Checkpoints
from mico.deep.training.train import Manner, train
from mico.runs.log import read_log
from small_runs import SCHEDULE, small_agent, small_run
from trainings import left

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("sampling", ["uniform", "prioritised"])
@pytest.mark.parametrize("following", ["true-frame", "reset-frame"])
def test_what_is_drawn_afterwards_is_what_the_whole_replay_has_there(sampling, following):
    """Stacks of three frames; none may reach back to the frames that are gone."""
    replay = Replay(capacity=60, batch_size=64, stack=3, sampling=sampling, next=following)
    schedule = replace(SCHEDULE, learning_starts=80)
    runs = [small_run(small_agent(horizon=2), replay=replay, schedule=schedule, seed=seed) for seed in (0, 1)]
    fleet = stack(runs)
    engine = JaxEngine(runs, fleet)
    before, _ = engine.play(engine.begin(), 0, 80, False)
    kept = jax.tree.map(jnp.copy, strip_replay(before.memory))
    memory = empty_replay_from(fleet.replay, kept, jnp.int32(80), spec=runs[0].env.spec)
    empty = jax.tree.map(jnp.copy, before)._replace(memory=memory)
    drawn = set()
    for time in range(80, 160, 20):
        before, _ = engine.play(before, time, 20, False)
        empty, _ = engine.play(empty, time, 20, False)
        for index, run in enumerate(runs):
            whole, part = (jax.tree.map(lambda leaf: leaf[index], state.memory) for state in (before, empty))  # noqa: B023
            assert run.replay.can_sample(part, jnp.int32(time + 20), run.window)
            found, ids = run.replay.sample(part, jnp.int32(time + 20), run.window, jax.random.key(time))
            assert ids.min() >= 82
            expected = gather_batch(whole, ids, found.weight, run.window)
            jax.tree.map(np.testing.assert_array_equal, found, expected)
            drawn |= {int(one) for one in ids}
    assert {82, 83} <= drawn  # the very first that can be


def test_the_largest_priority_is_kept():
    runs = [small_run("rainbow", seed=seed) for seed in (0, 1)]
    fleet = stack(runs)
    memory = jax.vmap(lambda run: run.replay.init(runs[0].env.spec))(fleet)
    memory = eqx.tree_at(lambda memory: memory.priorities.largest, memory, jnp.array([3.0, 5.0]))
    found = empty_replay_from(fleet.replay, strip_replay(memory), jnp.int32(80), spec=runs[0].env.spec)
    assert found.priorities.largest.tolist() == [3.0, 5.0]
    assert not found.priorities.sums.any()


LATE = replace(SCHEDULE, learning_starts=80)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, quick_compilation):
    """Two prioritised runs of 160 steps, 80 of them learning, whose checkpoint has no replay."""
    out = tmp_path_factory.mktemp("stopped")
    train(prioritised(), out, steps=160, manner=Manner(checkpoint_replay="empty"))
    return out


def prioritised():
    return [small_run("rainbow", seed=seed, schedule=LATE) for seed in (0, 1)]


def test_the_replay_is_not_in_the_checkpoint(stopped, tmp_path):
    def paths(out):
        with open_arrays(out / "checkpoints" / "160.arrays") as stored:
            return {entry.form.path for entry in stored.entries}

    train(prioritised(), tmp_path, steps=160)
    assert left(tmp_path) == left(stopped)
    gone, more = paths(tmp_path) - paths(stopped), paths(stopped) - paths(tmp_path)
    assert gone
    assert all(".memory." in path for path in gone | more)
    assert not any("frames" in path and "num_frames" not in path for path in paths(stopped))


def test_learning_waits_until_the_replay_is_filled_again(stopped, tmp_path):
    """As many steps as before the first update: from 160 to 240 the runs act and learn nothing."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)

    def parameters(step):
        for path in sorted(tmp_path.glob(f"*/params/{step}.arrays")):
            with open_arrays(path) as stored:
                yield stored.entries  # with their digests

    before = list(parameters(160))
    with pytest.warns(UserWarning, match="nothing is learnt up to step 240: learning begins after step 240"):
        train(prioritised(), tmp_path, steps=240, resume=True)
    assert list(parameters(240)) == before
    assert len(before) == 2
    shutil.rmtree(tmp_path)
    shutil.copytree(stopped, tmp_path)
    train(prioritised(), tmp_path, steps=320, resume=True)
    for path in tmp_path.glob("*/log.jsonl"):
        log = read_log(path).set_index("step")
        assert log.index.tolist() == [40, 80, 120, 160, 200, 240, 280, 320]
        assert log["loss"].notna().tolist() == [False, False, True, True, False, False, True, True]
        assert log["q"].notna().tolist() == [False, True, True, True, False, True, True, True]
        assert log["episodes"].sum() > 0


@pytest.mark.parametrize(
    ("stack", "stop", "learns_from"),
    [
        (1, 120, 160),  # forty steps more, and chunks are of forty
        (3, 120, 200),  # the first two see frames that are gone
        (1, 124, 200),
    ],
)
def test_learning_begins_at_the_end_of_the_chunk_in_which_the_replay_has_enough_steps(
    tmp_path, stack, stop, learns_from
):
    runs = [small_run(replay=Replay(capacity=200, batch_size=8, stack=stack), seed=0)]
    train(runs, tmp_path, steps=stop, manner=Manner(checkpoint_replay="empty"))
    warned = f"nothing is learnt up to step {learns_from}: learning begins after step {learns_from}$"
    with pytest.warns(UserWarning, match=warned):
        train(runs, tmp_path, steps=learns_from, resume=True)


def test_what_is_filled_again_can_be_saved_whole(stopped, tmp_path):
    """A stop while the replay is being filled changes nothing if that checkpoint is whole."""
    for name, stops in (("at-once", [320]), ("stopped", [200, 320])):
        shutil.copytree(stopped, tmp_path / name)
        for steps in stops:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if steps == 200 else "error")  # 200 is too soon to learn
                train(prioritised(), tmp_path / name, steps=steps, resume=True)
    assert left(tmp_path / "stopped") == left(tmp_path / "at-once")
    assert Checkpoints(tmp_path / "stopped" / "checkpoints").latest() == 320


def test_only_these_two(tmp_path, unchecked):
    with pytest.raises(ValueError, match="checkpoint_replay must be whole or empty, but is 'half'"):
        train(prioritised(), tmp_path / "out", steps=160, manner=Manner(checkpoint_replay="half"))
    assert not (tmp_path / "out").exists()
