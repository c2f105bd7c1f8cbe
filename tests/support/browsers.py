"""A real browser for pages: the system's Chromium; nothing is downloaded."""

import os
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")

# The smallest contrast (WCAG) of the page's visible texts with what lies behind them, and where it is.
WORST_CONTRAST = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const ground = channels(getComputedStyle(at).backgroundColor);
      if (ground.length === 3 || ground[3] === 1) return ground;
    }
    throw new Error("nothing behind");
  };
  let worst = { ratio: Infinity, checked: 0 };
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("script, style, noscript, .unseen")) continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    worst = { ...(ratio < worst.ratio ? { ratio, text: element.textContent } : worst), checked: worst.checked + 1 };
  }
  return worst;
}"""


@contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*sandbox, "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@contextmanager
def visits(browser):
    """Opens pages from disk; afterwards nothing must have gone wrong in them, nor been asked of the network."""
    contexts, troubles = [], []

    def opening(path, *, width=1280, height=900, scheme="light", touch=False):
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme, has_touch=touch)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: message.type in ("error", "warning") and troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        address = path.as_uri()
        page.on("request", lambda request: request.url.startswith((address, "data:")) or troubles.append(request.url))
        page.goto(address)
        return page

    yield opening
    for context in contexts:
        context.close()
    assert troubles == []


def themes(opened, path, prepare=lambda page: None):
    """The ground of a page, and its worst contrast, in light, dark by the button, dark, and light by the button."""
    for scheme in ("light", "dark"):
        page = opened(path, scheme=scheme)
        prepare(page)
        for press in (False, True):
            if press:
                page.click("#theme")
            assert page.get_attribute("#theme", "aria-pressed") == str((scheme == "dark") != press).lower()
            yield page.evaluate("getComputedStyle(document.body).backgroundColor"), page.evaluate(WORST_CONTRAST)


def assert_both_themes_can_be_read(opened, path, prepare=lambda page: None, *, texts):
    grounds = []
    for ground, worst in themes(opened, path, prepare):
        grounds.append(ground)
        assert worst["checked"] > texts
        assert worst["ratio"] >= 4.5, worst
    light, toggled_dark, dark, toggled_light = grounds
    assert (light, dark) == (toggled_light, toggled_dark)
    assert light != dark
