"""The experiment on tiny worlds: against distances by brute force, its controls, its table and what it refuses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from mico.experiments import fidelity
from mico.experiments.fidelity import ARMS, QUICK, Config
from mico.experiments.fidelity_arms import losses, shuffled
from mico.experiments.fidelity_worlds import world
from mico.tabular import solve

pytestmark = pytest.mark.usefixtures("quick_compilation")

TINY = replace(QUICK, grids=(), breakouts=(), garnets=(14,), steps=100, queries=14, pairs=10_000)


@pytest.fixture(scope="module")
def frame(quick_compilation):
    return fidelity.run(TINY)


def test_a_line_for_each_loss_arm_seed_and_target(frame):
    assert len(frame) == 2 * 4 * 2 * 2 + 2
    assert not frame.duplicated(["problem", "size", "loss", "arm", "seed", "target"]).any()
    assert set(frame["arm"]) == set(ARMS)
    assert (frame["states"] == 14).all()


@pytest.mark.parametrize(("target", "metric"), [("U", "mico"), ("ΠU", "reduced-mico")])
def test_observations_are_held_against_the_exact_distance(frame, target, metric):
    """All pairs of all states, each way round, by the dense solver."""
    mdp, observations = world("garnet", 14, discount=TINY.discount, seed=TINY.seed)
    exact, seen = solve(metric, mdp, "uniform").matrix, cdist(observations, observations)
    pairs = ~np.eye(14, dtype=bool)
    line = frame[(frame["arm"] == "observation") & (frame["target"] == target)].iloc[0]
    assert line["rank"] == pytest.approx(stats.spearmanr(seen[pairs], exact[pairs]).statistic, abs=1e-6)
    kept = 0
    for x in range(14):
        others = [y for y in range(14) if y != x]
        near = sorted(others, key=lambda y: seen[x, y])[:10]
        kept += len(set(near) & set(sorted(others, key=lambda y: exact[x, y])[:10]))
    assert line["kept"] == pytest.approx(kept / 140)
    assert np.isnan(line["error"])


def test_arms_and_seeds_are_different_networks(frame):
    learnt = frame[frame["loss"] != "none"]
    assert learnt.groupby(["loss", "target"])["error"].nunique().eq(8).all()


def test_sham_keeps_the_rewards_and_moves_them():
    reward = np.repeat([0.0, 0.5, 1.0], [5, 20, 3])
    sham = shuffled(reward, 4, seed=0)
    assert sham.shape == (4, 28)
    for one in sham:
        np.testing.assert_array_equal(np.sort(one), reward)
        assert not np.array_equal(one, reward)
    assert len(np.unique(sham, axis=0)) == 4
    assert not np.array_equal(sham, shuffled(reward, 4, seed=1))


def test_losses_are_the_released_one_and_one_with_room_for_the_largest_distance():
    released, exact = losses(0.8).values()
    assert (released.error, released.self_pairs, released.second, released.beta) == ("huber", "include", "target", 0.1)
    assert (exact.error, exact.self_pairs, exact.second) == ("squared", "exclude", "frozen")
    assert exact.beta * np.pi / 2 == pytest.approx(1 / (1 - 0.8))


def test_longer_training_goes_nearer():
    longer = fidelity.run(replace(TINY, discount=0.5, steps=2_000, target_period=50, batch=32, width=32))
    end = longer[longer["loss"] == "fixed-point"].groupby(["arm", "target"])[["rank", "error"]].mean()
    assert end.loc[("learnt", "U"), "rank"] > 0.6 > end.loc[("sham", "U"), "rank"]
    for arm in ("learnt", "fitted"):
        assert end.loc[(arm, "U"), "error"] < end.loc[("untrained", "U"), "error"] / 2


def made(learnt):
    """A frame of one world by hand: the learnt ranks of three seeds, and plain numbers for the rest."""
    common = {"problem": "grid", "size": 6, "states": 36, "target": "U"}
    numbers = {"fitted": 0.9, "sham": 0.1, "untrained": 0.2}
    lines = [
        common
        | {"loss": "released", "arm": "learnt", "seed": seed, "rank": rank, "kept": 0.5, "error": 0.3, "own": 0.7}
        for seed, rank in enumerate(learnt)
    ]
    for arm, rank in numbers.items():
        extra = {"seed": 0, "rank": rank, "kept": rank / 2, "error": rank / 4, "own": 1.0}
        lines.append(common | {"loss": "released", "arm": arm} | extra)
    seen = {"loss": "none", "arm": "observation", "seed": 0, "rank": 0.4, "kept": 0.3, "error": np.nan, "own": np.nan}
    return pd.DataFrame([*lines, common | seen])


def test_the_table_has_means_and_the_interval_of_the_learnt():
    (line,) = fidelity.table(made([0.6, 0.7, 0.8])).to_dict("records")
    half = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    expected = {"rank": 0.7, "±": half, "fitted": 0.9, "sham": 0.1, "untrained": 0.2, "observation": 0.4}
    expected |= {
        "kept": 0.5,
        "kept, fitted": 0.45,
        "kept, sham": 0.05,
        "kept, observation": 0.3,
        "error": 0.3,
        "error, fitted": 0.225,
        "own": 0.7,
    }
    assert {name: line[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grids": (), "garnets": (), "breakouts": ()}, "grids, garnets or breakouts must have sizes"),
        ({"grids": (10, 5)}, r"grids must be at least 6, but is \(10, 5\)"),
        ({"garnets": (11,)}, r"garnets must be at least 12"),
        ({"breakouts": (2,)}, r"breakouts must be at least 3"),
        ({"seeds": 0}, "seeds must be at least 1, but is 0"),
        ({"batch": 1}, "batch must be at least 2, but is 1"),
        ({"candidates": 10}, "candidates must be more than neighbours, 10, but is 10"),
        ({"neighbours": 100}, "neighbours must be fewer than the states of a grid of size 10, but is 100"),
        ({"neighbours": 14, "grids": (6,), "garnets": (14,)}, "states of a garnet of size 14, but is 14"),
        ({"neighbours": 220, "grids": (), "garnets": ()}, "states of a breakout of size 3, but is 220"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, but is 0.0"),
        ({"discount": 1.0}, "discount .* 1.0"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        Config(**fields)


def test_every_other_state_of_the_smallest_worlds_can_be_a_neighbour():
    """Breakout on 3 columns has 220 states, which the world lists."""
    assert world("breakout", 3, discount=0.9, seed=0).mdp.num_states == 220
    Config(grids=(15,), garnets=(220,), breakouts=(3,), neighbours=219)
