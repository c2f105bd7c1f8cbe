"""Pictures of play: what is painted, pixel by pixel, is what was handed in."""

import numpy as np
import pytest
from PIL import Image

from mico.deep.trained.stills import Play, Stills

CHOSEN, BAR, PAID = (213, 94, 0), (143, 184, 212), (0, 158, 115)


def play(steps=5, actions=3, neighbours=2, side=10, **given):
    rng = np.random.default_rng(0)
    fields = {
        "title": "a run",
        "actions": tuple(f"action {number}" for number in range(actions)),
        "pictures": rng.integers(0, 256, (steps, side, side, 3), dtype=np.uint8),
        "values": rng.uniform(1, 2, (steps, actions)),
        "action": rng.integers(0, actions, steps),
        "reward": np.zeros(steps),
        "returned": np.zeros(steps),
        "ended": np.zeros(steps, dtype=bool),
        "stored": rng.integers(0, 256, (6, side, side, 3), dtype=np.uint8),
        "neighbours": rng.integers(0, 6, (steps, neighbours)),
        "distances": rng.uniform(0, 1, (steps, neighbours)),
        "caption": "nearest",
    }
    fields |= given
    return Play(**({"worth": fields["values"].max(axis=1)} | fields))


def places(image, colour):
    """Rows and columns of the pixels of a colour."""
    return np.argwhere((np.asarray(image) == colour).all(axis=-1))


def holds(image, patch):
    """Whether a patch is somewhere in the image, pixel by pixel."""
    whole, (height, width, _) = np.asarray(image), patch.shape
    corners = places(image, patch[0, 0])
    return any(np.array_equal(whole[row : row + height, column : column + width], patch) for row, column in corners)


def enlarged(picture, scale):
    return np.kron(picture, np.ones((scale, scale, 1), dtype=np.uint8))


@pytest.mark.parametrize(("name", "shape"), [("values", (5, 3)), ("worth", (5,))])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(name, shape, number):
    numbers = np.ones(shape)
    numbers[3] = number
    with pytest.raises(ValueError, match=r"^a run: its values are not finite at step 3, and cannot be drawn"):
        Stills(play(**{name: numbers}))


@pytest.mark.parametrize(("side", "large", "small"), [(10, 33, 9), (84, 4, 1), (13, 25, 7)])
def test_frames_and_neighbours_are_there_with_crisp_pixels(side, large, small):
    given = play(side=side)
    for step, image in enumerate(Stills(given)):
        assert holds(image, enlarged(given.pictures[step], large))
        for row in given.neighbours[step]:
            assert holds(image, enlarged(given.stored[row], small))
        for row in set(range(6)) - set(given.neighbours[step].tolist()):
            assert not holds(image, enlarged(given.stored[row], small))


def test_pictures_larger_than_their_place_are_shrunk_whole():
    flat = np.full((1, 672, 336, 3), (10, 200, 30), dtype=np.uint8)
    given = play(steps=1, neighbours=0)._replace(pictures=flat)
    found = places(Stills(given)[0], (10, 200, 30))
    assert (np.ptp(found, axis=0) + 1).tolist() == [336, 168]


def bars(values, action):
    """The colour, the left and the right end of each action's bar, at the first of the steps."""
    steps, actions = values.shape
    black = np.zeros((steps, 10, 10, 3), dtype=np.uint8)
    stills = Stills(play(steps, actions, 0, values=values, action=action, pictures=black))
    found = []
    for image in stills:
        painted = np.asarray(image)[64 : 64 + 44 * actions, 400:]  # not the mark beside a name
        for middle in painted[22::44]:
            for colour in (BAR, CHOSEN):
                columns = np.flatnonzero((middle == colour).all(axis=-1))
                if columns.size:
                    found.append((colour, columns.min(), columns.max()))
    return found


def test_bars_are_as_long_as_values_and_the_chosen_one_has_its_colour():
    found = bars(np.array([[1.0, 4.0, 2.0]]), np.array([2]))
    assert [colour for colour, _, _ in found] == [BAR, BAR, CHOSEN]
    lengths = np.array([right - left for _, left, right in found])
    assert lengths / lengths[0] == pytest.approx([1, 4, 2], rel=0.05)


def test_negative_values_reach_to_the_left_of_zero():
    (_, left, middle), (_, start, right) = bars(np.array([[-1.0, 1.0]]), np.array([0]))
    assert abs(middle - start) <= 2
    assert middle - left == pytest.approx(right - start, abs=2)


def test_values_keep_their_scale_over_all_steps():
    (_, left, longest), (_, start, shorter) = bars(np.array([[4.0], [1.0]]), np.array([0, 0]))
    assert left == start
    assert longest - left == pytest.approx(4 * (shorter - start), rel=0.05)


