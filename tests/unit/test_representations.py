"""Distances, neighbours and agreement of NumPy, PyTorch and JAX representations, against loops over NumPy's."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from mico import representations
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


class InNumPy:
    """A loss of somebody's own, which computes with NumPy's arrays and says so if it is given others."""

    def __init__(self, measure):
        self.measure = measure

    def pairwise(self, x, y):
        if not isinstance(x, np.ndarray) or x.dtype != np.float64:
            raise TypeError(f"{type(x)} of {x.dtype}")
        return np.array([[self.measure(a, b) for b in y] for a in x])


ENCODERS = {"numpy": lambda rows: phi(np.asarray(rows)), "torch": by_torch, "jax": by_jax}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("batch", [3, 100])
def test_distances_of_every_encoder_by_every_loss_against_loops(kind, encoder, batch):
    in_torch, in_jax, measure = KINDS[kind]
    losses = [in_torch, in_jax] + [InNumPy(measure)] * (encoder == "numpy")
    for formula, distance in ((measure, "learnt"), (REDUCED[kind], "reduced")):
        expected = [[formula(a, b) for b in phi(Y)] for a in phi(X)]
        for loss in losses:
            found = representations.distances(ENCODERS[encoder], loss, X, Y, distance=distance, batch_size=batch)
            assert type(found) is np.ndarray
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("made", [np.asarray, torch.tensor, jnp.asarray])
def test_representations_may_be_given_themselves(made):
    x, y = made(phi(X).astype(np.float32)), made(phi(Y).astype(np.float32))
    expected = [[REDUCED["mico"](a, b) for b in phi(Y)] for a in phi(X)]
    for loss in KINDS["mico"][:2]:
        np.testing.assert_allclose(representations.distances(None, loss, x, y), expected, atol=1e-4)


@pytest.mark.parametrize("made", [np.asarray, torch.tensor, jnp.asarray])
def test_observations_returns_and_distances_may_be_of_every_library(made):
    """As encoders of one's own take them; what comes out is NumPy's."""
    expected = representations.distances(by_torch, MICoLoss(), X, Y)
    found = representations.distances(lambda rows: by_torch(np.asarray(rows)), MICoLoss(), made(X), made(Y))
    np.testing.assert_allclose(found, expected)
    nearest = representations.neighbours(made(expected), made(X), made(Y), count=2)
    np.testing.assert_array_equal(nearest.index, np.argsort(expected, axis=1)[:, :2])
    np.testing.assert_allclose(nearest.distance, np.sort(expected, axis=1)[:, :2], rtol=1e-6)
    returns = representations.discounted_returns(
        made(np.asarray([1.0, 2.0, 4.0])), made(np.asarray([False, True, False])), discount=0.5
    )
    np.testing.assert_array_equal(returns, [2, 2, 4])
    apart = np.asarray([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    assert representations.agreement(made(apart), made(np.asarray([0.0, 1.0, 4.0]))) == pytest.approx((1.0, 2 / 3))


def test_representations_in_bfloat16():
    rows = torch.tensor(phi(X)).bfloat16()
    exact = rows.double().numpy()
    expected = [[REDUCED["mico"](a, b) for b in exact] for a in exact]
    for loss in KINDS["mico"][:2]:
        found = representations.distances(None, loss, rows)
        np.testing.assert_allclose(found - np.diag(np.diag(found)), expected - np.diag(np.diag(expected)), atol=1e-5)


def test_observations_of_several_parts():
    """Encoded part by part; equal if all parts are."""
    parts = [{"one": rows[:, 0], "two": rows[:, 1:]} for rows in (X, Y)]

    def encode(batch):
        return by_torch(np.concatenate([batch["one"][:, None], batch["two"]], axis=1))

    expected = representations.distances(by_torch, MICoLoss(), X, Y)
    np.testing.assert_allclose(representations.distances(encode, MICoLoss(), *parts, batch_size=3), expected)
    x = {"one": np.asarray([1, 1]), "two": np.asarray([[0.0], [5.0]])}
    y = {"one": np.asarray([1, 2]), "two": np.asarray([[5.0], [5.0]])}
    nearest = representations.neighbours(np.asarray([[1.0, 2.0], [1.0, 2.0]]), x, y, count=2)
    np.testing.assert_array_equal(nearest.distance, [[1, 2], [2, np.inf]])
    with pytest.raises(ValueError, match="the same parts"):
        representations.neighbours(np.zeros((2, 2)), x, {"one": y["one"]}, count=1)
    with pytest.raises(ValueError, match=r"x must have parts of one length.*\[1, 2\]"):
        representations.distances(encode, MICoLoss(), {"one": X[:1], "two": X[:2]})


@pytest.mark.parametrize("norm", [1.0, 1e3, 5e4])
def test_angles_of_long_representations_keep_their_digits(norm):
    r"""$2 \arctan(|u - v| / |u + v|)$ of unit vectors, which loses none; U itself is of the size of norm²."""
    rows = np.abs(RNG.normal(size=(1, 16)) + 0.3 * RNG.normal(size=(20, 16)))
    rows = (norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    unit = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    apart, along = (np.linalg.norm(unit[:, None] + sign * unit, axis=-1) for sign in (-1, 1))
    for encode, loss in ((torch.tensor, MICoLoss(beta=0.1)), (jnp.asarray, MICo(beta=0.1))):
        np.testing.assert_allclose(
            representations.distances(encode, loss, rows), 0.2 * np.arctan2(apart, along), atol=2e-6
        )


def test_without_others_they_are_those_among_themselves():
    found = representations.distances(by_torch, MICoLoss(), X)
    np.testing.assert_allclose(found, representations.distances(by_torch, MICoLoss(), X, X))
    np.testing.assert_allclose(found.diagonal(), 0, atol=1e-5)
    assert found[0, 1] > 1e-3


def test_neighbours_by_hand():
    apart = np.asarray([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0]])
    stored = np.asarray([[10], [20], [30]])
    found = representations.neighbours(apart, stored[:2], stored, count=2)
    np.testing.assert_array_equal(found.index, [[2, 1], [2, 0]])
    np.testing.assert_array_equal(found.distance, [[1, 3], [2, 3]])
    more = representations.neighbours(apart, stored[:2], stored, count=4)
    np.testing.assert_array_equal(more.distance, [[1, 3, np.inf, np.inf], [2, 3, np.inf, np.inf]])


@pytest.mark.parametrize("seen", [[0.1, 1.5, 0.0, 2.0], [3, 1, 0, 2]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_an_equal_of_another_type_or_sign_of_zero_is_no_neighbour(seen, dtype):
    """Each one's equal is in its own place."""
    x = np.asarray(seen)[:, None]
    y = np.where(x == 0, -0.0, x).astype(dtype)
    apart = np.abs(x - x.T).astype(float)
    for found in (representations.neighbours(apart, x, y, count=4), representations.neighbours(apart, y, x, count=4)):
        np.testing.assert_array_equal(np.isfinite(found.distance).sum(axis=1), 3)
        assert all(row not in found.index[row, :3] for row in range(4))


