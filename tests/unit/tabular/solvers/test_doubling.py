"""The dense solver of U = D + γ P U Pᵀ: NumPy and JAX, one chain and many, in both precisions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_lyapunov

import references
from mico.tabular import Chain, garnet, make, solve, solve_policies
from mico.tabular.metrics import mico
from mico.tabular.solvers.doubling import doubling
from strategies import mdps, policies, transition_rows


def equation(seed, size, *, count=None, kind="dense"):
    """A transition matrix and a gap of rewards, or a stack of both."""
    rng = np.random.default_rng(seed)
    lead = () if count is None else (count,)
    reward = rng.normal(size=(*lead, size))
    gap = np.abs(reward[..., :, None] - reward[..., None, :])
    return transition_rows(rng, kind, (*lead, size, size)), gap


def exact(transition, gap, discount):
    """The linear system for all pairs: SciPy's other method loses digits at large discounts."""
    return solve_discrete_lyapunov(np.sqrt(discount) * np.float64(transition), np.float64(gap), method="direct")


@pytest.mark.parametrize("kind", ["dense", "sparse", "deterministic"])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("size", [1, 2, 7, 15])
def test_against_scipy(kind, discount, size):
    transition, gap = equation(3, size, kind=kind)
    tolerance = 1e-12 / (1 - discount) ** 2
    value, error, steps = doubling(transition, gap, discount, tolerance=tolerance)
    reference = exact(transition, gap, discount)
    assert np.abs(value - reference).max() <= error + tolerance
    assert error <= tolerance
    assert steps <= np.log2(max(1, np.log(1e-14) / np.log(max(discount, 1e-9)))) + 3


@pytest.mark.parametrize("tolerance", [10.0, 1.0, 1e-1, 1e-2, 1e-3])
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["dense", "sparse", "deterministic"]))
def test_loose_tolerances_are_honest_and_save_steps(tolerance, seed, kind):
    transition, gap = equation(seed, 6, kind=kind)
    value, error, steps = doubling(transition, gap, 0.99, tolerance=tolerance)
    assert np.abs(value - exact(transition, gap, 0.99)).max() <= error + 1e-9
    assert error <= tolerance
    assert steps <= doubling(transition, gap, 0.99, tolerance=1e-9).iterations


@pytest.mark.parametrize("discount", [0.5, 0.99])
def test_a_batch_is_its_members(discount):
    transition, gap = equation(1, 5, count=6)
    transition[3], gap[4] = np.eye(5), 0.0
    value, error, _ = doubling(transition, gap, discount, tolerance=1e-9)
    assert value.shape == (6, 5, 5)
    for n in range(6):
        assert np.abs(value[n] - exact(transition[n], gap[n], discount)).max() <= error + 1e-11
    assert error <= 1e-9


def test_two_axes_of_batches():
    transition, gap = equation(2, 4, count=6)
    value = doubling(transition, gap, 0.9, tolerance=1e-9).matrix
    folded = doubling(transition.reshape(2, 3, 4, 4), gap.reshape(2, 3, 4, 4), 0.9, tolerance=1e-9).matrix
    np.testing.assert_allclose(folded.reshape(6, 4, 4), value, rtol=0, atol=2e-9)


@pytest.mark.parametrize("name", ["mico", "reduced-mico", "pi-bisimulation", "reward-law"])
def test_many_policies_at_once(name):
    mdp = garnet(6, 3, seed=4).mdp
    rng = np.random.default_rng(0)
    batch = np.stack([policies(rng, kind, mdp.shape) for kind in ("any", "deterministic", "halves", "any")])
    found = solve_policies(name, mdp, batch)
    value, error = found.matrix, found.error
    assert value.shape == (4, 6, 6)
    assert error <= 1e-8
    for n, policy in enumerate(batch):
        assert np.abs(value[n] - solve(name, mdp, policy).matrix).max() <= 2e-8


@pytest.mark.parametrize("name", ["bisimulation", "lax-bisimulation"])
def test_many_policies_are_refused_where_one_is(name):
    with pytest.raises(ValueError, match=f"metric must be one of a policy, got '{name}'"):
        solve_policies(name, garnet(3, 2, seed=0), np.full((4, 3, 2), 0.5))


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 2, 2), (1, 1, 3, 2)])
def test_batches_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="polic"):
        solve_policies("mico", garnet(3, 2, seed=0), np.full(shape, 0.5))
    with pytest.raises(ValueError, match="policy"):
        solve("mico", garnet(3, 2, seed=0), np.full(shape, 0.5))


def test_many_policies_with_sampled_rewards():
    mdp = make("action-reward").mdp
    batch = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])
    np.testing.assert_allclose(solve_policies("mico", mdp, batch, reward="sampled").matrix.ravel(), [0, 5], atol=1e-8)


