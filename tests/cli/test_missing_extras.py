"""Commands without the packages of an extra: one line that says what to install, and nothing on disk."""

import sys

import pytest

from mico import cli
from mico.control_suite.catalogue import catalogue


class Without:
    """A finder of modules that does not find some packages."""

    def __init__(self, finder, names):
        self._finder, self._names = finder, names

    def find_spec(self, name, *args):
        return None if name.partition(".")[0] in self._names else self._finder.find_spec(name, *args)

    def __getattr__(self, name):
        return getattr(self._finder, name)


@pytest.fixture
def blocked(monkeypatch, tmp_path):
    """Blocks packages as if they were not installed."""
    monkeypatch.chdir(tmp_path)

    def block(*names):
        monkeypatch.setattr(sys, "meta_path", [Without(finder, names) for finder in sys.meta_path])
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, name)
        catalogue.cache_clear()

    yield block
    catalogue.cache_clear()


@pytest.mark.parametrize(
    ("package", "argv", "line"),
    [
        ("ale_py", "train --env atari/pong --steps 4000 --out x", "pip install '.[atari]'"),
        (
            "dm_control",
            "train --env control/walker-walk --agent sac --steps 400 --out x",
            "'.[control]'",
        ),
        ("tensorboardX", "train --env mdp/two-state --steps 40 --tensorboard --out x", "'.[tensorboard]'"),
        ("tensorboardX", "sweep --env mdp/two-state --steps 40 --tensorboard --out x", "'.[tensorboard]'"),
        (
            "umap",
            "experiment state-features --quick --out x",
            "'.[features]' in a clone of mico-rl, or leave",
        ),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_left(blocked, tmp_path, capsys, package, argv, line):
    blocked(package)
    with pytest.raises(SystemExit) as stop:
        cli.main(argv.split())
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert line in printed.err
    assert printed.err.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_features_without_umap_need_no_umap(blocked, tmp_path, capsys):
    blocked("umap")
    with pytest.raises(SystemExit):
        cli.main(["experiment", "state-features", "--features", "umap-reduced-mico", "random", "--out", "x"])
    assert "--features proto-value-functions random" in capsys.readouterr().err.replace("mico-embedding ", "")
