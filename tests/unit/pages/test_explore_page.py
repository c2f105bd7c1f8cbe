"""The page of `mico explore` in a real browser: what it shows is what the library gives."""

import json
import re

import numpy as np
import pytest

from browsers import assert_both_themes_can_be_read, needs_chromium, visits
from mico import cli
from mico.pages.explore import Exploration, Plane, View, explore_page
from mico.tabular import METRICS, factored_mico, make, optimal_value, solve
from mico.tabular.diagnostics import ValueBound, value_bound
from mico.tabular.plotting import is_crowded

ROOMS = make("mirrored-rooms")
GARNET = make("garnet", seed=1, num_states=12)
ODD = ["<b>here</b>", "</script>", "a long name that does not end before the line of a phone does, nor after it"]
MINE = {
    "transition": [[[0.5, 0.5, 0]], [[0, 0.5, 0.5]], [[0, 0, 1]]],
    "reward": [[1], [2], [0]],
    "discount": 0.5,
    "names": ODD,
    "map": [[0, -1, 1]],  # the last state has no cell
    "goals": [1],
}
FOCUS = """() => {
  const at = document.activeElement, ringed = [at, at.nextElementSibling].filter((e) => e);
  const where = at.id || at.name || at.closest("[id]")?.id || at.tagName;
  return [where, ringed.some((e) => getComputedStyle(e).outlineWidth === "3px")];
}"""
END = "rgb(236, 229, 27)"  # of the distances' colours, as viridis has it near its end


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page with a map, one with a matrix, one from a file."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "mine.json").write_text(json.dumps(MINE))
    garnet = ("garnet", "--seed", "1", "--num-states", "12", "--metrics", "mico", "bisimulation")
    for name, argv in {"rooms": ("mirrored-rooms",), "garnet": garnet, "mine": (str(folder / "mine.json"),)}.items():
        cli.main(["explore", *argv, "--out", str(folder / f"{name}.html")])
    return folder


@pytest.fixture
def opened(browser, pages):
    with visits(browser) as opening:
        yield lambda name, **how: opening(pages / f"{name}.html", **how)


def number(text):
    return float(text.replace("−", "-"))


def printed(expected, error=1e-8):
    """Four digits of the number; what the certified error does not tell from 0 is 0."""
    return pytest.approx(expected, rel=5.1e-4, abs=error)


def distances(page):
    """The distances of all states in the table, which is opened for it."""
    if page.get_attribute("#everything", "open") is None:
        page.click("#everything summary")
        page.wait_for_selector("#every tr")
    rows = page.eval_on_selector_all("#every tr", "rows => rows.map(r => [r.dataset.state, r.cells[1].innerText])")
    return [number(text) for _, text in sorted(rows, key=lambda row: int(row[0]))]


def chosen(page):
    """The state that each view shows as chosen."""
    on_map = page.eval_on_selector_all(".cell[aria-selected=true]", "cells => cells.map(c => c.dataset.state)")
    in_plane = page.eval_on_selector_all("#plane [aria-selected=true]", "points => points.map(p => p.dataset.state)")
    return {*on_map, *in_plane, page.input_value("#state")}


def facts(page):
    names, numbers = page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts()
    return dict(zip((re.sub(r"\s", "", name) for name in names), numbers, strict=True))


@needs_chromium
def test_a_click_on_the_map_measures_from_that_cell(opened):
    page, d = opened("rooms"), solve("mico", ROOMS.mdp).matrix
    for state in (17, 4):
        page.click(f".cell[data-state='{state}']")
        assert chosen(page) == {str(state)}
        assert distances(page) == printed(d[state])
        labels = page.eval_on_selector_all(
            ".cell", "cells => cells.map(c => [c.dataset.state, c.ariaLabel, c.innerText])"
        )
        assert len(labels) == 31
        for other, label, text in labels:
            assert number(label.split("distance ")[1]) == printed(d[state, int(other)])
            rough = 0.34 if "e" in text else 0.051  # one digit, two digits
            assert number(text) == pytest.approx(d[state, int(other)], rel=rough, abs=1e-8)
            assert len(text) <= 5


