"""The page of `mico report` in a real browser: what it shows is what the logs hold."""

import csv
import io
import json
import re
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats

from browsers import assert_both_themes_can_be_read, needs_chromium, visits
from mico import cli
from mico.evidence.sheets import Sheet, crossed
from mico.pages.markup import Markup, element, table
from mico.pages.report_curves import curve_data
from mico.plotting.score_plots import arm_styles
from written_runs import write_fleet, write_run

BASE, MICO = "dqn", "dqn + mico"
ENVS = ("minatar/asterix", "minatar/breakout")
SEEDS, ROWS, PERIOD = range(4), 30, 1000
BAD = "<script>window.broken = 1</script>"


def returns(seed, env, metric):
    """Some that rise, other in every run."""
    rng = np.random.default_rng([seed, ENVS.index(env), metric is None])
    top = 10 + 20 * ENVS.index(env) + (3 if metric else 0) + rng.normal()
    return (top * np.linspace(0.1, 1, ROWS) + rng.normal(size=ROWS)).tolist()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report on two arms in two environments, and one on somebody's table with odd names."""
    folder = tmp_path_factory.mktemp("reports")
    for env in ENVS:
        for metric in (None, "mico"):
            out = folder / "runs" / f"{env.partition('/')[2]}-{metric}"
            write_fleet(out, SEEDS, partial(returns, env=env, metric=metric), env=env, metric=metric, period=PERIOD)
    with (folder / "odd.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["agent", "env", "seed", "step", "score"])
        for agent in (BAD, "a$b$ \\frac & <i>"):
            rows.writerows([agent, '"><img src=x>', seed, step, seed + step] for seed in (0, 1) for step in (1, 2, 3))
    report = ["report", str(folder / "runs"), "--normalise", "baseline", "--out", str(folder / "runs-report")]
    cli.main(report)
    for seed, metric in product(range(2), (None, "mico")):  # to the last digit the same
        write_run(
            folder / "same" / f"{metric}-{seed}", [0.0, 0.5, 1.0 + seed], seed=seed, metric=metric, env="mdp/four-rooms"
        )
    cli.main(["report", str(folder / "same"), "--out", str(folder / "same-report")])
    write_run(folder / "single" / "run", [0.5], env="mdp/four-rooms")
    cli.main(["report", str(folder / "single"), "--out", str(folder / "single-report")])
    cli.main(["report", str(folder / "odd.csv"), "--title", BAD, "--out", str(folder / "odd-report")])
    return folder


@pytest.fixture
def opened(browser, pages):
    with visits(browser) as opening:
        yield lambda name="runs", **how: opening(pages / f"{name}-report" / "report.html", **how)


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


def four_digits(expected):
    return pytest.approx(expected, rel=5.1e-4, abs=1e-6)


def logged(pages, env, metric):
    """The returns of each seed as the files have them, [seeds, rows]."""
    folder = pages / "runs" / f"{env.partition('/')[2]}-{metric}"
    logs = sorted(folder.glob("*/log.jsonl"))
    return np.array([[json.loads(line)["return"] for line in log.read_text().splitlines()] for log in logs])


def shown(page, env):
    """What the chart of an environment says: the step, and of every arm its mean, interval and seeds."""
    card = page.locator(f".curve[data-env='{env}']")
    rows = card.locator("tbody tr").evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.innerText.trim()))")
    return card.locator("p.help").inner_text(), {row[0]: row[1:] for row in rows}


def assert_shows(page, pages, env, row):
    """Every arm's mean over seeds, Student's 75% interval and count, at a row of the log."""
    step, arms = shown(page, env)
    assert step == f"At step {PERIOD * (row + 1):,}"
    assert list(arms) == [BASE, MICO]
    for arm, metric in ((BASE, None), (MICO, "mico")):
        values = logged(pages, env, metric)[:, row]
        mean, interval, seeds = arms[arm]
        low, high = stats.t.interval(0.75, len(values) - 1, values.mean(), stats.sem(values))
        assert number(mean) == four_digits(values.mean())
        assert [number(end) for end in interval.split(" … ")] == four_digits([low, high])
        assert seeds == str(len(SEEDS))


def cells(page, name):
    """A table's rows as text, by their first cell."""
    rows = page.locator(f"#{name} tbody tr").evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.innerText))")
    return {row[0]: row[1:] for row in rows}


def ends(text):
    """A value and its interval."""
    return [number(part) for part in re.fullmatch(r"(\S+) \[(\S+), (\S+)\]", text).groups()]


@needs_chromium
def test_hovering_shows_all_arms_at_that_step(opened, pages):
    page = opened()
    for env in ENVS:
        assert_shows(page, pages, env, ROWS - 1)
        chart = page.locator(f".curve[data-env='{env}'] .chart")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        left, right = 52, 24  # around the curves
        share = 10 / ROWS
        x = box["x"] + left + share * (box["width"] - left - right) + 2
        page.mouse.move(x, box["y"] + 60)
        assert_shows(page, pages, env, 9)


