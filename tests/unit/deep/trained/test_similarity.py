"""Nearest neighbours by the learnt distance, against loops over the run's own distances."""

from dataclasses import replace

import numpy as np
import pytest

from mico.deep import Trained
from mico.deep.learner.state import init_params
from mico.deep.metric_losses import DBC, AbstractPairLoss, DBCDet, DBCMICo, KSMe, MICo, SimSR
from mico.deep.trained.rollout import play, unique_observations
from mico.deep.trained.similarity import distance_name, distances, neighbours
from small_runs import small_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

METRICS = {
    "mico": MICo(beta=0.7),
    "ksme": KSMe(),
    "simsr": SimSR(),
    "none": None,
    "dbc": DBC(hidden=4),
    "dbc-original": DBC("original", hidden=4),
    "dbc-det": DBCDet(hidden=4),
    "dbc-mico": DBCMICo(hidden=4, beta=0.7),
}


class Other(AbstractPairLoss):
    """A loss that none of these names is for."""

    def pairwise(self, x, y):
        return x @ y.T


def with_metric(name):
    run = replace(small_run(seed=1), metric=Other() if name == "other" else METRICS[name])
    return Trained(run, 0, init_params(run, run.env.spec))


def episodes(run):
    """What is seen, and other states that are stored: some of them the same."""
    seen = play(run, steps=8, episodes=None, seed=0, epsilon=1.0)
    return seen, unique_observations(play(run, steps=40, episodes=None, seed=1, epsilon=1.0))


def naive(run, x, y, distance):
    """Of one pair, through the run's own distance."""
    own = run.distance(x, x), run.distance(y, y)
    across = run.distance(x, y)
    return across if distance == "learnt" else abs(across - sum(own) / 2)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("distance", ["reduced", "learnt"])
def test_neighbours_are_those_of_a_plain_loop(name, distance):
    run = with_metric(name)
    seen, stored = episodes(run)
    found = neighbours(run, seen, stored, count=3, distance=distance)
    same = 0
    for step, x in enumerate(seen.observation):
        others = [index for index, y in enumerate(stored.observation) if not np.array_equal(x, y)]
        same += len(stored.observation) - len(others)
        pairs = [(naive(run, x, stored.observation[index], distance), index) for index in others]
        best = sorted(pairs, reverse=(name, distance) == ("ksme", "learnt"))[:3]
        np.testing.assert_allclose(found.distance[step], [far for far, _ in best], atol=1e-3)
        chosen = [naive(run, x, stored.observation[index], distance) for index in found.index[step]]
        np.testing.assert_allclose(chosen, found.distance[step], atol=1e-3)
        assert set(found.index[step]) <= set(others)
    assert same > 0


def test_reduced_distances_are_angles_and_squares():
    """β·θ of MICo, half the squared distance of KSMe, and what SimSR and DBC learn themselves."""
    for name, expected in (
        ("mico", lambda x, y: 0.7 * np.arccos(np.clip(x @ y / np.linalg.norm(x) / np.linalg.norm(y), -1, 1))),
        ("ksme", lambda x, y: ((x - y) ** 2).sum() / 2),
        ("simsr", lambda x, y: 1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y)),
        ("dbc", lambda x, y: np.abs(x - y).sum()),
        ("dbc-det", lambda x, y: np.abs(x - y).sum()),
        ("dbc-mico", lambda x, y: 0.7 * np.arccos(np.clip(x @ y / np.linalg.norm(x) / np.linalg.norm(y), -1, 1))),
    ):
        run = with_metric(name)
        seen, stored = episodes(run)
        loop = [
            [expected(x, y) for y in stored.representation.astype(float)] for x in seen.representation.astype(float)
        ]
        np.testing.assert_allclose(distances(run, seen, stored, "reduced"), loop, atol=1e-3)


def test_fewer_than_asked_for_leave_gaps():
    run = with_metric("mico")
    seen, stored = episodes(run)
    few = type(stored)(*(rows if rows is None else rows[:2] for rows in stored))
    found = neighbours(run, seen, few, count=4, distance="reduced")
    there = [sum(not np.array_equal(x, y) for y in few.observation) for x in seen.observation]
    assert set(there) == {1, 2}
    np.testing.assert_array_equal(np.isfinite(found.distance).sum(axis=1), there)
    assert found.index.shape == (8, 4)
    assert neighbours(run, seen, stored, count=0, distance="reduced").index.shape == (8, 0)


@pytest.mark.parametrize(
    ("name", "distance", "words"),
    [
        ("mico", "reduced", "MICo's reduced distance βθ, β = 0.7"),
        ("mico", "learnt", "MICo's U, β = 0.7"),
        ("none", "reduced", "MICo's reduced distance βθ, β = 0.1, which this run did not learn"),
        ("ksme", "reduced", "KSMe's ½‖φ − φ'‖²"),
        ("ksme", "learnt", "KSMe's kernel, largest first"),
        ("simsr", "learnt", "SimSR's 1 − cos"),
        ("dbc", "reduced", "DBC's ‖φ − φ'‖₁"),
        ("dbc-original", "learnt", "DBC's mean Huber of φ − φ'"),
        ("dbc-det", "learnt", "DBC-Det's ‖φ − φ'‖₁"),
        ("dbc-mico", "reduced", "DBC+MICo's reduced distance βθ, β = 0.7"),
        ("dbc-mico", "learnt", "DBC+MICo's U, β = 0.7"),
        ("other", "reduced", "Other's reduced distance"),
    ],
)
def test_distances_are_named(name, distance, words):
    assert distance_name(with_metric(name), distance) == words