@needs_chromium
def test_another_metric_shows_its_own_numbers(opened):
    page = opened("rooms")
    page.click(".cell[data-state='9']")
    for name in METRICS:
        page.check(f"input[value='{name}']")
        assert distances(page) == printed(solve(name, ROOMS.mdp).matrix[9])
        assert METRICS[name].summary == page.inner_text("#summary")


@needs_chromium
def test_numbers_about_metric_and_state(opened):
    page, k = opened("rooms"), 8
    page.click("#everything summary")
    page.fill("#near", str(k))
    page.select_option("#state", "20")
    for name in ("mico", "reduced-mico", "lax-bisimulation"):
        page.check(f"input[value='{name}']")
        solution = solve(name, ROOMS.mdp)
        value, symbol = (
            (optimal_value(ROOMS.mdp), "V*") if METRICS[name].on == "mdp" else (ROOMS.mdp.chain().value(), "Vπ")
        )
        bound, shown = value_bound(solution.matrix, value, error=solution.error), facts(page)
        assert number(shown["Certifiederror"]) == pytest.approx(solution.error, rel=0.051)
        assert shown[f"Pairswith|Δ{symbol}|>d"] == f"{bound.broken:.1%}"
        assert (bound.broken > 0) == (name == "reduced-mico") == (page.locator("#every .broken").count() > 0)
        assert number(shown[f"Meangapd−|Δ{symbol}|"]) == printed(bound.mean_gap)
        assert number(shown["Self-distance"]) == printed(solution.matrix[20, 20])
        assert number(shown["OptimalvalueV*" if symbol == "V*" else "ValueVπ"]) == printed(value[20])
        rows = page.eval_on_selector_all("#nearest tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))")
        others = [state for state in np.argsort(solution.matrix[20].astype("f4"), kind="stable") if state != 20][:k]
        assert [int(row[1]) for row in rows] == others
        for row, state in zip(rows, others, strict=True):
            gap = abs(value[20] - value[state])
            expected = [solution.matrix[20, state], gap, value[state]]
            assert [number(text.removesuffix(" > d")) for text in row[2:]] == printed(expected)
            assert row[3].endswith(" > d") == (gap > solution.matrix[20, state] + 1e-6)


@needs_chromium
def test_arrows_move_over_cells_and_enter_chooses(opened):
    """Mirrored rooms: from the cell above the door down through it; then to the side, until the wall."""
    page, cells = opened("rooms"), ROOMS.layout.cells
    rows, columns = np.nonzero(cells >= 0)
    door = next(int(r) for r in rows if (cells[r] >= 0).sum() == 1)
    column = int(columns[rows == door][0])
    page.click(f".cell[data-state='{cells[door - 1, column]}']")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    state = cells[door + 1, column]
    assert chosen(page) == {str(state)}
    assert distances(page) == printed(solve("mico", ROOMS.mdp).matrix[state])
    page.focus(f".cell[data-state='{state}']")
    last = max(columns[rows == door + 1])
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    assert chosen(page) == {str(cells[door + 1, last])}


@needs_chromium
def test_focus_tells_the_value_and_tab_reaches_every_control(opened):
    page, d = opened("rooms"), solve("mico", ROOMS.mdp).matrix
    goal = ROOMS.layout.goals[0]
    seen = []
    while seen.count("theme") < 2 and len(seen) < 40:
        page.keyboard.press("Tab")
        where, ringed = page.evaluate(FOCUS)
        assert ringed or where in ("plane", "BODY")
        if where == "map" and "map" not in seen:
            page.keyboard.press("ArrowDown")
            below = ROOMS.layout.cells[tuple(np.argwhere(ROOMS.layout.cells == goal)[0] + [1, 0])]
            text = page.inner_text("#distance-readout")
            assert text.startswith(f"d({goal}, {below}) = ")
            assert number(text.split(" = ")[1].split(",")[0]) == printed(d[goal, below])
        if where == "plane":
            assert page.is_visible("#plane .mark.focus")
        seen.append(where)
    assert {"theme", "metric", "state", "scale", "near", "picture", "map", "plane", "nearest"} <= set(seen)
    assert "everything-title" in seen