@needs_chromium
def test_keys_move_over_the_steps(opened, pages):
    page, env = opened(), ENVS[1]
    chart = page.locator(f".curve[data-env='{env}'] .chart")
    chart.focus()
    for keys, row in ((["Home"], 0), (["ArrowRight"] * 4, 4), (["ArrowLeft"], 3), (["PageUp"], 6), (["End"], ROWS - 1)):
        for key in keys:
            page.keyboard.press(key)
        assert_shows(page, pages, env, row)
    spoken = chart.get_attribute("aria-valuetext")
    mean = logged(pages, env, None)[:, -1].mean()
    assert spoken.startswith(f"step {ROWS * PERIOD:,}: dqn ")
    assert number(spoken.split(f"{BASE} ")[1].split(",")[0]) == four_digits(mean)
    assert shown(page, ENVS[0])[0] == f"At step {ROWS * PERIOD:,}"


@needs_chromium
def test_arms_and_environments_are_chosen(opened):
    page = opened()
    lines = page.locator(f".curve[data-env='{ENVS[0]}'] path.mean")
    assert lines.count() == 2
    page.uncheck(f"#arms input[value='{BASE}']")
    assert lines.count() == 1
    assert list(shown(page, ENVS[0])[1]) == [MICO]
    page.check(f"#arms input[value='{BASE}']")
    assert list(shown(page, ENVS[0])[1]) == [BASE, MICO]
    page.uncheck(f"#envs input[value='{ENVS[0]}']")
    assert page.locator(".curve").evaluate_all("cards => cards.map(c => c.dataset.env)") == [ENVS[1]]
    page.uncheck(f"#envs input[value='{ENVS[1]}']")
    assert page.is_visible("#nothing")


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["same", "runs"])
def test_no_label_of_an_axis_is_cut(opened, name, width):
    page = opened(name, width=width)
    outside = """() => [...document.querySelectorAll(".chart svg")].flatMap((svg) => {
      const frame = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.left < frame.left || box.right > frame.right).map(([words]) => words);
    })"""
    assert page.locator(".chart text").count() > 4
    assert page.evaluate(outside) == []
    if name == "same":
        assert "3,000" in page.locator(".chart text").all_text_contents()


@needs_chromium
def test_two_equal_arms_are_both_seen(opened):
    """The pixels of the line, and of the dot at its end, have the colours of both."""
    page = opened("same")
    chart = page.locator(".chart")
    lines = chart.locator("path.mean").evaluate_all(
        "lines => lines.map(l => [l.getAttribute('d'), l.getAttribute('stroke-dasharray')])"
    )
    assert lines[0][0] == lines[1][0]
    assert [dashes for _, dashes in lines] == ["", "7 7"]
    radii = chart.locator("circle").evaluate_all(
        "dots => dots.map(dot => [dot.getAttribute('r'), dot.className.baseVal])"
    )
    assert radii == [["4", ""], ["7.5", "ring"]]
    pixels = np.asarray(Image.open(io.BytesIO(chart.screenshot())).convert("RGB")).reshape(-1, 3).astype(int)
    for colour in chart.locator("path.mean").evaluate_all("lines => lines.map(l => l.getAttribute('stroke'))"):
        own = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        assert (np.abs(pixels - own).max(axis=1) < 8).sum() > 200


@needs_chromium
def test_boxes_are_ticked_with_the_keyboard_and_focus_is_seen(opened):
    page, seen = opened(), []
    for _ in range(40):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "() => [document.activeElement.closest('[id]')?.id, document.activeElement.className, "
            "[document.activeElement, document.activeElement.nextElementSibling]"
            ".some(e => e && getComputedStyle(e).outlineWidth === '3px')]"
        )
        seen.append(where[0])
        assert where[2] or where[0] is None
        if where[0] == "arms":
            break
    page.keyboard.press("Space")
    assert list(shown(page, ENVS[0])[1]) == [MICO]


