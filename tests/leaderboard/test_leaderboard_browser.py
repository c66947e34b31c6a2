"""The page of a board in a real browser: headless Chromium, driven by selenium. Skipped where there is neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from board_samples import board, entry

from chromium import begin_page, files_asked_for, headless_chromium, poor_contrasts, set_width
from holdfast.leaderboard.board import render

ENTER, TAB = "\ue007", "\ue004"
WILD = '<img src=x onerror=hit()> & "quoted" </script><script>hit()</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from headless_chromium()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Render a board and open its page; in the end nothing may have been asked of any network, or complained about."""
    begin_page(browser)

    def open_page(*entries: dict[str, Any]) -> Any:
        browser.get(render(board(tmp_path, *entries)).as_uri())
        return browser

    yield open_page
    assert files_asked_for(browser) == {(tmp_path / "index.html").as_uri()}


def _names(page: Any) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#board tbody tr')].filter((r) => !r.hidden).map((r) => r.dataset.name)"
    )
    names: list[str] = page.execute_script(script)
    return names


def _points(page: Any) -> list[str]:
    script = "return [...document.querySelectorAll('#scatter .point')].map((one) => one.dataset.name)"
    names: list[str] = page.execute_script(script)
    return names


def _head(page: Any, column: str) -> Any:
    return page.find_element("css selector", f"#board th[data-column={column}]")


def _choose(page: Any, name: str, value: str) -> None:
    script = (
        "const one = document.querySelector(`[name=${arguments[0]}]`); one.value = arguments[1];"
        "for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true}))"
    )
    page.execute_script(script, name, value)


def _press(page: Any, element: Any, key: str) -> None:
    page.execute_script("arguments[0].focus()", element)
    page.switch_to.active_element.send_keys(key)


def test_a_heading_sorts_by_the_keyboard_too(opened: Callable[..., Any]) -> None:
    page = opened(*(entry(name, at=at) for name, at in (("mid", 60), ("best", 85), ("worst", 30))))
    assert _names(page) == ["best", "mid", "worst"]
    assert _head(page, "quality").get_attribute("aria-sort") == "descending"
    _press(page, _head(page, "sts").find_element("tag name", "button"), ENTER)
    assert _names(page) == ["best", "mid", "worst"]
    assert _head(page, "quality").get_attribute("aria-sort") == "none"
    _press(page, _head(page, "sts").find_element("tag name", "button"), ENTER)
    assert _names(page) == ["worst", "mid", "best"]
    assert _head(page, "sts").get_attribute("aria-sort") == "ascending"
    _press(page, _head(page, "name").find_element("tag name", "button"), ENTER)
    assert _names(page) == ["best", "mid", "worst"]


def test_what_has_no_value_comes_last_in_both_directions(opened: Callable[..., Any]) -> None:
    page = opened()
    for _ in range(2):
        page.execute_script("arguments[0].querySelector('button').click()", _head(page, "hold"))
        assert _names(page)[-1] == "bm25"


def test_filters_hide_rows_points_and_columns(opened: Callable[..., Any]) -> None:
    page = opened()
    assert page.find_element("id", "count").text == "5 of 5 encoders"
    _choose(page, "kind", "transformer")
    assert set(_names(page)) == set(_points(page)) == {"plain", "hardened"}
    _choose(page, "made", "yes")
    assert _names(page) == _points(page) == ["hardened"]
    _choose(page, "words", "nothing like it")
    assert _names(page) == []
    assert page.find_element("id", "nothing").is_displayed()
    for name in ("kind", "made", "words"):
        _choose(page, name, "")
    box = page.find_element("css selector", "[name=group][value=deployed]")
    assert (
        page.execute_script("return getComputedStyle(document.querySelector('th[data-column=int8]')).display") != "none"
    )
    page.execute_script("arguments[0].click()", box)
    hidden = "return [...document.querySelectorAll('[data-group=deployed]')].every((one) => one.hidden)"
    assert page.execute_script(hidden)