@needs_chromium
def test_points_are_the_exact_embedding_and_choose_by_click_and_key(opened):
    page = opened("rooms")
    page.check("input[value='reduced-mico']")
    centres = np.array(
        page.eval_on_selector_all(
            "#plane [role=option]", "ps => ps.map(p => [+p.getAttribute('cx'), +p.getAttribute('cy')])"
        )
    )
    far = factored_mico(ROOMS.mdp.chain("uniform"), tolerance=1e-10)
    exact = far.embedding(2)
    apart, expected = (np.linalg.norm(a[:, None] - a, axis=2) for a in (centres, exact))
    assert apart == pytest.approx(expected * (apart.max() / expected.max()), abs=0.01)
    psi = far.factors.psi
    kept = (exact**2).sum() / ((psi - psi.mean(axis=0)) ** 2).sum()
    assert f"keep {kept:.1%} of ΠU" in page.inner_text("#plane-kept")
    alone = int(np.argmax(np.sort(apart, axis=1)[:, 1]))
    box = page.locator("#plane").bounding_box()
    page.mouse.click(box["x"] + centres[alone, 0] + 3, box["y"] + centres[alone, 1] - 3)
    assert chosen(page) == {str(alone)}
    assert distances(page) == printed(solve("reduced-mico", ROOMS.mdp).matrix[alone])
    left = int(np.argmin(centres[:, 0]))
    page.select_option("#state", str(left))
    page.locator("#plane [role=option]").nth(left).focus()
    page.keyboard.press("ArrowRight")
    focused = int(page.evaluate("document.activeElement.dataset.state"))
    assert centres[focused, 0] > centres[left, 0]
    page.keyboard.press("Enter")
    assert chosen(page) == {str(focused)}


@needs_chromium
def test_points_are_coloured_by_value_and_the_nearest_are_ringed(opened):
    page, value = opened("rooms"), ROOMS.mdp.chain("uniform").value()
    fills = page.eval_on_selector_all("#plane [role=option]", "ps => ps.map(p => p.getAttribute('fill'))")
    assert fills[int(value.argmax())] == "rgb(244 225 86)"
    assert fills[int(value.argmin())] == "rgb(66 10 104)"
    page.fill("#near", "3")
    rings = page.eval_on_selector_all(".mark.near", "rs => rs.map(r => [r.getAttribute('cx'), r.getAttribute('cy')])")
    row = solve("mico", ROOMS.mdp).matrix[ROOMS.layout.goals[0]]
    near = [state for state in np.argsort(row.astype("f4"), kind="stable") if state != ROOMS.layout.goals[0]][:3]
    place = "p => [p.getAttribute('cx'), p.getAttribute('cy')]"
    assert rings == [page.eval_on_selector(f"#plane [data-state='{state}']", place) for state in near]
    dots = page.eval_on_selector_all(".cell.near", "cells => cells.map(c => +c.dataset.state)")
    assert sorted(dots) == sorted(near)