@pytest.mark.parametrize(
    "change",
    [
        {"returned": np.array([5.0])},
        {"reward": np.array([1.0])},
        {"title": "another run"},
        {"caption": "farthest"},
        {"actions": ("up", "down", "left")},
        {"distances": np.array([[0.125, 0.25]])},
        {"action": np.array([2])},
        {"values": np.array([[1.0, 1.5, 1.75]])},
    ],
)
def test_everything_is_told(change):
    usual = play(steps=1, action=np.array([1]))
    assert Stills(usual)[0].tobytes() == Stills(play(steps=1, action=np.array([1])))[0].tobytes()
    assert Stills(usual._replace(**change))[0].tobytes() != Stills(usual)[0].tobytes()


def test_episodes_and_steps_are_counted(monkeypatch):
    told = []
    given = play(steps=4, ended=np.array([False, True, False, False]), returned=np.array([1.0, 2.0, 0.0, 0.5]))
    given = given._replace(reward=np.array([1.0, 1.0, 0.0, 0.5]))
    stills = Stills(given)
    monkeypatch.setattr("PIL.ImageDraw.ImageDraw.text", lambda self, place, text, *_, **__: told.append(text))
    for step in range(4):
        stills[step]
    assert [text for text in told if text.startswith("episode")] == [
        "episode 1   step 1   return 1 (+1)",
        "episode 1   step 2   return 2 (+1)",
        "episode 2   step 1   return 0",
        "episode 2   step 2   return 0.5 (+0.5)",
    ]
    numbers = [text for text in told if text in {f"{value:.3f}" for value in given.values.ravel()}]
    assert numbers == [f"{value:.3f}" for value in given.values.ravel()]


def test_the_cursor_moves_and_rewards_are_marked():
    given = play(steps=8, neighbours=0, reward=np.array([0, 0, 0, 1.0, 0, 0, 0, 0]))
    given = given._replace(pictures=np.zeros_like(given.pictures))
    stills = Stills(given)
    cursors = [np.median([column for row, column in places(image, CHOSEN) if row > 430]) for image in stills]
    assert np.diff(cursors) == pytest.approx([np.diff(cursors)[0]] * 7, abs=2)
    assert np.diff(cursors)[0] > 50
    marks = [column for row, column in places(stills[0], PAID) if row > 430]
    assert abs(np.mean(marks) - cursors[3]) < 3


def test_missing_neighbours_are_left_out():
    given = play(steps=1, distances=np.array([[0.5, np.inf]]), neighbours=2)
    given = given._replace(neighbours=np.array([[1, 2]]))
    image = Stills(given)[0]
    assert holds(image, enlarged(given.stored[1], 9))
    assert not holds(image, enlarged(given.stored[2], 9))


def test_sizes_depend_on_the_neighbours_alone():
    sizes = [Stills(play(neighbours=count))[0].size for count in (0, 1, 6, 7)]
    assert sizes[1] == sizes[2]
    assert sizes[0][1] < sizes[1][1] < sizes[3][1]
    assert len({width for width, _ in sizes}) == 1


@pytest.mark.parametrize("actions", [1, 18, 200])
def test_few_and_many_actions_have_room(actions):
    given = play(steps=1, actions=actions, action=np.array([actions - 1]))
    assert Stills(given)[0].size == Stills(play(steps=1))[0].size


def test_values_that_are_all_zero_can_be_drawn():
    assert isinstance(Stills(play(steps=1, values=np.zeros((1, 3))))[0], Image.Image)


def test_it_is_a_sequence():
    stills = Stills(play(steps=5))
    assert len(stills) == 5
    assert stills[-1].tobytes() == stills[4].tobytes()
    assert [image.tobytes() for image in stills[1:3]] == [stills[1].tobytes(), stills[2].tobytes()]
    for beyond in (5, -6):
        with pytest.raises(IndexError, match=f"there are 5 pictures, and none is {beyond}"):
            stills[beyond]


def test_numbers_of_an_action_are_bars_of_which_none_is_chosen():
    values = np.array([[0.5, -1.0]] * 5)
    discrete, vector = (Stills(play(actions=2, values=values, action=action))[0] for action in (np.zeros(5, int), None))
    beside = slice(None, 420), slice(352, None)  # right of the picture, above the curve
    chosen = [len(places(np.asarray(image)[beside], CHOSEN)) for image in (discrete, vector)]
    assert chosen[0] > 100
    assert chosen[1] == 0
    bars = places(np.asarray(vector)[beside], BAR)
    first, second = (bars[bars[:, 0] == row, 1] for row in (bars[:, 0].min() + 2, bars[:, 0].max() - 2))
    assert np.ptp(second) == pytest.approx(2 * np.ptp(first), abs=3)
