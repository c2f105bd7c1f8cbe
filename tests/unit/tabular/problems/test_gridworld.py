import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mico.tabular.policies import optimal_value
from mico.tabular.problems import from_map, make

STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def free_cells(lines):
    return [(r, c) for r, line in enumerate(lines) for c, mark in enumerate(line) if mark != "#"]


def walk(lines, cell, step):
    """Where a step leads, and whether it bumped."""
    row, column = cell[0] + step[0], cell[1] + step[1]
    if not (0 <= row < len(lines) and 0 <= column < len(lines[0])) or lines[row][column] == "#":
        return cell, True
    return (row, column), False


def naive(lines, dynamics, slip):
    """What can happen in each state and action, {(s, a): {(s', reward): probability}}, by loops over the map."""
    cells = free_cells(lines)
    marked = {cell for cell in cells if lines[cell[0]][cell[1]] == "G"}
    table = {}
    for state, cell in enumerate(cells):
        for action in range(4):
            happens = table[state, action] = Counter()
            for move, step in enumerate(STEPS):
                chance = slip / 4 + (1 - slip) * (move == action)
                end, bumped = walk(lines, cell, step)
                if dynamics == "absorbing" and cell in marked:
                    happens[state, 0.0] += chance
                elif dynamics == "continuing" and bumped:
                    happens[state, -1.0] += chance
                else:
                    happens[cells.index(end), float(end in marked and end != cell)] += chance
    return table


def listed(mdp):
    table = {(s, a): Counter() for s in range(mdp.num_states) for a in range(mdp.num_actions)}
    for state, action, following, probability, reward in zip(*mdp.outcomes(), strict=True):
        table[state, action][following, reward] += probability
    return table


maps = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.text("# .SG", min_size=width, max_size=width), min_size=1, max_size=4)
)


@given(lines=maps, dynamics=st.sampled_from(["absorbing", "continuing"]), slip=st.sampled_from([0.0, 0.3]))
def test_moves_are_those_of_a_walk_on_the_map(lines, dynamics, slip):
    lines = [*lines, "G" * len(lines[0])]
    mdp = from_map(lines, discount=0.9, dynamics=dynamics, slip=slip).mdp
    expected, found = naive(lines, dynamics, slip), listed(mdp)
    assert found.keys() == expected.keys()
    for key, happens in expected.items():
        wanted = {outcome: chance for outcome, chance in happens.items() if chance > 0}
        assert found[key] == pytest.approx(wanted)


def test_goal_takes_the_place_of_the_marked_ones():
    grid = from_map("G .", discount=0.9, goal=1)
    assert grid.layout.goals == (1,)
    np.testing.assert_array_equal(grid.mdp.reward, [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]])


@pytest.mark.parametrize(("name", "count"), [("four-rooms", 104), ("mirrored-rooms", 31), ("dayan", 66)])
def test_counts_of_the_named_maps(name, count):
    grid = make(name)
    assert grid.mdp.num_states == count == (grid.layout.cells >= 0).sum()


def reach(cells, start):
    """The free cells that a walk from one of them can reach."""
    seen, front = {start}, [start]
    while front:
        row, column = front.pop()
        for down, right in STEPS:
            there = row + down, column + right
            inside = 0 <= there[0] < cells.shape[0] and 0 <= there[1] < cells.shape[1]
            if inside and cells[there] >= 0 and there not in seen:
                seen.add(there)
                front.append(there)
    return seen


def test_four_rooms_has_four_hallways_between_four_rooms():
    cells = make("four-rooms").layout.cells.copy()
    assert cells.shape == (13, 13)
    assert len(reach(cells, (1, 1))) == 104
    hallways = [(3, 6), (6, 2), (7, 9), (10, 6)]
    assert all(cells[hallway] >= 0 for hallway in hallways)
    for hallway in hallways:
        cells[hallway] = -1
    rooms = [len(reach(cells, corner)) for corner in [(1, 1), (1, 11), (11, 1), (11, 11)]]
    assert rooms == [25, 30, 25, 20]
    assert make("four-rooms").layout.goals == (make("four-rooms").layout.cells[7, 9],)


def test_mirrored_rooms_are_two_copies_and_a_door():
    layout = make("mirrored-rooms").layout
    free = layout.cells >= 0
    np.testing.assert_array_equal(np.argwhere(free[4]), [[3]])
    np.testing.assert_array_equal(free[1:4], free[5:8])
    assert free[1:4, 1:6].all()
    assert not free[[0, -1]].any()
    assert not free[:, [0, -1]].any()
    assert layout.goals == (layout.cells[1, 5], layout.cells[5, 5])


