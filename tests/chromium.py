"""Headless Chromium for tests of pages, and the contrast of what a page shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

_CONTRAST = """
const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
const back = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const own = rgb(getComputedStyle(at).backgroundColor);
    if (own.length === 3 || own[3] === 1) return own;
    if (own[3] > 0) return null;
  }
  return [255, 255, 255];
};
const poor = [];
let seen = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const one = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || one.matches("script, style, noscript, title")) continue;
  const style = getComputedStyle(one);
  const fore = rgb(one.closest("svg") ? style.fill : style.color);
  const [a, b] = [light(fore), light(back(one))].sort((x, y) => y - x);
  seen += 1;
  if ((a + 0.05) / (b + 0.05) < 4.5) poor.push([one.outerHTML.slice(0, 120), (a + 0.05) / (b + 0.05)]);
}
const paper = light(rgb(getComputedStyle(document.body).backgroundColor));
for (const one of document.querySelectorAll(arguments[0])) {
  const [a, b] = [light(rgb(getComputedStyle(one).color)), paper].sort((x, y) => y - x);
  seen += 1;
  if ((a + 0.05) / (b + 0.05) < 3) poor.push([one.outerHTML.slice(0, 120), (a + 0.05) / (b + 0.05)]);
}
return [seen, poor];
"""


def poor_contrasts(browser: Any, marks: str) -> tuple[int, list[Any]]:
    """Return how many texts and marks (a CSS selector) the open page shows, and those with too little contrast.

    The limits are those of WCAG 2: 4.5 for texts, 3 for marks.
    """
    seen, poor = browser.execute_script(_CONTRAST, marks)
    return seen, poor


def set_width(browser: Any, width: int) -> None:
    """Set the width of the screen, in pixels."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def begin_page(browser: Any) -> None:
    """Empty the logs, and have requests logged from now on."""
    browser.get_log("performance")
    browser.get_log("browser")
    set_width(browser, 1280)
    browser.execute_cdp_cmd("Network.enable", {})


def files_asked_for(browser: Any) -> set[str]:
    """Return the files that were opened; no network may have been asked, and nothing complained about."""
    assert browser.get_log("browser") == [], "the console has no errors"
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked, "requests are seen at all"
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
    return {url for url in asked if url.startswith("file://")}


def headless_chromium() -> Iterator[Any]:
    """Yield a driver of Chromium of 1280 by 900; skip the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    except Exception as error:
        pytest.skip(f"Chromium does not start here: {str(error).splitlines()[0]}")
    yield started
    started.quit()
