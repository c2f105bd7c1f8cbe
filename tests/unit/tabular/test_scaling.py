"""Points from distances, by hand and by laws."""

import numpy as np
import pytest

from mico.tabular import factored_mico, make, solve
from mico.tabular.scaling import classical_scaling, principal_scaling, rank_agreement


def squares(points):
    return np.array([[sum((a - b) ** 2) for b in points] for a in points])


def test_points_of_a_plane_are_found_again():
    points = np.random.default_rng(0).normal(size=(7, 2))
    found = classical_scaling(squares(points), 2)
    assert squares(found.points) == pytest.approx(squares(points), abs=1e-12)
    assert found.kept == pytest.approx(1.0)
    assert rank_agreement(np.sqrt(squares(points)), found.points) == pytest.approx(1.0)


def test_the_leading_axes_come_first_and_the_share_is_theirs():
    """Four points at ±3 and ±1 on two axes: eigenvalues 2·9 and 2·1, so one axis keeps 9/10."""
    points = np.array([[0.0, 3.0], [0.0, -3.0], [1.0, 0.0], [-1.0, 0.0]])
    found = classical_scaling(squares(points), 1)
    assert found.kept == pytest.approx(0.9)
    assert np.abs(found.points[:, 0]) == pytest.approx([3, 3, 0, 0], abs=1e-12)


def test_what_no_points_have_counts_as_lost():
    """A star: its centre at 1 from three leaves, 2 apart. B has eigenvalues 2, 2, 0 and −1/4: 4 of 17/4 is kept."""
    d = np.array([[0.0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]])
    assert classical_scaling(d**2, 2).kept == pytest.approx(16 / 17)


def test_the_diagonal_counts_as_zero():
    given = squares(np.random.default_rng(1).normal(size=(4, 2)))
    assert np.array_equal(classical_scaling(given + np.eye(4), 2).points, classical_scaling(given, 2).points)


def test_axes_beyond_the_points_are_zero():
    assert classical_scaling(np.zeros((1, 1)), 2) == (pytest.approx(np.zeros((1, 2))), 1.0)


def test_of_the_reduced_distance_it_is_the_exact_embedding():
    rooms = make("mirrored-rooms").mdp
    far = factored_mico(rooms.chain("uniform"), tolerance=1e-10)
    found = classical_scaling(solve("reduced-mico", rooms).matrix, 2)
    exact = far.embedding(2)
    assert squares(found.points) == pytest.approx(squares(exact), abs=1e-7)
    psi = far.factors.psi
    centred = psi - psi.mean(axis=0)
    assert found.kept == pytest.approx((exact**2).sum() / (centred**2).sum(), abs=1e-6)


def test_ranks_do_not_see_squares_and_see_reversals():
    points = np.array([[0.0], [1.0], [3.0]])
    assert rank_agreement(squares(points), points) == pytest.approx(1.0)
    assert rank_agreement(10 - squares(points), points) == pytest.approx(-1.0)
    assert rank_agreement(np.ones((3, 3)), points) is None
    assert rank_agreement(squares(points), np.zeros((3, 1))) is None


def test_a_bad_number_of_axes():
    with pytest.raises(ValueError, match="k must be at least 1, but is 0"):
        classical_scaling(np.zeros((2, 2)), 0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("squares", "k", "message"),
    [
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), 1, r"squares\[0, 1\] = nan is not finite"),
        (np.zeros((2, 3)), 1, r"squares must have shape \[S, S\]"),
        (np.zeros((2, 2)), 1.5, "k must be a whole number, not 1.5"),
    ],
)
def test_what_cannot_be_scaled_is_refused(squares, k, message):
    with pytest.raises(ValueError, match=message):
        classical_scaling(squares, k)


def test_principal_axes_are_the_scaling_of_the_points_distances():
    points = np.random.default_rng(2).normal(size=(9, 4))
    turned, scaled = principal_scaling(points, 2), classical_scaling(squares(points), 2)
    assert squares(turned.points) == pytest.approx(squares(scaled.points), abs=1e-10)
    assert turned.kept == pytest.approx(scaled.kept, abs=1e-12)
    assert principal_scaling(points, 6).points[:, 4:] == pytest.approx(0)
