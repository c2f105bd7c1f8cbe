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


@pytest.mark.parametrize("norm", [1.0, 1e3, 5e4])
def test_angles_of_long_representations_keep_their_digits(norm):
    r"""$2 \arctan(|u - v| / |u + v|)$ of unit vectors, which loses none; U itself is of the size of norm²."""
    rows = np.abs(RNG.normal(size=(1, 16)) + 0.3 * RNG.normal(size=(20, 16)))
    rows = (norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    unit = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    apart, along = (np.linalg.norm(unit[:, None] + sign * unit, axis=-1) for sign in (-1, 1))
    for encode, loss in ((torch.tensor, MICoLoss(beta=0.1)), (jnp.asarray, MICo(beta=0.1))):
        np.testing.assert_allclose(alike.distances(encode, loss, rows), 0.2 * np.arctan2(apart, along), atol=2e-6)


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


@pytest.mark.parametrize("seen", [[0.1, 1.5, 0.0, 2.0], [3, 1, 0, 2]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_an_equal_of_another_type_or_sign_of_zero_is_no_neighbour(seen, dtype):
    """Each one's equal is in its own place."""
    x = np.asarray(seen)[:, None]
    y = np.where(x == 0, -0.0, x).astype(dtype)
    apart = np.abs(x - x.T).astype(float)
    for found in (alike.neighbours(apart, x, y, count=4), alike.neighbours(apart, y, x, count=4)):
        np.testing.assert_array_equal(np.isfinite(found.distance).sum(axis=1), 3)
        assert all(row not in found.index[row, :3] for row in range(4))


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


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_do_not_fit_are_named():
    apart, returns = np.zeros((7, 7)), np.zeros(7)
    with pytest.raises(ValueError, match=r"apart has shape \[7, 7\].*\[5, 5\]"):
        alike.agreement(apart, returns[:5])
    with pytest.raises(ValueError, match=r"returns.*\[7, 1\]"):
        alike.agreement(apart, returns[:, None])
    for x, y in ((X[:1], X), (X, X[:1]), (X, Y)):
        with pytest.raises(ValueError, match=rf"apart has shape \[7, 7\].*\[{len(x)}, {len(y)}\]"):
            alike.neighbours(apart, x, y, count=1)
    with pytest.raises(ValueError, match=r"x and y.*\[7, 2, 3\] and \[7, 6\]"):
        alike.neighbours(apart, X, X.reshape(7, 6), count=1)
    with pytest.raises(ValueError, match=r"end has shape \[8\].*\[7\]"):
        alike.discounted_returns(returns, np.zeros(8, bool), discount=0.9)
    with pytest.raises(ValueError, match=r"reward.*\[7, 1\]"):
        alike.discounted_returns(returns[:, None], np.zeros((7, 1), bool), discount=0.9)
    with pytest.raises(ValueError, match=r"encode.*\[7, 2, 3\] of observations \[7, 2, 3\]"):
        alike.distances(torch.tensor, MICoLoss(), X)
    with pytest.raises(ValueError, match=r"encode.*\[3, 5\] of observations \[7, 2, 3\]"):
        alike.distances(lambda rows: by_torch(rows)[:1], MICoLoss(), X, batch=3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_of_the_other_kind_is_named(kind):
    in_torch, in_jax, _ = KINDS[kind]
    with pytest.raises(ValueError, match=r"representations must be tensors.*Array"):
        alike.distances(by_jax, in_torch, X)
    with pytest.raises(ValueError, match=r"representations must be arrays.*Tensor"):
        alike.distances(by_torch, in_jax, X)


def test_neither_framework_is_imported():
    code = "import sys, mico.alike; print('jax' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]