@needs_chromium
def test_the_tables_hold_what_the_logs_give(opened, pages):
    """By hand: the mean of the last tenth of the returns, 0 at the baseline's mean first return, 1 at its end."""
    page, scores = opened(), {BASE: [], MICO: []}
    for env in ENVS:
        ends_of = {metric: logged(pages, env, metric)[:, -ROWS // 10 :].mean(axis=1) for metric in (None, "mico")}
        zero = logged(pages, env, None)[:, 0].mean()
        unit = ends_of[None].mean() - zero
        for arm, metric in ((BASE, None), (MICO, "mico")):
            scores[arm].append((ends_of[metric] - zero) / unit)
            raw = ends(cells(page, "by-environment")[env][[BASE, MICO].index(arm)])
            assert raw[0] == pytest.approx(ends_of[metric].mean(), abs=0.0051)
            assert raw[1] <= raw[0] <= raw[2]
    found = cells(page, "aggregates")
    for arm, columns in scores.items():
        table = np.array(columns).T
        size, iqm, mean, median, gap = found[arm]
        assert size == "2 × 4"
        assert ends(iqm)[0] == pytest.approx(stats.trim_mean(table, 0.25, axis=None), abs=0.0051)
        assert ends(mean)[0] == pytest.approx(table.mean(), abs=0.0051)
        assert ends(median)[0] == pytest.approx(np.median(table.mean(axis=0)), abs=0.0051)
        assert ends(gap)[0] == pytest.approx(np.maximum(1 - table, 0).mean(), rel=0.051, abs=0.0051)
    x, y = (np.array(scores[arm]).T for arm in (MICO, BASE))
    base, envs, probability, seeds, iqm, _, mean, _ = cells(page, "comparisons")[MICO]
    assert (base, envs, seeds) == (BASE, "2", "4")
    wins = [(x[i, task] > y[j, task]) for task in range(2) for i in range(4) for j in range(4)]
    assert ends(probability)[0] == pytest.approx(np.mean(wins), abs=0.0051)
    assert ends(mean)[0] == pytest.approx(x.mean() - y.mean(), rel=0.051)
    trimmed = stats.trim_mean(x, 0.25, axis=None) - stats.trim_mean(y, 0.25, axis=None)
    assert ends(iqm)[0] == pytest.approx(trimmed, rel=0.051)
    assert cells(page, "cells") == {env: [f"4 × {ROWS * PERIOD:,}"] * 2 for env in ENVS}


@needs_chromium
def test_every_figure_is_seen(opened):
    page = opened()
    sizes = page.locator("figure img").evaluate_all("images => images.map(i => [i.complete, i.naturalWidth])")
    assert len(sizes) == 6
    assert all(complete and width > 300 for complete, width in sizes)


@needs_chromium
@pytest.mark.parametrize("name", ["runs", "odd"])
def test_a_phone_scrolls_in_one_direction_only(opened, name):
    page = opened(name, width=360, height=740, touch=True)
    for details in page.locator("details > summary").all():
        details.click()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


@needs_chromium
@pytest.mark.parametrize(("name", "texts"), [("runs", 60), ("same", 40)])
def test_both_themes_can_be_read(opened, name, texts):
    assert_both_themes_can_be_read(opened, name, texts=texts)


@needs_chromium
def test_runs_of_one_return_have_no_section_of_curves(opened):
    page = opened("single")
    assert page.locator("#curves").count() == 0
    assert "Curves" not in page.locator("h2").all_inner_texts()
    assert "there are no curves" in page.locator("#first").inner_text()
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-pressed") == "true"


@needs_chromium
def test_names_are_only_names(opened):
    page = opened("odd")
    assert page.evaluate("window.broken") is None
    assert page.inner_text("h1") == BAD
    assert page.locator("img[src=x]").count() == 0
    step, arms = shown(page, '\\"><img src=x>')
    assert step == "At step 3"
    assert arms[BAD][0] == "3.500"
    assert page.locator("#arms label").all_inner_texts() == list(arms)


def test_arms_look_as_in_the_figures():
    """Colours tell what is added and dashes which agent; a line without dashes is whole in both."""
    agents, rows = ("dqn", "iqn", "m-iqn", "qr-dqn", "rainbow"), []
    for agent, added in product(agents, ("", " + mico")):
        rows += [{"arm": agent + added, "agent": agent, "env": "e", "step": step, "value": 1.0} for step in (1, 2)]
    arms = curve_data(pd.DataFrame(rows))["arms"]
    figure = arm_styles(pd.DataFrame(rows))
    assert [arm["name"] for arm in arms] == list(figure)
    assert [arm["colour"] for arm in arms] == [look["color"] for look in figure.values()]
    assert [arm["dash"] == "" for arm in arms] == [look["linestyle"] == "-" for look in figure.values()]
    assert len({(arm["colour"], arm["dash"]) for arm in arms}) == 10


def test_elements_escape_all_but_markup():
    assert element("p", "a < b", Markup("<b>c</b>"), class_="x", data_it='"') == (
        '<p class="x" data-it="&quot;">a &lt; b<b>c</b></p>'
    )
    assert '<th scope="row">&lt;i&gt;</th><td>1</td>' in table("t", "c", ("x", "y"), [("<i>", "1")])


def test_the_longer_side_of_a_table_goes_downwards():
    cells = {("a", "x"): "1", ("a", "y"): "2", ("b", "x"): "3", ("c", "y"): "4"}
    rows = (("a", "1", "2"), ("b", "3", "–"), ("c", "–", "4"))
    assert crossed("t", "c", cells, ("env", "arm")) == Sheet("t", "c", ("env", "x", "y"), rows)
    turned = {(arm, env): text for (env, arm), text in cells.items()}
    assert crossed("t", "c", turned, ("arm", "env")) == Sheet("t", "c", ("env", "x", "y"), rows)


def test_a_page_loads_nothing(pages):
    page = (pages / "runs-report" / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"'`]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(?:src|href)=\"(?!data:|#)|@import|url\(", page)
