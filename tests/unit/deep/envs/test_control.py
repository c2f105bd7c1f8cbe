"""The control suite by name, with its fields, in episodes that can be played again."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mico.control_suite import graphics
from mico.control_suite.catalogue import catalogue
from mico.deep.envs import Episodes, environment
from mico.deep.envs.host.control import Control
from mico.deep.envs.host.episodes import episode_seed
from mico.deep.types import Spec
from mico.sweeps.named import SWEEPS
from plain_control import Naive, plain_suite

RUNS = np.array([0, 1])


def test_every_task_has_a_name():
    assert list(catalogue().tasks.values()) == list(plain_suite().ALL_TASKS)
    assert Control("humanoid_CMU-run").name == "control/humanoid_CMU-run"
    paper = SWEEPS["control-12"].sweep.env
    assert len({environment(name).name for name in paper} & set(paper)) == 12


@pytest.mark.parametrize(
    ("name", "fields", "spec"),
    [
        ("cheetah-run", {}, Spec((84, 84, 3), "uint8", 0, 6)),
        ("cartpole-balance_sparse", {"size": 64}, Spec((64, 64, 3), "uint8", 0, 1)),
        ("point_mass-easy", {"observation": "state"}, Spec((4,), "float32", 0, 2)),
        ("stacker-stack_4", {"observation": "state"}, Spec((63,), "float32", 0, 5)),
        ("lqr-lqr_6_2", {"observation": "state"}, Spec((12,), "float32", 0, 2)),
    ],
)
def test_frames_and_actions_are_announced(name, fields, spec):
    assert environment(f"control/{name}", **fields).spec == spec


def test_settings_make_it_again():
    fields = {"observation": "state", "action_repeat": 2, "size": 40, "camera": 1, "max_steps": 9}
    env = Control("walker-run", **fields)
    assert env.settings() == fields
    assert environment(env.name, **env.settings()) == env


def test_episodes_are_those_of_plain_environments(opengl):
    """With seeds that follow from the run's and the episode's number, cut off by time-outs."""
    env = environment("control/cartpole-swingup", max_steps=2)
    episodes = Episodes(env.make(2), RUNS)
    naive = [Naive("cartpole", "swingup", episode_seed(run, 0)) for run in RUNS.tolist()]
    np.testing.assert_array_equal(episodes.start(), [one.pixels() for one in naive])
    for time, now in enumerate(_actions(3, 1)):
        outcome = episodes.step(now)
        np.testing.assert_array_equal(outcome.reward, np.float32([one.step(a) for one, a in zip(naive, now)]))
        np.testing.assert_array_equal(outcome.next_frame, [one.pixels() for one in naive])
        assert outcome.truncated.tolist() == [time == 1] * 2
        assert not outcome.terminal.any()
        if time == 1:
            naive = [Naive("cartpole", "swingup", episode_seed(run, 1)) for run in RUNS.tolist()]
        np.testing.assert_array_equal(outcome.reset_frame, [one.pixels() for one in naive])
    episodes.close()


def test_episodes_of_a_snapshot_go_on_where_they_were():
    env = environment("control/hopper-hop", observation="state", max_steps=5)
    actions = _actions(12, 4)
    whole = Episodes(env.make(2), RUNS)
    whole.start()
    for now in actions[:7]:
        last = whole.step(now)
    other = Episodes(env.make(2), RUNS)
    np.testing.assert_array_equal(other.restore(whole.snapshot()), last.reset_frame)
    for now in actions[7:]:
        for found, exact in zip(other.step(now), whole.step(now)):
            np.testing.assert_array_equal(found, exact, strict=True)


def test_an_action_lasts_as_many_steps_as_said():
    two, four = (
        environment("control/cheetah-run", observation="state", action_repeat=repeat).make(1) for repeat in (2, 4)
    )
    for envs in (two, four):
        envs.reset(np.ones(1, bool), np.zeros(1, int))
    push = np.ones((1, 6), np.float32)
    first, then, both = two.step(push), two.step(push), four.step(push)
    np.testing.assert_array_equal(then.next_frame, both.next_frame)
    assert first.reward + then.reward == pytest.approx(both.reward)


def test_states_need_no_opengl(monkeypatch, tmp_path, capfd):
    """Even where a task would upload its ground; and nothing is said on the way."""
    for name in ("glfw", "OpenGL"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('hidden')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    graphics._first_working.cache_clear()
    catalogue.cache_clear()
    for task, shape in (("quadruped-escape", (1, 101)), ("cheetah-run", (1, 17))):
        envs = environment(f"control/{task}", observation="state").make(1)
        envs.reset(np.ones(1, bool), RUNS[:1])
        step = envs.step(np.zeros((1, envs.spec.action_size), np.float32))
        assert (step.next_frame.shape, step.next_frame.dtype) == (shape, np.float32)
        envs.close()
    with pytest.raises(OSError, match="libegl1"):
        environment("control/cheetah-run").make(1)
    assert capfd.readouterr() == ("", "")
    graphics._first_working.cache_clear()


def test_if_what_tells_sizes_is_killed_the_next_question_goes_to_another():
    catalogue.cache_clear()
    dead = catalogue()
    dead._process.kill()
    with pytest.raises(ChildProcessError, match="dm_control cannot be used: what asks it was killed by signal 9"):
        dead.sizes("acrobot-swingup")
    assert catalogue().sizes("acrobot-swingup").action == 1


def test_what_tells_sizes_is_gone_when_its_program_is():
    """Waited for, so that no zombie is left to whoever adopts it."""
    program = "from mico.control_suite.catalogue import catalogue; print(catalogue()._process.pid)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not Path(f"/proc/{int(told.stdout)}").exists()


def test_a_missing_package_is_named(monkeypatch):
    catalogue.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[control\]'"):
        Control("cheetah-run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "cheeta-run"}, r"task 'cheeta-run' is not in the suite: did you mean cheetah-run"),
        ({"task": "cheetah-run", "action_repeat": 0}, r"action_repeat must .* but is 0"),
        ({"task": "cheetah-run", "size": 0}, r"size must .* but is 0"),
        ({"task": "cheetah-run", "size": 500}, r"size must lie in \[1, 480\], but is 500"),
        ({"task": "cheetah-run", "camera": -1}, r"camera must .* but is -1"),
        ({"task": "cheetah-run", "camera": 2}, r"camera must lie in \[0, 1\], but is 2"),
        ({"task": "cheetah-run", "max_steps": 0}, r"max_steps must .* but is 0"),
        ({"task": "cheetah-run", "observation": "sound"}, r"observation must be one of pixels, state, but is 'sound'"),
    ],
)
def test_bad_settings_are_named(unchecked, settings, message):
    with pytest.raises(ValueError, match=message):
        Control(**settings)


def _actions(number, size):
    return np.random.default_rng(0).uniform(-1, 1, size=(number, 2, size)).astype(np.float32)
