"""Features against closed forms, definitions and laws."""

import sys

import numpy as np
import pytest
from hypothesis import given

from chains import CHAINS
from mico.tabular import Chain, make, random_policy, solve
from mico.tabular.embeddings import (
    FEATURES,
    mico_embedding,
    proto_value_functions,
    random_features,
    regression_error,
    umap_embedding,
)
from strategies import mdps


def path(size):
    """A walk along a path, forwards with probability ½, ¼ back, else staying."""
    rows = np.diag(np.full(size - 1, 0.5), 1) + np.diag(np.full(size - 1, 0.25), -1)
    rows += np.diag(1 - rows.sum(axis=1))
    return Chain(rows, np.arange(size) / size, 0.9)


def rooms(seed=0):
    mdp = make("mirrored-rooms").mdp
    return mdp.chain(random_policy(mdp, seed=seed))


def points(size, seed=0):
    """Distances between points of a plane."""
    spots = np.random.default_rng(seed).random((size, 2))
    d = np.sqrt(((spots[:, None] - spots) ** 2).sum(axis=-1))
    return (d + d.T) / 2


def test_proto_value_functions_of_a_path_are_cosines():
    size = 9
    found = proto_value_functions(path(size))
    for k in range(size):
        cosine = np.cos(np.pi * k * (np.arange(size) + 0.5) / size)
        cosine /= np.linalg.norm(cosine)
        assert abs(found[:, k] @ cosine) == pytest.approx(1, abs=1e-12)


def test_the_graph_of_a_one_way_street_has_both_directions():
    ring = Chain(np.roll(np.eye(7), 1, axis=1), np.zeros(7), 0.9)
    vectors = proto_value_functions(ring)
    laplacian = 2 * np.eye(7) - np.roll(np.eye(7), 1, axis=1) - np.roll(np.eye(7), -1, axis=1)
    known = np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(7) / 7))
    np.testing.assert_allclose(laplacian @ vectors, vectors * known, atol=1e-12)


def test_proto_value_functions_of_a_grid_are_those_of_its_map():
    grid = make("four-rooms")
    cells, size = grid.layout.cells, grid.mdp.num_states
    laplacian = np.zeros((size, size))
    for (row, column), here in np.ndenumerate(cells):
        for there in (cells[row - 1, column], cells[row, column - 1]):  # the map has walls all around
            if here >= 0 and there >= 0:
                laplacian[[here, there], [here, there]] += 1
                laplacian[[here, there], [there, here]] -= 1
    vectors = proto_value_functions(grid.mdp.chain(random_policy(grid.mdp, seed=1)))
    energies = np.einsum("xk,xy,yk->k", vectors, laplacian, vectors)
    np.testing.assert_allclose(energies, np.linalg.eigvalsh(laplacian), atol=1e-10)


def test_random_features_are_standard_normal_and_nested():
    many = random_features(300, 200, seed=3)
    assert many.shape == (300, 200)
    # 60,000 numbers: standard deviations of their mean, variance and fourth moment are .004, .006 and .04
    assert abs(many.mean()) < 0.02
    assert many.var() == pytest.approx(1, abs=0.03)
    assert (many**4).mean() == pytest.approx(3, abs=0.2)
    assert abs(np.corrcoef(many[:, 0], many[:, 1])[0, 1]) < 0.3
    np.testing.assert_array_equal(random_features(300, 5, seed=3), many[:, :5])
    assert (random_features(300, 5, seed=4) != many[:, :5]).all()


@pytest.mark.parametrize("name", ["grid", "walls and slips", "rewards of both signs", "garnet", "ring", "two states"])
def test_squared_distances_of_the_embedding_are_the_reduced_distance(name):
    psi = mico_embedding(CHAINS[name])
    squared = ((psi[:, None] - psi) ** 2).sum(axis=-1)
    np.testing.assert_allclose(squared, solve("reduced-mico", CHAINS[name], tolerance=1e-10).matrix, atol=1e-9)


@pytest.mark.parametrize("name", ["grid", "garnet", "rewards of both signs", "funnel"])
def test_the_embedding_misses_the_value_by_no_more_than_its_law(name):
    chain = CHAINS[name]
    psi = mico_embedding(chain)
    weight = np.sqrt(np.ptp(chain.reward) / (1 - chain.discount))
    for k in range(1, psi.shape[1] + 1):
        rest = np.linalg.norm(psi[:, k:], 2) if k < psi.shape[1] else 0.0
        missed = np.linalg.norm(regression_error(psi[:, :k], chain.value(), regression="affine"))
        assert missed <= weight * rest + 1e-4  # the coordinates that do not count are left out of Ψ


@given(sample=mdps(states=(3, 5, 8), discounts=(0.5, 0.9), pay=("normal", "negative", "binary")))
def test_the_whole_embedding_and_a_constant_give_the_value(sample):
    chain = sample.mdp.chain(sample.policy)
    error = regression_error(mico_embedding(chain), chain.value(), regression="affine")
    assert np.abs(error).max() <= 1e-4 * max(1.0, sample.scale)


def test_as_many_independent_features_as_states_leave_no_error():
    features, value = np.random.default_rng(0).random((12, 12)), np.arange(12.0)
    np.testing.assert_allclose(regression_error(features, value, regression="linear"), 0, atol=1e-10)


