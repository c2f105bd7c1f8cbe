"""Frames as pictures: planes by hand, maps both ways, and names of actions as other packages have them."""

import minatar
import numpy as np
import pytest

from mico.deep.envs import AbstractHostEnv, environment
from mico.deep.pictures import action_names, check_pictures, pictures
from mico.deep.types import Spec

GAMES = ("breakout", "asterix", "freeway", "seaquest", "space-invaders")


class Shown(AbstractHostEnv):
    """An environment of which only the frames matter."""

    shape: tuple[int, ...]
    dtype: str
    name = "gym/Shown"

    def settings(self):
        return {}

    @property
    def spec(self):
        return Spec(self.shape, self.dtype, 2)

    def make(self, num_envs):
        raise NotImplementedError


def test_each_plane_has_a_colour_and_the_first_covers_the_others():
    env = environment("minatar/seaquest")
    frames = np.zeros((1, 10, 10, 10), dtype=bool)
    for plane in range(10):
        frames[0, 0, plane, plane] = True
    frames[0, 1, 1, [2, 5]] = True
    (image,) = pictures(env, frames)
    colours = {tuple(pixel) for pixel in image[0]}
    assert len(colours) == 10
    assert tuple(image[1, 1]) == tuple(image[0, 2])
    assert tuple(image[5, 5]) not in colours
    assert (image.shape, image.dtype) == ((10, 10, 3), np.uint8)


def test_bytes_stay_what_they_are():
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    for frames in (grey, grey[..., None]):
        found = pictures(Shown(frames.shape[1:], "uint8"), frames)
        for channel in range(3):
            np.testing.assert_array_equal(found[..., channel], grey)
    coloured = rng.integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(pictures(Shown((4, 5, 3), "uint8"), coloured), coloured)


def test_one_hot_states_are_drawn_on_their_map_as_images_are():
    image, state = (environment("mdp/four-rooms", observation=shown) for shown in ("image", "one-hot"))
    cells = state.problem.layout.cells
    for number in (0, 50, 103):
        row, column = np.argwhere(cells == number)[0]
        seen = np.stack([cells == number, cells < 0, np.isin(cells, state.problem.layout.goals)], axis=-1)
        drawn = pictures(state, (np.arange(state.spec.shape[0]) == number)[None])[0]
        np.testing.assert_array_equal(drawn, pictures(image, seen[None])[0])
        assert ((drawn == drawn[row, column]).all(axis=-1) == (cells == number)).all()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Shown((4,), "float32"), r"gym/Shown cannot be watched: its frames are float32 of shape \[4\], not images"),
        (Shown((128,), "uint8"), r"frames are uint8 of shape \[128\], not images"),
        (Shown((8, 8, 4), "uint8"), r"shape \[8, 8, 4\], not images"),
        (Shown((8, 8), "float32"), "float32"),
        (environment("mdp/five-state"), "mdp/five-state cannot be watched: it has no map to show its states on"),
    ],
)
def test_what_cannot_be_looked_at_says_why(env, message):
    with pytest.raises(ValueError, match=message):
        check_pictures(env)


@pytest.mark.parametrize("game", GAMES)
def test_actions_of_minatar_are_those_of_its_own_package(game):
    own = minatar.Environment(game.replace("-", "_"))
    for actions, numbers in (("minimal", own.minimal_action_set()), ("all", range(6))):
        letters = [own.env.action_map[number] for number in numbers]
        assert [name[0] for name in action_names(environment(f"minatar/{game}", actions=actions))] == letters


def test_actions_of_atari_are_those_of_gymnasium():
    pytest.importorskip("ale_py")
    from ale_py.env import AtariEnv

    for actions in ("minimal", "all"):
        meanings = AtariEnv("freeway", full_action_space=actions == "all").get_action_meanings()
        names = action_names(environment("atari/freeway", actions=actions))
        assert list(names) == [meaning.lower() for meaning in meanings]


def test_other_actions_are_numbered():
    assert action_names(environment("mdp/four-rooms")) == ("0", "1", "2", "3")