def test_mirrored_rooms_continuing_pays_for_goals_and_walls():
    mdp = make("mirrored-rooms", dynamics="continuing").mdp
    assert mdp.reward[3, 3] == 1  # right, into the corner
    assert mdp.reward[4, 3] == mdp.reward[4, 0] == -1  # against its walls, though the agent stays in the goal
    assert mdp.reward[4, 2] == mdp.reward[4, 1] == 0  # the goal lets go
    assert mdp.kernels[2][4, 3] == 1


def test_dayan_has_a_barrier_open_to_the_right():
    cells = make("dayan").layout.cells
    assert cells.shape == (9, 13)
    inside = cells[1:-1, 1:-1]
    walls = {(1, c) for c in range(5, 9)} | {(5, c) for c in range(5, 9)} | {(r, 5) for r in range(1, 6)}
    assert {tuple(int(i) for i in spot) for spot in np.argwhere(inside < 0)} == walls
    assert len(reach(cells, (1, 1))) == 66


def test_open_grid_values_are_powers_of_the_discount():
    """From a cell d steps away from the corner the best return is γ^(d−1)."""
    grid = make("open-grid", height=3, width=4, discount=0.5)
    distance = np.add.outer(np.arange(2, -1, -1), np.arange(3, -1, -1)).ravel()
    value = np.where(distance > 0, 0.5 ** (distance - 1.0), 0)
    np.testing.assert_allclose(optimal_value(grid.mdp), value)


def test_a_million_cells_take_seconds():
    start = time.perf_counter()
    grid = make("open-grid", height=1000, width=1000)
    assert time.perf_counter() - start < 10
    assert grid.mdp.num_states == 10**6
    assert grid.mdp.kernels[1][0, 1000] == grid.mdp.kernels[3][0, 1] == grid.mdp.kernels[0][0, 0] == 1
    assert grid.mdp.reward.sum() == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("G .\n#x.", "line 2, column 2 of the map: 'x'"),
        ("\n\nG .\n#\t.", r"line 4, column 2 of the map: '\\t'"),
        ("G .\n..", "line 2 of the map ends at column 2, but line 1 at 3"),
        ("G.\n\n..", "line 2 of the map ends at column 0, but line 1 at 2"),
        ("##\n##", "no free cell"),
        ("", "no free cell"),
        ([], "no free cell"),
        ("..", "no goal"),
    ],
)
def test_unreadable_maps(text, message):
    with pytest.raises(ValueError, match=message):
        from_map(text, discount=0.9)


def test_empty_lines_around_a_map_do_not_count():
    assert from_map("\n G\n\n", discount=0.9).layout.cells.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": 104}, "goal must be a state in 0..103, but is 104"),
        ({"goal": -1}, "goal .* -1"),
        ({"goal": 1.5}, "goal must be a state in 0..103, but is 1.5"),
        ({"slip": 1.0}, "slip .* 1.0"),
        ({"slip": -0.1}, "slip .* -0.1"),
        ({"slip": float("nan")}, "slip .* nan"),
        ({"discount": 1.0}, "discount .* 1.0"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        make("four-rooms", **options)


@pytest.mark.usefixtures("unchecked")
def test_sizes_out_of_range():
    with pytest.raises(ValueError, match=r"height must be a whole number, not 1.5"):
        make("open-grid", height=1.5)
    with pytest.raises(ValueError, match="width must be at least 1, but is 0"):
        make("open-grid", width=0)


def test_map_file(tmp_path):
    path = tmp_path / "room.txt"
    path.write_text("####\r\n#SG#\r\n####\r\n")
    grid = make("map", path=path)
    assert grid.layout.cells.tolist() == [[-1] * 4, [-1, 0, 1, -1], [-1] * 4]
    assert grid.layout.goals == (1,)


@pytest.mark.usefixtures("unchecked")
def test_the_path_of_a_map_may_be_a_string(tmp_path):
    path = tmp_path / "room.txt"
    path.write_text("SG")
    assert make("map", path=str(path)).layout.goals == (1,)
    with pytest.raises(ValueError, match=r"none.txt: No such file"):
        make("map", path=str(tmp_path / "none.txt"))


def test_map_file_errors_start_with_the_path(tmp_path):
    missing, odd, binary = tmp_path / "none.txt", tmp_path / "odd.txt", tmp_path / "binary.txt"
    odd.write_text("G?")
    binary.write_bytes(b"\xff\xfe")
    for path, message in [(missing, "No such file"), (odd, "line 1, column 2"), (binary, "is not text")]:
        with pytest.raises(ValueError, match=message) as caught:
            make("map", path=path)
        assert str(caught.value).startswith(f"{path}: ")