@needs_chromium
def test_colours_follow_the_scale_and_the_legend_says_it(opened):
    page, d = opened("rooms"), solve("mico", ROOMS.mdp).matrix
    state = int(d.max(axis=1).argmin())
    page.click(f".cell[data-state='{state}']")
    farthest = f".cell[data-state='{int(d[state].argmax())}']"
    ticks = {"all": d.max(), "state": d[state].max(), "ranks": d[state].max()}
    assert d.max() > 1.05 * d[state].max()
    for scale, top in ticks.items():
        page.select_option("#scale", scale)
        shown = page.locator("#distance-legend .ticks span").all_inner_texts()
        assert number(shown[-1]) == pytest.approx(top, rel=5.1e-3)
        colour = page.eval_on_selector(farthest, "cell => getComputedStyle(cell).backgroundColor")
        assert (colour == END) == (scale != "all")
        if scale == "ranks":
            assert number(shown[2]) == pytest.approx(np.sort(d[state])[15], rel=5.1e-3)


@needs_chromium
@pytest.mark.parametrize("name", ["rooms", "garnet", "mine"])
def test_a_phone_scrolls_in_one_direction_only(opened, name):
    page = opened(name, width=360, height=740, touch=True)
    page.click("#everything summary")
    for metric in page.locator("input[name=metric]").all():
        metric.check()
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    if name == "rooms":
        page.tap(".cell[data-state='12']")
        assert chosen(page) == {"12"}
        assert distances(page) == printed(solve("reward-law", ROOMS.mdp).matrix[12])


@needs_chromium
@pytest.mark.parametrize("name", ["rooms", "garnet", "mine"])
def test_both_themes_can_be_read(opened, name):
    assert_both_themes_can_be_read(opened, name, lambda page: page.click("#everything summary"), texts=40)


@needs_chromium
def test_nothing_moves_when_something_is_chosen_or_pointed_at(opened):
    page = opened("rooms")
    places = (
        "() => ['map', 'plane', 'distance-readout', 'state-title'].map(id => document.getElementById(id).offsetTop)"
    )
    before = page.evaluate(places)
    page.hover(".cell[data-state='3']")
    page.click(".cell[data-state='5']")
    page.check("input[value='lax-bisimulation']")
    assert page.evaluate(places) == before


@needs_chromium
def test_a_problem_without_a_map_is_a_matrix(opened):
    page, d = opened("garnet"), solve("mico", GARNET.mdp).matrix
    assert page.is_visible("#matrix")
    assert not page.is_visible("#map")
    assert not page.is_visible("#picture")
    box = page.locator("#matrix").bounding_box()
    cell = box["width"] / 12
    page.mouse.move(box["x"] + 8.5 * cell, box["y"] + 5.5 * cell)
    text = page.inner_text("#distance-readout")
    assert text.startswith("d(5, 8) = ")
    assert number(text.split(" = ")[1].split(",")[0]) == printed(d[5, 8])
    page.mouse.click(box["x"] + 8.5 * cell, box["y"] + 5.5 * cell)
    assert chosen(page) == {"5"}
    assert distances(page) == printed(d[5])
    page.focus("#matrix")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert chosen(page) == {"7"}
    page.check("input[value='bisimulation']")
    assert distances(page) == printed(solve("bisimulation", GARNET.mdp).matrix[7])


@needs_chromium
def test_the_matrix_is_painted_by_its_distances(opened):
    """The largest entry has the last colour, the smallest the first; read off beside the numbers in the cells."""
    page, d = opened("garnet"), solve("mico", GARNET.mdp).matrix
    painted = """() => { const { width, height } = document.getElementById('matrix');
      return [...document.getElementById('matrix').getContext('2d').getImageData(0, 0, width, height).data]; }"""
    ends = [(divmod(int(d.argmax()), 12), [236, 229, 27]), (divmod(int(d.argmin()), 12), [72, 36, 117])]
    page.select_option("#state", str(min({*range(12)} - {row + near for (row, _), _ in ends for near in (-1, 0, 1)})))
    pixels = np.array(page.evaluate(painted))
    side = int((len(pixels) / 4) ** 0.5)
    image = pixels.reshape(side, side, 4)
    for (x, y), colour in ends:
        assert image[int((x + 0.2) * side / 12), int((y + 0.15) * side / 12), :3].tolist() == colour