def test_agreement_by_hand():
    """Gaps 1, 4 and 3; their order is that of the distances, of which the last is too small to bound its gap."""
    returns = np.asarray([0.0, 1.0, 4.0])
    apart = np.asarray([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    assert representations.agreement(apart, returns) == pytest.approx((1.0, 2 / 3))
    assert representations.agreement(6 - apart, returns).correlation == pytest.approx(-1)


def test_discounted_returns_by_hand():
    reward, end = np.asarray([1.0, 2.0, 4.0, 8.0]), np.asarray([False, True, False, False])
    np.testing.assert_allclose(representations.discounted_returns(reward, end, discount=0.5), [2, 2, 8, 8])


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_work_is_named():
    with pytest.raises(ValueError, match=r"batch.*0"):
        representations.distances(by_torch, MICoLoss(), X, batch_size=0)
    with pytest.raises(ValueError, match=r"distance.*'far'"):
        representations.distances(by_torch, MICoLoss(), X, distance="far")
    with pytest.raises(ValueError, match="observation"):
        representations.distances(by_torch, MICoLoss(), X[:0])
    with pytest.raises(ValueError, match=r"count.*0"):
        representations.neighbours(np.zeros((7, 7)), X, X, count=0)
    with pytest.raises(ValueError, match=r"returns.*2"):
        representations.agreement(np.zeros((2, 2)), np.zeros(2))
    with pytest.raises(ValueError, match=r"discount.*99"):
        representations.discounted_returns(np.zeros(2), np.zeros(2, bool), discount=99)


ROWS = np.eye(3)
NAN = np.where(ROWS == 1, np.nan, 0.0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: representations.distances("mico", SimSRLoss(), ROWS), TypeError, "encode must be .*, got 'mico'"),
        (lambda: representations.distances(None, "mico", ROWS), TypeError, "loss must be a metric loss .*, got 'mico'"),
        (lambda: representations.distances(None, None, ROWS), TypeError, "loss must be a metric loss .*, got None"),
        (lambda: representations.distances(None, MICo, ROWS), TypeError, r"such as MICo\(\), got the class MICo"),
        (lambda: representations.distances(None, SimSRLoss(), 5), TypeError, "x must be observations .*, got 5"),
        (lambda: representations.distances(None, SimSRLoss(), None), TypeError, "x must be .*, got None"),
        (lambda: representations.distances(None, SimSRLoss(), "abc"), TypeError, "x must be .*, got 'abc'"),
        (lambda: representations.distances(None, SimSRLoss(), np.array(1.0)), TypeError, "x must be .* of float64"),
        (lambda: representations.distances(None, SimSRLoss(), ROWS, 5), TypeError, "y must be observations .*, got 5"),
        (lambda: representations.distances(None, SimSRLoss(), ROWS[0]), ValueError, r"\[3, D\], got \[3\]"),
        (lambda: representations.distances(None, SimSRLoss(), ROWS[None]), ValueError, r"x .* got \[1, 3, 3\]"),
        (lambda: representations.distances(None, SimSRLoss(), {"a": ROWS}), TypeError, "x must be .*, got a dict"),
        (lambda: representations.distances(None, SimSRLoss(), [["a"]]), TypeError, "x must be an array of numbers"),
        (lambda: representations.distances(None, SimSRLoss(), 1j * ROWS), ValueError, "x must be real .* complex128"),
        (lambda: representations.distances(None, SimSRLoss(), NAN), ValueError, r"x must have finite .* in row 0"),
        (lambda: representations.distances(None, SimSRLoss(), ROWS, NAN[1:]), ValueError, "y must have finite"),
        (lambda: representations.distances(by_jax, MICo(), X / 0), ValueError, "encode must give, for x, finite"),
        (lambda: representations.distances(lambda x: None, MICo(), X), TypeError, "encode must give an .* got None"),
        (lambda: representations.distances(np.sum, MICo(), X), ValueError, r"encode must give one .* got \[\]"),
        (lambda: representations.distances(None, MICo(), ROWS, batch_size="x"), ValueError, "batch_size .* got 'x'"),
        (lambda: representations.neighbours(NAN, ROWS, ROWS, count=1), ValueError, r"NaN at \[0, 0\]"),
        (lambda: representations.neighbours(None, ROWS, ROWS, count=1), ValueError, "distances must be .* got None"),
        (lambda: representations.neighbours(ROWS, ROWS, ROWS, count=1.5), ValueError, "count must be .* got 1.5"),
        (lambda: representations.agreement(NAN, ROWS[0]), ValueError, "distances must not be NaN"),
        (lambda: representations.agreement(ROWS, NAN[0]), ValueError, r"returns must not be NaN, got NaN at \[0\]"),
        (lambda: representations.agreement("x", ROWS[0]), ValueError, "distances must be real numbers, got 'x'"),
        (lambda: representations.discounted_returns(NAN[0], ROWS[0], discount=0.5), ValueError, "reward must not be"),
        (lambda: representations.discounted_returns(ROWS[0], ROWS[0], discount="x"), ValueError, "discount .* got 'x'"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(call, error, message):
    with pytest.raises(error, match=message), np.errstate(all="ignore"):
        call()


@pytest.mark.usefixtures("unchecked")
def test_lists_are_arrays_too():
    rows = [[1.0, 0.0], [0.0, 2.0]]
    np.testing.assert_allclose(representations.distances(None, SimSRLoss(), rows), [[0, 1], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(representations.distances(lambda x: x, SimSR(), rows), [[0, 1], [1, 0]], atol=1e-12)


def test_equal_distances_or_returns_have_no_rank_correlation():
    for matrix, returns in ((np.ones((3, 3)), np.arange(3.0)), (1 - np.eye(3), np.zeros(3))):
        found = representations.agreement(matrix, returns)
        assert np.isnan(found.correlation)
    assert found.bounded == 1


@pytest.mark.usefixtures("unchecked")
def test_shapes_that_do_not_fit_are_named():
    matrix, returns = np.zeros((7, 7)), np.zeros(7)
    with pytest.raises(ValueError, match=r"distances must have shape \[5, 5\].*got \[7, 7\]"):
        representations.agreement(matrix, returns[:5])
    with pytest.raises(ValueError, match=r"returns.*\[7, 1\]"):
        representations.agreement(matrix, returns[:, None])
    for x, y in ((X[:1], X), (X, X[:1]), (X, Y)):
        with pytest.raises(ValueError, match=rf"distances must have shape \[{len(x)}, {len(y)}\].*got \[7, 7\]"):
            representations.neighbours(matrix, x, y, count=1)
    with pytest.raises(ValueError, match=r"x and y.*\[7, 2, 3\] and \[7, 6\]"):
        representations.neighbours(matrix, X, X.reshape(7, 6), count=1)
    with pytest.raises(ValueError, match=r"end must have shape \[7\].*got \[8\]"):
        representations.discounted_returns(returns, np.zeros(8, bool), discount=0.9)
    with pytest.raises(ValueError, match=r"reward.*\[7, 1\]"):
        representations.discounted_returns(returns[:, None], np.zeros((7, 1), bool), discount=0.9)
    with pytest.raises(ValueError, match=r"encode must give one vector.*\[7, D\], got \[7, 2, 3\]"):
        representations.distances(torch.tensor, MICoLoss(), X)
    with pytest.raises(ValueError, match=r"x must be one vector.*\[7, D\], got \[7, 2, 3\]"):
        representations.distances(None, MICoLoss(), X)
    with pytest.raises(ValueError, match=r"encode must give one vector.*\[7, D\], got \[3, 5\]"):
        representations.distances(lambda rows: by_torch(rows)[:1], MICoLoss(), X, batch_size=3)
    with pytest.raises(ValueError, match=r"one width, got 5 and 4"):
        representations.distances(None, MICoLoss(), phi(X), phi(X)[:, :4])


def test_nothing_but_its_own_names_is_shown():
    public = {"agreement", "discounted_returns", "distances", "neighbours"}
    assert public <= set(dir(representations)) == set(representations.__all__)
    assert all(vars(representations)[name].__module__ == "mico.representations" for name in public)


def test_neither_framework_is_imported():
    code = "import sys, mico.representations; print('jax' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]
