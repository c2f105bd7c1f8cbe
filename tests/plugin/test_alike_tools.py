"""Distances, neighbours and agreement for encoders of either kind, against loops."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from mico import alike
from mico.deep.metric_losses import KSMe, MICo, SimSR
from mico.torch import KSMeLoss, MICoLoss, SimSRLoss

pytestmark = pytest.mark.usefixtures("quick_compilation")

torch.set_num_threads(1)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(6, 5)).astype(np.float32)
X, Y = RNG.normal(size=(7, 2, 3)).astype(np.float32), RNG.normal(size=(4, 2, 3)).astype(np.float32)


def by_torch(observations):
    """With gradients, as a network gives them."""
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    return torch.tensor(observations).flatten(1) @ weights


def by_jax(observations):
    return jnp.asarray(observations).reshape(len(observations), -1) @ WEIGHTS


def phi(observations):
    return observations.reshape(len(observations), -1).astype(float) @ WEIGHTS


def angle(x, y):
    return np.arccos(np.clip(x @ y / np.linalg.norm(x) / np.linalg.norm(y), -1, 1))


KINDS = {
    "mico": (MICoLoss(beta=0.3), MICo(beta=0.3), lambda x, y: (x @ x + y @ y) / 2 + 0.3 * angle(x, y)),
    "ksme": (KSMeLoss(), KSMe(), np.dot),
    "simsr": (SimSRLoss(), SimSR(), lambda x, y: 1 - np.cos(angle(x, y))),
}
REDUCED = {
    "mico": lambda x, y: 0.3 * angle(x, y),
    "ksme": lambda x, y: ((x - y) ** 2).sum() / 2,
    "simsr": lambda x, y: 1 - np.cos(angle(x, y)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [3, 100])
def test_distances_of_either_kind_of_encoder_against_loops(kind, batch):
    in_torch, in_jax, measure = KINDS[kind]
    for formula, distance in ((measure, "learnt"), (REDUCED[kind], "reduced")):
        expected = [[formula(a, b) for b in phi(Y)] for a in phi(X)]
        for encode, loss in ((by_torch, in_torch), (by_jax, in_jax)):
            found = alike.distances(encode, loss, X, Y, distance=distance, batch=batch)
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_without_others_they_are_those_among_themselves():
    found = alike.distances(by_torch, MICoLoss(), X)
    np.testing.assert_allclose(found, alike.distances(by_torch, MICoLoss(), X, X))
    np.testing.assert_allclose(found.diagonal(), 0, atol=1e-5)
    assert found[0, 1] > 1e-3


def test_neighbours_by_hand():
    apart = np.asarray([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0]])
    stored = np.asarray([[10], [20], [30]])
    found = alike.neighbours(apart, stored[:2], stored, count=2)
    np.testing.assert_array_equal(found.index, [[2, 1], [2, 0]])
    np.testing.assert_array_equal(found.distance, [[1, 3], [2, 3]])
    more = alike.neighbours(apart, stored[:2], stored, count=4)
    np.testing.assert_array_equal(more.distance, [[1, 3, np.inf, np.inf], [2, 3, np.inf, np.inf]])


def test_agreement_by_hand():
    """Gaps 1, 4 and 3; their order is that of the distances, of which the last is too small to bound its gap."""
    returns = np.asarray([0.0, 1.0, 4.0])
    apart = np.asarray([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    assert alike.agreement(apart, returns) == pytest.approx((1.0, 2 / 3))
    assert alike.agreement(6 - apart, returns).correlation == pytest.approx(-1)


def test_discounted_returns_by_hand():
    reward, end = np.asarray([1.0, 2.0, 4.0, 8.0]), np.asarray([False, True, False, False])
    np.testing.assert_allclose(alike.discounted_returns(reward, end, discount=0.5), [2, 2, 8, 8])


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_work_is_named():
    with pytest.raises(ValueError, match=r"batch.*0"):
        alike.distances(by_torch, MICoLoss(), X, batch=0)
    with pytest.raises(ValueError, match=r"distance.*'far'"):
        alike.distances(by_torch, MICoLoss(), X, distance="far")
    with pytest.raises(ValueError, match="observation"):
        alike.distances(by_torch, MICoLoss(), X[:0])
    with pytest.raises(ValueError, match=r"count.*0"):
        alike.neighbours(np.zeros((7, 7)), X, X, count=0)
    with pytest.raises(ValueError, match=r"returns.*2"):
        alike.agreement(np.zeros((2, 2)), np.zeros(2))


def test_neither_framework_is_imported():
    code = "import sys, mico.alike; print('jax' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]
