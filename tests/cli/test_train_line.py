"""The command that trains runs again: parsed, it gives the same runs."""

import json
import shlex

import pytest

from mico.cli.train_line import train_line
from mico.cli.train_options import parse
from mico.deep.config.run import describe
from mico.tabular import make, save

LINES = [
    "--env minatar/breakout --metric mico --metric.alpha 0 0.01 --seeds 0 3",
    "--env minatar/asterix --agent rainbow --metric ksme --agent.reward-clip 1 --env.max-steps original",
    "--env mdp/garnet --env.seed 3 --agent iqn --metric simsr --schedule.epsilon 0 1e-5 --metric.alpha 0.1 0.2",
    "--env gym/CartPole-v1 --agent m-iqn --env.max-steps 50 --preset table",
    "--env mdp/frozen-lake --agent qr-dqn --env.start 3 --seeds 7 --metric mico --metric.terminals absorbing",
    "--env mdp/frozen-lake --env.no-slippery --metric mico --metric.beta 0.1 1 --seeds 0 1",
]


def described(argv):
    """Runs as config.json holds them."""
    runs = parse([*argv, "--steps", "4000", "--out", "x y"]).runs
    return json.loads(json.dumps([describe(run) for run in runs]))


@pytest.mark.parametrize("line", LINES)
def test_a_fleet_and_each_of_its_runs_are_made_again(line):
    runs = described(line.split())
    for some in (runs, *([run] for run in runs)):
        words = shlex.split(train_line(some, steps=4000, out="x y"))
        assert words[:2] == ["mico", "train"]
        options, steps, again = parse(words[2:])
        assert json.loads(json.dumps([describe(run) for run in again])) == some
        assert (steps, str(options.out)) == (4000, "x y")


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_a_file_is_named_with_its_path(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    save(f"it is.{ending}", make("five-state"))
    runs = described(["--env", f"mdp/./it is.{ending}", "--metric", "mico", "--env.max-steps", "7"])
    words = shlex.split(train_line(runs, steps=4000, out="x"))
    assert words[words.index("--env") + 1] == f"mdp/{tmp_path}/it is.{ending}"
    monkeypatch.chdir("/")
    assert described(words[2:-4]) == runs


def test_the_digest_of_a_map_is_no_flag(tmp_path):
    (tmp_path / "map.txt").write_text("..G")
    runs = described(["--env", "mdp/map", "--env.path", str(tmp_path / "map.txt")])
    assert described(shlex.split(train_line(runs, steps=4000, out="x"))[2:-4]) == runs


def test_what_one_command_cannot_make_has_none():
    runs = described(["--metric", "mico", "--metric.alpha", "0", "0.1", "--metric.beta", "0.1", "1"])
    assert train_line(runs[:3], steps=4000, out="x") is None
    assert train_line(runs + described([]), steps=4000, out="x") is None
    assert train_line(runs + described(["--metric", "ksme"]), steps=4000, out="x") is None
    assert train_line([], steps=4000, out="x") is None
    games = described(["--env", "minatar/asterix"]) + described(["--env", "minatar/breakout"])
    assert train_line(games, steps=4000, out="x") is None
