"""The plug-in needs neither JAX nor, for the losses alone, Stable-Baselines3; what is missing is named."""

import subprocess
import sys

JAX = ("jax", "jaxlib", "equinox", "optax", "gymnax", "zstandard")
AGENTS = ("stable_baselines3", "sb3_contrib", "gymnasium", "tensorboard")

LOSSES = """
import torch
from mico.representations import distances
from mico.torch import METRIC_LOSSES, PairBatch

for loss in METRIC_LOSSES.values():
    phi = torch.eye(3, requires_grad=True)
    value = loss()(PairBatch(phi, phi.detach(), phi.detach(), torch.arange(3.0), 0.9))
    value.backward()
    assert phi.grad.abs().max() > 0
    assert distances(None, loss(), phi).shape == distances(None, loss(), phi.detach().numpy()).shape == (3, 3)
"""
TRAINING = """
from mico.torch.sb3 import MICoDQN

model = MICoDQN("MlpPolicy", "CartPole-v1", learning_starts=20, seed=0).learn(40)
assert model.logger.name_to_value["metric/loss"] > 0
"""


HIDDEN = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name in {names!r} else find_spec(name, *where)
"""


def run_without(packages, code):
    """Run code in a process where these packages cannot be imported, as where they are not installed."""
    code = HIDDEN.format(names=packages) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_the_losses_need_pytorch_alone():
    done = run_without(JAX + AGENTS, LOSSES)
    assert done.returncode == 0, done.stderr


def test_the_agents_need_no_jax():
    done = run_without(JAX, TRAINING)
    assert done.returncode == 0, done.stderr


def test_without_the_agents_packages_it_says_what_to_install():
    done = run_without(("sb3_contrib",), "import mico.torch.sb3")
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: mico.torch.sb3 needs stable-baselines3 and sb3-contrib: "
        "pip install '.[torch]' in a clone of mico-rl"
    )
