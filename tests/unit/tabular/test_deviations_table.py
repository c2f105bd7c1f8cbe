"""Every row of the table of deviations on exact metrics: what it says holds, and its options are the defaults."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from mico.experiments import value_gap
from mico.experiments.state_features import Config as FeatureConfig
from mico.experiments.state_features import run as run_features
from mico.tabular import Chain, garnet, make, solve

PAGE = Path(__file__).parents[3] / "docs" / "deviations.md"
TABLE = PAGE.read_text(encoding="utf-8").split("## Exact metrics\n")[1].split("\n## ")[0]
ROWS = [re.split(r"(?<!\\)\|", line)[1].strip() for line in TABLE.splitlines()[2:] if line.startswith("|")]


def default(function, name):
    return inspect.signature(function).parameters[name].default


def discounted():
    loops = Chain(np.eye(2), [0.0, 1.0], 0.5)
    np.testing.assert_allclose(solve("mico", loops).matrix[0, 1], 1 / (1 - 0.5), rtol=1e-7)


def random_chain_of_constant_rewards():
    rows = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    assert np.abs(solve("mico", Chain(rows, np.full(5, 3.0), 0.9)).matrix).max() < 1e-7


def printed_policy():
    k, discount = 5.0, 0.9
    for policy, gap in ((None, k - 1), ("printed", k - 1), ("mirrored", k)):
        problem = make("bound-example", k=k, discount=discount, **({} if policy is None else {"policy": policy}))
        reward = (problem.policy * problem.mdp.reward).sum(axis=1)
        value = np.linalg.solve(np.eye(2) - discount * np.eye(2), reward)
        np.testing.assert_allclose(abs(value[0] - value[1]), gap / (1 - discount))
        assert gap / (1 - discount) > 1 / (1 - discount)  # the bisimulation distance


def branching():
    assert default(garnet, "branching") == "printed"
    for rule, most in (("printed", 3), ("n-1", 2)):
        reached = {
            (np.asarray(garnet(3, 1, seed=seed, branching=rule).mdp.kernels[0]) > 0).sum(axis=1).max()
            for seed in range(40)
        }
        assert max(reached) == most


def mean_rewards():
    assert default(solve, "reward") == "mean"
    coin = make("random-reward", discount=0.5)
    assert solve("mico", coin).matrix.max() == 0
    np.testing.assert_allclose(solve("mico", coin, reward="sampled").matrix.max(), 0.5 / (1 - 0.5), rtol=1e-7)


def both_errors():
    config = FeatureConfig(grids=("mirrored-rooms",), features=("random",), runs=1)
    frame = run_features(config)
    assert {"squared", "absolute"} <= {*frame.columns}


def policies():
    config = value_gap.Config()
    assert (config.mdps, config.policies) == (100, 4)
    assert value_gap.Config(mdps=1, policies=100).policies == 100


def few_products():
    ring = Chain(np.roll(np.eye(50), 1, axis=1), np.arange(50.0), 0.99)
    assert solve("mico", ring, tolerance=1e-6).iterations <= 12


CHECKS = {
    "U = ": discounted,
    '"zero self-distance': random_chain_of_constant_rewards,
    "the example after": printed_policy,
    "Garnet branching": branching,
    "sampled": mean_rewards,
    '"average error"': both_errors,
    "100 policies": policies,
    "cost O(n": few_products,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:40])
def test_a_row_is_true(row):
    (check,) = [check for start, check in CHECKS.items() if row.startswith(start)]
    check()


def test_every_check_has_its_row():
    assert len(ROWS) == len(CHECKS)
