import numpy as np
import pytest

from mico.experiments.fidelity_worlds import world
from mico.tabular.problems.breakout import Breakout


@pytest.mark.parametrize(("kind", "size"), [("grid", 12), ("garnet", 40), ("breakout", 3)])
def test_rewards_are_of_the_state_and_of_a_few_levels(kind, size):
    mdp, observations = world(kind, size, discount=0.8, seed=3)
    np.testing.assert_array_equal(mdp.reward, np.repeat(mdp.reward[:, :1], mdp.num_actions, axis=1))
    assert set(np.unique(mdp.reward)) == ({0.0, 1.0} if kind == "breakout" else {0.0, 0.5, 1.0})
    assert mdp.discount == 0.8
    assert len(observations) == mdp.num_states
    assert len(np.unique(observations, axis=0)) == mdp.num_states


@pytest.mark.parametrize(("kind", "size"), [("grid", 12), ("garnet", 40)])
def test_a_seed_fixes_the_world(kind, size):
    one, same, other = (world(kind, size, discount=0.9, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.mdp.reward, same.mdp.reward)
    np.testing.assert_array_equal(one.observations, same.observations)
    assert not np.array_equal(one.mdp.reward, other.mdp.reward)
    assert not np.array_equal(one.observations, other.observations)


def test_a_grid_pays_by_tiles_and_shows_what_is_around():
    side = 12
    mdp, observations = world("grid", side, discount=0.9, seed=0)
    pay = mdp.reward[:, 0].reshape(side, side)
    for row in range(side):
        for column in range(side):
            assert pay[row, column] == pay[row // 5 * 5, column // 5 * 5]
            seen = [row / 11, column / 11]
            around = [(row + down, column + right) for down in range(-2, 3) for right in range(-2, 3)]
            inside = [0 <= i < side and 0 <= j < side for i, j in around]
            seen += [pay[cell] if there else 0.0 for cell, there in zip(around, inside)]
            seen += [0.0 if there else 1.0 for there in inside]
            np.testing.assert_allclose(observations[row * side + column], seen, rtol=1e-6)
    assert mdp.kernels[0][[side], [0]].item() == 1.0  # up, from the second row's first cell
    assert mdp.kernels[0][[0], [0]].item() == 1.0  # off the map


def test_breakout_shows_its_screens():
    game = Breakout(5, 3, 1)
    mdp, observations = world("breakout", 3, discount=0.9, seed=0)
    assert observations.shape == (mdp.num_states, 5 * 3 * 6)
    np.testing.assert_array_equal(observations[7], game.screens()[7].ravel())


def test_a_grid_that_pays_alike_everywhere_is_refused():
    """Of two by two tiles with three levels, one in 27 is such; what a seed draws is drawn here again."""
    alike = [seed for seed in range(200) if np.ptp(np.random.default_rng(seed).integers(3, size=(2, 2))) == 0]
    with pytest.raises(ValueError, match=f"seed {alike[0]} makes all 4 tiles of a grid of side 8 have the same reward"):
        world("grid", 8, discount=0.9, seed=alike[0])