@needs_chromium
def test_colours_start_by_rank_where_linear_ones_would_hide_many_distances(opened):
    """Until the reader chooses a scale, each metric starts with the colours that suit its distances."""
    page, goal = opened("rooms"), ROOMS.layout.goals[0]
    scales = {}
    for name in METRICS:
        d = solve(name, ROOMS).matrix
        page.check(f"input[value='{name}']")
        scales[name] = page.input_value("#scale")
        assert scales[name] == ("ranks" if is_crowded(d) or is_crowded(d[goal]) else "all")
        assert ("by rank" in page.inner_text("#distance-legend")) == (scales[name] == "ranks")
    assert set(scales.values()) == {"ranks", "all"}
    page.select_option("#scale", "state")
    for name in METRICS:
        page.check(f"input[value='{name}']")
        assert page.input_value("#scale") == "state"


@needs_chromium
def test_the_page_says_how_to_read_it(opened):
    page = opened("rooms")
    assert page.is_visible("#how")
    assert "Colours by rank" in page.inner_text("#how")
    assert page.locator("#how li").count() == 3


@needs_chromium
def test_a_map_can_be_looked_at_as_a_matrix(opened):
    page = opened("rooms")
    page.check("input[value='matrix']")
    assert page.is_visible("#matrix")
    assert not page.is_visible("#map")
    box = page.locator("#matrix").bounding_box()
    page.mouse.click(box["x"] + 1, box["y"] + box["height"] * 30.5 / 31)
    assert chosen(page) == {"30"}


@needs_chromium
def test_a_file_of_ones_own_with_odd_names(opened):
    """Its last state has no cell: it is chosen by the list. V = (2, 8/3, 0) at discount 1/2."""
    page = opened("mine")
    assert page.locator(".cell").count() == 2
    assert page.locator("#state option").all_inner_texts() == [ODD[0], f"{ODD[1]} (goal)", ODD[2]]
    assert page.locator("#state option").count() == 3
    page.select_option("#state", "2")
    assert page.inner_text("#from-title") == f"Distances from state {ODD[2]}"
    page.check("input[value='reward-law']")
    assert distances(page) == printed([20 / 9, 8 / 3, 0])  # from a state that pays nothing, d = V
    page.click(".cell[data-state='0']")
    assert page.inner_text("#state-title") == f"State {ODD[0]}"
    for key in ("ArrowRight", "ArrowRight", "Enter"):  # over the wall, and then no further
        page.keyboard.press(key)
    assert page.inner_text("#state-title") == f"State {ODD[1]}"


def exploration(**changes):
    d = np.array([[0.5, 1.0], [1.0, 0.0]])
    plane = Plane(np.zeros((2, 2)), "scaling", 0.5, None)
    view = View("mico", "U", "policy", d, 1e-8, np.array([1.0, 0.0]), ValueBound(0.0, 0.1), plane)
    problem = {"title": "<x> & y", "num_states": 2, "num_actions": 1, "discount": 0.9}
    return Exploration(**problem | {"policy": "uniform", "facts": {}, "views": (view,)} | changes)


def test_a_page_loads_nothing_and_says_so():
    page = explore_page(exploration(names=("</script><script>alert(1)</script>", "b")))
    assert "<title>&lt;x&gt; &amp; y: behavioural distances</title>" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"'`]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"\b(?:src|href)=|@import|url\(", page)


def test_bad_data_is_refused():
    with pytest.raises(ValueError, match="views is empty"):
        exploration(views=())
    with pytest.raises(ValueError, match=r"mico has shape \[2, 2\], but num_states is 3"):
        exploration(num_states=3)


@needs_chromium
def test_what_was_left_out_is_said(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(explore_page(exploration(left_out="bisimulation: too slow")), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.inner_text("#left-out") == "Left out: bisimulation: too slow."
    page.close()
