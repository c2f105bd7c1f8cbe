"""`mico list`: names that can be typed, with and without the packages that train."""

import subprocess
import sys

import pytest

from mico import cli
from mico._checks import install_hint
from mico.deep.agents import AGENTS
from mico.deep.envs import ENVS
from mico.deep.metric_losses import METRIC_LOSSES
from mico.tabular import METRICS, PROBLEMS

KINDS = {"problems": PROBLEMS, "metrics": METRICS, "agents": AGENTS, "losses": METRIC_LOSSES}


def test_it_is_short_and_says_how_to_see_more(capsys):
    cli.main(["list"])
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) < 20
    for kind, registry in KINDS.items():
        assert f"mico list {kind}" in shown
        assert f" {len(registry)} " in shown
    assert "mico list envs" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_one_kind_each_with_a_line(capsys, kind):
    cli.main(["list", kind])
    lines = capsys.readouterr().out.splitlines()
    for name in KINDS[kind]:
        assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in lines), name


def test_environments_are_names_that_can_be_typed(capsys):
    cli.main(["list", "envs"])
    words = capsys.readouterr().out.split()
    assert {"minatar/breakout", "mdp/four-rooms", "gym/CartPole-v1", "atari/pong", "control/walker-walk"} <= {*words}
    assert all(f"{family}:" in words for family in ENVS)


def test_another_kind_is_refused_in_a_line(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["list", "games"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "mico: kind must be one of problems, metrics, agents, losses, envs, got 'games'\n"
    )


WITHOUT_JAX = """
import importlib.util, sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *args):
        is_deep = name.partition(".")[0] in {"jax", "jaxlib", "equinox", "optax", "gymnax"}
        return None if is_deep else self.finder.find_spec(name, *args)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path = [Without(finder) for finder in sys.meta_path]
from mico.cli import main
main(sys.argv[1:])
"""


def without_jax(*argv):
    return subprocess.run([sys.executable, "-c", WITHOUT_JAX, *argv], capture_output=True, text=True, timeout=300)


def test_the_exact_side_is_listed_without_jax():
    whole = without_jax("list")
    assert whole.returncode == 0
    assert "mico list problems" in whole.stdout
    assert "mico list agents" not in whole.stdout
    assert "pip install '.[deep]'" in whole.stdout
    assert "four-rooms" in without_jax("list", "problems").stdout
    refused = without_jax("list", "agents")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"mico: agents need: {install_hint('deep')}\n"
