"""Frames as pictures: planes by hand, maps both ways, and names of actions as other packages have them."""

import sys

import gymnasium
import minatar
import numpy as np
import pytest

from mico.deep.envs import AbstractHostEnv, environment
from mico.deep.trained.render import check_pictures, pictures, shrunk, state_names
from mico.deep.types import Spec
from mico.tabular import make as make_problem

GAMES = ("breakout", "asterix", "freeway", "seaquest", "space-invaders")


class Dumb(gymnasium.Env):
    """An environment of Gymnasium that cannot be drawn."""

    observation_space = gymnasium.spaces.Box(0, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)


gymnasium.register("Dumb-v0", Dumb, max_episode_steps=3)


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
        (
            environment("gym/Dumb-v0"),
            r"gym/Dumb-v0 cannot be watched: it has no render mode rgb_array, and its frames are",
        ),
        (Shown((4,), "float32"), r"gym/Shown cannot be watched: its frames are float32 of shape \[4\], not images"),
        (Shown((128,), "uint8"), r"frames are uint8 of shape \[128\], not images"),
        (Shown((8, 8, 4), "uint8"), r"shape \[8, 8, 4\], not images"),
        (Shown((8, 8), "float32"), "float32"),
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
        assert [name[0] for name in environment(f"minatar/{game}", actions=actions).action_names] == letters


def test_actions_of_atari_are_those_of_gymnasium():
    pytest.importorskip("ale_py")
    from ale_py.env import AtariEnv

    for actions in ("minimal", "all"):
        meanings = AtariEnv("freeway", full_action_space=actions == "all").get_action_meanings()
        names = environment("atari/freeway", actions=actions).action_names
        assert list(names) == [meaning.lower() for meaning in meanings]


def test_other_actions_are_numbered():
    assert environment("mdp/garnet", seed=0).action_names == ("0", "1", "2", "3")
    assert environment("gym/CartPole-v1").action_names == ("0", "1")


ARROWS = {"↑": (-1, 0), "↓": (1, 0), "←": (0, -1), "→": (0, 1)}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("four-rooms", "mirrored-rooms", "dayan", "open-grid", "cliff-walking")),
        ("frozen-lake", {"slippery": False}),
    ],
)
def test_arrows_point_where_actions_lead(name, options):
    """From every cell to the one beside it, wherever an action moves at all."""
    problem = make_problem(name, **options)
    place = {int(state): (row, column) for (row, column), state in np.ndenumerate(problem.layout.cells) if state >= 0}
    moves = 0
    for state, action, following, *_ in zip(*problem.mdp.outcomes(), strict=True):
        if state in place and following in place and state != following and (name, following) != ("cliff-walking", 36):
            arrow = ARROWS[environment(f"mdp/{name}", **options).action_names[action]]
            assert tuple(np.subtract(place[following], place[state])) == arrow
            moves += 1
    assert moves > len(place)


def test_states_without_a_map_are_squares_in_rows():
    env = environment("mdp/five-state")  # states 0 to 4, of which the last is absorbing
    drawn = pictures(env, np.eye(5, dtype=bool))
    middles = drawn[:, 2::4, 2::4]
    assert middles.shape == (5, 2, 3, 3)
    colours = middles.reshape(5, 6, 3)
    agent, other, absorbing, ground = colours[0, 0], colours[0, 1], colours[0, 4], colours[0, 5]
    assert len({tuple(colour) for colour in (agent, other, absorbing, ground)}) == 4
    for state in range(5):
        expected = [agent if square == state else absorbing if square == 4 else other for square in range(5)]
        np.testing.assert_array_equal(colours[state], [*expected, ground])
    assert (drawn[:, ::4] == ground).all()  # the gaps between rows
    assert pictures(environment("mdp/sparse-garnet", seed=0, num_states=6500), np.eye(1, 6500, dtype=bool)).shape == (
        1, 81, 81, 3
    )  # fmt: skip


def test_states_have_names_or_numbers_however_they_are_seen():
    one_hot, image = (environment("mdp/four-rooms", observation=shown) for shown in ("one-hot", "image"))
    cells = one_hot.problem.layout.cells
    seen = np.stack([np.stack([cells == state, cells < 0, cells < -1], axis=-1) for state in (0, 57)])
    assert state_names(image, seen) == ("state 0", "state 57")
    assert state_names(one_hot, np.eye(104, dtype=bool)[[0, 57]]) == ("state 0", "state 57")
    assert state_names(environment("mdp/five-state"), np.eye(5, dtype=bool)[[1]]) == ("s2",)
    assert state_names(environment("minatar/breakout"), np.zeros((1, 10, 10, 4), dtype=bool)) == ()


def test_images_are_shrunk_and_never_enlarged():
    image = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)
    np.testing.assert_array_equal(shrunk(image, 8), image)
    halved = image.reshape(2, 2, 4, 2, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(shrunk(image, 4), halved, atol=1)


def test_what_a_drawing_lacks_is_named(monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ModuleNotFoundError, match=r"^drawing CartPole-v1 needs a package: .*pip install"):
        check_pictures(environment("gym/CartPole-v1"))