def test_the_chart_shows_two_columns_with_intervals(opened: Callable[..., Any]) -> None:
    page = opened()
    assert set(_points(page)) == {"plain", "hardened", "table", "hashed"}
    assert "1 encoder has no value" in page.find_element("id", "point").text
    assert page.execute_script("return document.querySelectorAll('#scatter .ends').length") == 8
    assert page.execute_script("return document.querySelectorAll('#scatter .made').length") == 2
    _choose(page, "x", "retrieval")
    _choose(page, "y", "human_noise")
    assert "bm25" in _points(page)
    assert page.find_element("id", "chart-title").text == "Retrieval against human noise"
    places = "return [...document.querySelectorAll('#scatter .mark')].map((one) => [one.getBBox().x, one.getBBox().y])"
    assert all(40 < x < 860 and 0 < y < 470 for x, y in page.execute_script(places))


def test_a_point_can_be_read_and_followed_by_the_keyboard(opened: Callable[..., Any]) -> None:
    page = opened()
    page.execute_script("document.getElementById('scatter').focus()")
    reached = []
    for _ in range(4):
        page.switch_to.active_element.send_keys(TAB)
        reached.append(page.execute_script("return document.activeElement.dataset.name"))
    assert set(reached) == {"plain", "hardened", "table", "hashed"}
    point = page.find_element("css selector", "#scatter .point[data-name=hardened]")
    assert point.get_attribute("tabindex") == "0", "Chromium takes any element with a listener, other browsers do not"
    page.execute_script("arguments[0].focus()", point)
    line = page.find_element("id", "point").text
    assert line.startswith("hardened: Quality ")
    assert line.endswith("; made from plain")
    assert point.get_attribute("aria-label") == line
    assert page.execute_script("return document.querySelector('#board tr.chosen').dataset.name") == "hardened"
    page.switch_to.active_element.send_keys(ENTER)
    assert page.execute_script("return document.getElementById('entry-hardened').open")
    assert page.execute_script("return document.activeElement.parentElement.id") == "entry-hardened"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(opened: Callable[..., Any], theme: str) -> None:
    page = opened()
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    seen, poor = poor_contrasts(page, ".mark")
    assert seen > 200
    assert poor == []


@pytest.mark.parametrize("width", [320, 800])
def test_narrow_screens_scroll_downwards_only(opened: Callable[..., Any], width: int) -> None:
    page = opened(entry("a-long-name-" * 5, get="https://example.org/" + "long" * 40), entry("b"))
    set_width(page, width)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_what_entries_hold_stays_text(opened: Callable[..., Any]) -> None:
    wild = entry("wild", licence=WILD, get=WILD)
    wild["command"] = WILD
    page = opened(wild)
    assert page.execute_script("return typeof hit") == "undefined"
    assert page.execute_script("return document.querySelectorAll('img, [onerror], [style]').length") == 0
    assert page.execute_script("return document.querySelectorAll('script').length") == 3
    assert page.execute_script("return document.body.textContent.split('onerror=hit()').length") >= 5


def test_without_javascript_the_table_is_there(opened: Callable[..., Any]) -> None:
    page = opened()
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(_names(page)) == 5
    assert page.execute_script(
        "return document.getElementById('filters').hidden && document.getElementById('axes').hidden"
    )
    assert page.execute_script("return document.querySelectorAll('#board thead button').length") == 0


def test_controls_have_names_and_the_first_tab_skips_to_the_content(opened: Callable[..., Any]) -> None:
    page = opened()
    unnamed = "return [...document.querySelectorAll('select, input')].filter((one) => one.labels.length === 0).length"
    assert page.execute_script(unnamed) == 0
    page.switch_to.active_element.send_keys(TAB)
    assert page.switch_to.active_element.get_attribute("class") == "skip"
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(colour)
    page.find_element("id", "theme").click()
    assert page.execute_script(colour) != before


def test_a_link_to_an_entry_opens_it(opened: Callable[..., Any]) -> None:
    page = opened()
    page.execute_script("document.querySelector(`#board a[href='#entry-table']`).click()")
    page.execute_async_script("setTimeout(arguments[0], 100)")
    assert page.execute_script("return document.getElementById('entry-table').open")
