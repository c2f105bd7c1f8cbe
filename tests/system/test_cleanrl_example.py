"""The one-file agent runs, and its marked lines are all that MICo adds."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

torch.set_num_threads(1)
PATH = Path(__file__).parents[2] / "examples" / "cleanrl_dqn_mico.py"
SOURCE = PATH.read_text()
MARK = re.compile(r".*# MICo\n")
SMALL = {"seed": 1, "total_timesteps": 300, "learning_starts": 100, "batch_size": 16, "target_network_frequency": 50}


def loaded(source):
    module = ModuleType("cleanrl_example")
    module.__file__ = str(PATH)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(source, str(PATH), "exec"), module.__dict__)
    return module


def trained(source, folder, **options):
    module = loaded(source)
    return module.main(module.Args(log_dir=str(folder), **SMALL, **options)).state_dict()


def test_without_the_marked_lines_it_is_plain_dqn(tmp_path):
    """Which is the same, parameter for parameter, as a weight of 0."""
    plain_source = MARK.sub("", SOURCE)
    assert len(MARK.findall(SOURCE)) > 10
    assert "mico" not in plain_source.split('"""', 2)[2].lower()
    plain, alone = trained(plain_source, tmp_path), trained(SOURCE, tmp_path, alpha=0.0)
    added, other_angle = (trained(SOURCE, tmp_path, alpha=0.3, beta=beta) for beta in (0.1, 5.0))
    assert all(torch.equal(plain[key], alone[key]) for key in plain)
    for one, two in ((added, plain), (added, other_angle)):
        assert any(not torch.equal(one[key], two[key]) for key in plain)


def test_from_the_command_line(tmp_path):
    flags = ["--seed=2", "--total-timesteps=1100", "--learning-starts=1000", "--batch-size=8", f"--log-dir={tmp_path}"]
    command = [sys.executable, str(PATH), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("CartPole-v1__cleanrl_dqn_mico__2__")
    log = EventAccumulator(str(folder)).Reload()
    names = {"charts/episodic_return", "charts/SPS", "losses/td_loss", "losses/mico_loss", "mico/norm"}
    assert set(log.Tags()["scalars"]) == names
    printed = re.findall(r"^global_step=(\d+), episodic_return=([\d.]+)$", done.stdout, re.MULTILINE)
    returns = [(event.step, event.value) for event in log.Scalars("charts/episodic_return")]
    assert [(int(step), float(found)) for step, found in printed] == returns
    assert len(re.findall(r"^SPS: \d+$", done.stdout, re.MULTILINE)) == 1


def test_states_that_are_numbers_are_one_hot_vectors(tmp_path):
    weights = trained(SOURCE, tmp_path, env_id="FrozenLake-v1")
    assert weights["encoder.1.weight"].shape == (120, 16)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--train-frequency=0", "--train-frequency must be at least 1, got 0"),
        ("--exploration-fraction=-1", r"--exploration-fraction must be in \[0, 1\], got -1"),
        ("--learning-rate=0", "--learning-rate must be above 0"),
        ("--alpha=2", r"alpha must be finite and lie in \[0, 1\], got 2"),
        ("--env-id=CartPol-v1", "--env-id must be an environment that Gymnasium can make, got CartPol-v1"),
        ("--env-id=Pendulum-v1", "--env-id must have discrete actions, got Pendulum-v1"),
    ],
)
def test_a_mistake_is_one_line(flag, message, tmp_path, monkeypatch, capsys):
    """As the command, in this process: an exit with 2, one line, and no folder."""
    monkeypatch.setattr(sys, "argv", [PATH.name, "--seed=0", f"--log-dir={tmp_path / 'runs'}", flag])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(PATH), run_name="__main__")
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(f"error: {message}", line)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("fraction", "expected"), [(0.5, [1.0, 0.525, 0.05, 0.05]), (0.0, [0.05] * 4)])
def test_how_exploration_falls(fraction, expected):
    module = loaded(SOURCE)
    args = module.Args(seed=1, total_timesteps=100, exploration_fraction=fraction)
    assert [module.epsilon(args, step) for step in (0, 25, 50, 99)] == pytest.approx(expected)


@pytest.mark.slow
def test_it_learns_cartpole(tmp_path):
    module = loaded(SOURCE)
    module.main(module.Args(seed=1, log_dir=str(tmp_path), total_timesteps=50_000))
    (folder,) = tmp_path.iterdir()
    returns = [event.value for event in EventAccumulator(str(folder)).Reload().Scalars("charts/episodic_return")]
    assert sum(returns[-20:]) / 20 > 150  # about 20 by chance