def test_a_line_through_three_points():
    x, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 4.0])
    # through the origin: slope (0 + 2 + 8)/5 = 2; free: slope 3/2, and 7/3 in the middle
    np.testing.assert_allclose(regression_error(x, y, regression="linear"), [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(regression_error(x, y, regression="affine"), [1 / 6, -1 / 3, 1 / 6], atol=1e-12)


def test_other_regressions_are_refused(unchecked):
    with pytest.raises(ValueError, match="regression must be 'linear' or 'affine', not 'cubic'"):
        regression_error(np.ones((3, 1)), np.ones(3), regression="cubic")


@pytest.mark.parametrize("regression", ["linear", "affine"])
def test_regressions_of_another_shape_are_refused(unchecked, regression):
    for value in (np.ones(4), np.ones((3, 2)), np.float64(1.0)):
        with pytest.raises(ValueError, match=r"value has shape \[.*\], but features ask for \[3\]"):
            regression_error(np.ones((3, 1)), value, regression=regression)
    with pytest.raises(ValueError, match=r"features must have shape \[S, k\], but has \[3\]"):
        regression_error(np.ones(3), np.ones(3), regression=regression)


def test_what_features_are_not_made_of(unchecked):
    with pytest.raises(ValueError, match="model must be a Problem, an MDP or a Chain, got ndarray"):
        proto_value_functions(np.eye(2))
    for arguments, message in (
        ((4, -1, 0), "k must be at least 1, but is -1"),
        ((4, 1.5, 0), "k must be a whole number, not 1.5"),
        ((0, 2, 0), "num_states must be at least 1, but is 0"),
        ((4, 2, -1), "seed must be at least 0, but is -1"),
    ):
        num_states, k, seed = arguments
        with pytest.raises(ValueError, match=message):
            random_features(num_states, k, seed=seed)
    with pytest.raises(ValueError, match="seed must be at least 0, but is -1"):
        umap_embedding(points(6), 2, seed=-1)


def test_features_that_repeat_themselves_are_no_trouble():
    rng = np.random.default_rng(1)
    features, value = rng.random((10, 3)), rng.random(10)
    repeated = np.concatenate([features, features, np.zeros((10, 2))], axis=1)
    once = regression_error(features, value, regression="linear")
    np.testing.assert_allclose(regression_error(repeated, value, regression="linear"), once, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 17, 18, 19, 20])
def test_umap_has_any_number_of_features_up_to_that_of_states(k):
    found = umap_embedding(points(20), k, seed=0)
    assert found.shape == (20, k)
    assert found.dtype == float
    assert np.isfinite(found).all()


def test_umap_depends_on_its_seed_alone():
    d = points(25)
    one = umap_embedding(d, 2, seed=1)
    np.testing.assert_array_equal(umap_embedding(d, 2, seed=1), one)
    assert not np.array_equal(umap_embedding(d, 2, seed=2), one)


def test_umap_keeps_two_far_groups_apart():
    d = points(40)
    d[:20, 20:] += 50
    d[20:, :20] += 50
    found = umap_embedding(d, 2, seed=0)
    near = np.linalg.norm(found[:20, None] - found[:20], axis=-1).mean()
    assert np.linalg.norm(found[:20].mean(axis=0) - found[20:].mean(axis=0)) > near


def test_umap_refuses_what_is_no_metric():
    full = solve("mico", rooms()).matrix
    with pytest.raises(ValueError, match=r"d must be 0 on its diagonal, or UMAP is ill-defined, but d\["):
        umap_embedding(full, 2, seed=0)
    one_sided = points(6)
    one_sided[0, 1] += 1
    with pytest.raises(ValueError, match="d must be symmetric"):
        umap_embedding(one_sided, 2, seed=0)
    with pytest.raises(ValueError, match="nowhere negative"):
        umap_embedding(-points(6), 2, seed=0)


@pytest.mark.parametrize("k", [0, 7])
def test_umap_refuses_other_numbers_of_features(k):
    with pytest.raises(ValueError, match=rf"k must lie in 1..6, but is {k}"):
        umap_embedding(points(6), k, seed=0)


def test_umap_refuses_two_states():
    with pytest.raises(ValueError, match="d is of 2 states"):
        umap_embedding(points(2), 1, seed=0)


def test_without_umap_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[features\]'"):
        umap_embedding(points(6), 2, seed=0)


@pytest.mark.parametrize("name", FEATURES)
def test_every_kind_gives_what_is_asked_for(name):
    chain = rooms()
    of_size = FEATURES[name](chain, 5)
    for k in (2, 31):
        assert of_size(k).shape == (31, k)
        np.testing.assert_array_equal(of_size(k), FEATURES[name](chain, 5)(k))
    error = regression_error(of_size(31), chain.value(), regression="linear")
    assert np.abs(error).max() < 1e-6


def test_kinds_are_what_their_names_say():
    chain = rooms()
    for metric in ("reduced-mico", "pi-bisimulation"):
        d = solve(metric, chain, tolerance=1e-10).matrix
        np.testing.assert_array_equal(FEATURES[f"umap-{metric}"](chain, 5)(3), umap_embedding(d, 3, seed=5))
    np.testing.assert_array_equal(FEATURES["random"](chain, 5)(3), random_features(31, 3, seed=5))
    np.testing.assert_array_equal(FEATURES["proto-value-functions"](chain, 5)(3), proto_value_functions(chain)[:, :3])
    np.testing.assert_array_equal(FEATURES["mico-embedding"](chain, 5)(3), mico_embedding(chain)[:, :3])
    size = mico_embedding(chain).shape[1]
    assert (FEATURES["mico-embedding"](chain, 5)(size + 2)[:, size:] == 0).all()
