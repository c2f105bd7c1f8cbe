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