def test_the_worst_error_of_a_batch_is_reported():
    """One chain is solved at once, the other never mixes and has huge rewards."""
    transition = np.stack([np.full((2, 2), 0.5), np.eye(2)])
    gap = np.stack([np.zeros((2, 2)), 1e12 * (1 - np.eye(2))])
    value, error, _ = doubling(transition, gap, 0.9, tolerance=1e-8)
    assert np.abs(value[1] - 1e13 * (1 - np.eye(2))).max() <= error
    assert error < 1


@given(sample=mdps(states=(2, 3, 5)))
def test_reduced_by_loops(sample):
    d = sample.rng.normal(size=(2, sample.mdp.num_states, sample.mdp.num_states))
    for n in range(2):
        for x, y in np.ndindex(d[n].shape):
            expected = d[n, x, y] - d[n, x, x] / 2 - d[n, y, y] / 2
            assert mico.reduced(d)[n, x, y] == pytest.approx(expected, abs=1e-12)


def test_solving_many_chains():
    chains = [garnet(4, 2, seed=seed).mdp.chain() for seed in range(5)]
    value, error, _ = mico.solve_many(chains, 1e-9)
    for n, chain in enumerate(chains):
        assert np.abs(value[n] - references.mico(chain)).max() <= error + 1e-12


def test_chains_that_never_mix():
    """Self-loops: U = D/(1−γ) exactly, and no shortcut applies."""
    for discount in (0.9, 0.999):
        chain = Chain(np.eye(3), [0.0, 1.0, 5.0], discount)
        found = solve("mico", chain, tolerance=1e-7)
        value, error = found.matrix, found.error
        assert np.abs(value - chain.reward_gap() / (1 - discount)).max() <= error


@pytest.mark.parametrize("batched", [False, True])
def test_jax_in_double_precision(batched):
    jax = pytest.importorskip("jax")
    transition, gap = equation(5, 8, count=3 if batched else None)
    numpy_value = doubling(transition, gap, 0.9, tolerance=1e-10).matrix
    with jax.enable_x64(True):
        value, error, _ = doubling(jax.numpy.asarray(transition), jax.numpy.asarray(gap), 0.9, tolerance=1e-10)
        assert isinstance(value, jax.Array)
        assert value.dtype == np.float64
        reduced = np.asarray(mico.reduced(value))
    assert error <= 1e-10
    np.testing.assert_allclose(value, numpy_value, rtol=0, atol=2e-10)
    np.testing.assert_allclose(reduced, mico.reduced(numpy_value), rtol=0, atol=4e-10)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("library", ["jax", "numpy"])
def test_single_precision_has_a_larger_and_honest_error(library, discount):
    array = pytest.importorskip("jax").numpy.asarray if library == "jax" else np.asarray
    for seed in range(5):
        transition, gap = (part.astype(np.float32) for part in equation(seed, 12))
        value, error, _ = doubling(array(transition), array(gap), discount, tolerance=1e-8)
        assert value.dtype == np.float32
        true = np.abs(np.float64(value) - exact(transition, gap, discount)).max()
        assert true <= error
        assert 1e-8 < error < 1e-3 / (1 - discount) ** 2


def test_rows_that_are_off_by_more_than_rounding_are_scaled():
    """As chains do it; a certificate for the rows as they are would be one for another equation."""
    transition, gap = equation(6, 7)
    for off in (1e-12, 1e-9, 9e-6):
        value, error, _ = doubling(transition * (1 + off), gap, 0.99, tolerance=1e-9)
        assert np.abs(value - exact(transition, gap, 0.99)).max() <= error + 1e-11
        assert error <= 1e-9


@pytest.mark.parametrize("off", [2e-14, 2e-13, 1e-12])
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_few_entries_in_long_rows_are_scaled_too(library, off):
    """A row of a thousand zeros and two halves sums up without rounding."""
    jax = pytest.importorskip("jax")
    array = np.asarray if library == "numpy" else jax.numpy.asarray
    rng = np.random.default_rng(0)
    transition = np.zeros((1000, 1000))
    for next_state in rng.integers(1000, size=(2, 1000)):
        transition[np.arange(1000), next_state] += 0.5
    reward = rng.normal(size=1000)
    gap = np.abs(reward[:, None] - reward)
    with jax.enable_x64(True):
        one, other = (
            doubling(array(rows), array(gap), 0.99, tolerance=1e-9) for rows in (transition, transition * (1 + off))
        )
        apart = float(abs(one.matrix - other.matrix).max())
    assert apart <= one.error + other.error <= 1e-10


@pytest.mark.parametrize("kind", [int, bool])
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_whole_numbers(library, kind):
    """Who stays keeps the distance: U = D/(1−γ)."""
    array = np.asarray if library == "numpy" else pytest.importorskip("jax").numpy.asarray
    for gap in (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0, 1], [1, 0]])):
        value, error, _ = doubling(array(np.eye(2, dtype=kind)), array(gap), 0.5, tolerance=1e-8)
        np.testing.assert_allclose(value, [[0, 2], [2, 0]], rtol=0, atol=error)
        assert error <= 1e-5
