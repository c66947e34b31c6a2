"""The page in a real browser: headless Chromium, driven by selenium. Skipped where there is neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_results import WILD, attack, evaluate, everything, example, many, wild_results, write

from chromium import begin_page, files_asked_for, headless_chromium, poor_contrasts, set_width
from holdfast.report import write_report


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from headless_chromium()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Write a page and open it; in the end nothing may have been asked of any network, or complained about."""
    begin_page(browser)

    def open_page(words: list[str], **more: Any) -> Any:
        path = tmp_path / "opened.html"
        write_report(words, path, **more)
        browser.get(path.as_uri())
        return browser

    yield open_page
    assert len(files_asked_for(browser)) == 1, "the page itself alone"


def _theme(browser: Any, name: str) -> None:
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", name)


def test_every_table_and_figure_is_there_and_seen(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(everything(tmp_path))
    drawn = page.execute_script(
        "return [...document.querySelectorAll('svg.chart')].map((one) => [one.querySelector('title').textContent,"
        " one.getBoundingClientRect().width, one.querySelectorAll('rect, circle, polygon').length])"
    )
    assert len(drawn) >= 9
    assert all(width > 300 and marks > 0 for _, width, marks in drawn), drawn
    captions = page.execute_script("return [...document.querySelectorAll('caption')].map((c) => c.textContent)")
    for wanted in (
        *(
            "Semantic textual similarity",
            "Transfer tasks",
            "Attacks",
            "Report card of a: should hold",
            "Paired comparison",
        ),
        *("Small table", "Classifiers: accuracy", "The shape of the space", "Adversarial texts tried on other models"),
        "Distance of clean and adversarial texts",
    ):
        assert wanted in captions
    assert page.execute_script("return document.querySelectorAll('td strong').length") >= 8
    assert page.execute_script("return getComputedStyle(document.querySelector('.skip')).clipPath") == "inset(50%)"


def test_filters_and_search(opened: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        example(n, recipe, outcome)
        for recipe in ("pwws", "typos")
        for outcome in ("failed", "succeeded")
        for n in range(40)
    ]
    words = [write(tmp_path / f"{m}.json", attack(m, 50, examples=rows)) for m in ("one", "two")]
    page = opened(words)

    def state() -> tuple[str, int]:
        shown = page.execute_script("return document.querySelectorAll('#list > li').length")
        return page.find_element("id", "count").text, shown

    def choose(name: str, wanted: str) -> None:
        script = (
            "const one = document.querySelector(`[name=${arguments[0]}]`);"
            "one.value = [...one.options].find((option) => option.text === arguments[1]).value;"
            "one.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        page.execute_script(script, name, wanted)

    assert state() == ("320 of 320 examples", 50)
    choose("recipe", "typos")
    assert state() == ("160 of 320 examples", 50)
    choose("outcome", "failed")
    choose("model", "two")
    assert state() == ("40 of 320 examples", 40)
    metas = page.execute_script("return [...document.querySelectorAll('#list .meta')].map((one) => one.textContent)")
    assert set(metas) == {"failed typos · mr · two"}
    for name in ("recipe", "outcome", "model"):
        choose(name, "all")
    page.execute_script("document.getElementById('after').click()")
    assert "page 2 of 7" in page.find_element("id", "place").text
    page.find_element("css selector", "[name=words]").send_keys("PISCES number 7")
    page.execute_async_script("setTimeout(arguments[0], 400)")
    assert state() == ("8 of 320 examples", 8)
    first = page.execute_script("return document.querySelector('#list .text').innerHTML")
    assert first == "a man is cutting <del>fish</del><ins>Pisces</ins> number 7"
    page.find_element("css selector", "[name=words]").send_keys(" and nothing like it")
    page.execute_async_script("setTimeout(arguments[0], 400)")
    assert state() == ("0 of 320 examples", 0)


def test_the_first_examples_are_the_same_without_javascript(opened: Callable[..., Any], tmp_path: Path) -> None:
    rows = [example(0, other="with this"), example(1, "bae", neighbours=["x", "y"]), example(2, outcome="failed")]
    words = [write(tmp_path / "a.json", attack("one", 50, examples=rows))]
    page = opened(words)
    collapse = (
        "return [...document.querySelectorAll('#list > li')].map((one) => [...one.children].map((p) => p.textContent))"
    )
    by_script = page.execute_script(collapse)
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert page.execute_script(collapse) == by_script
    assert len(by_script) == 3
    assert page.execute_script("return document.getElementById('filters').hidden")


def test_what_results_hold_stays_text(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(wild_results(tmp_path), title=WILD)
    assert page.execute_script("return typeof hit") == "undefined"
    assert (
        page.execute_script("return document.querySelectorAll('img, iframe, object, [onerror], [style]').length") == 0
    )
    assert page.execute_script("return document.querySelectorAll('script').length") == 2
    assert page.execute_script("return document.body.textContent.split('onerror=hit()').length") > 100
    assert page.find_element("tag name", "h1").text.startswith("<script>hit()</script>")
    assert "<script>hit()" in page.execute_script("return document.querySelector('#list .text').textContent")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(opened: Callable[..., Any], tmp_path: Path, theme: str) -> None:
    page = opened(everything(tmp_path))
    _theme(page, theme)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    seen, poor = poor_contrasts(page, ".fill, .solid, .hollow, .stroke")
    assert seen > 400
    assert poor == []


def test_seven_tasks_and_their_average_fit_beside_a_long_name(opened: Callable[..., Any], tmp_path: Path) -> None:
    names = ("robustembed-of-a-model-with-a-long-name", "b")
    page = opened([write(tmp_path / f"{name}.json", evaluate(f"runs/{name}", 61.25)) for name in names])
    set_width(page, 1200)
    sizes = "const one = document.querySelector('#similarity .scroll'); return [one.scrollWidth, one.clientWidth]"
    needed, there = page.execute_script(sizes)
    assert needed <= there, "the average is seen without scrolling"
    places = (
        "const cell = document.querySelector('#similarity tbody td');"
        "return [cell.querySelector('bdi'), cell.querySelector('small')].map((one) => one.getBoundingClientRect().top)"
    )
    value, interval = page.execute_script(places)
    assert interval > value + 8, "an interval stands below its value"


@pytest.mark.parametrize("width", [320, 400, 800])
def test_narrow_screens_scroll_downwards_only(opened: Callable[..., Any], tmp_path: Path, width: int) -> None:
    long = "a-model-with-a-very-long-name-" * 5
    words = [*everything(tmp_path), write(tmp_path / "long.json", attack(long, 44))]
    page = opened(words, title="Word" * 40)
    set_width(page, width)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    letters = page.execute_script("return getComputedStyle(document.querySelector('main p')).fontSize")
    assert float(letters.removesuffix("px")) >= 14


def test_colours_can_be_chosen_and_controls_are_named(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(everything(tmp_path))
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = page.execute_script(colour)
    button = page.find_element("id", "theme")
    assert button.text == "Dark colours"
    button.click()
    assert page.execute_script(colour) != before
    assert button.text == "Light colours"
    button.click()
    unnamed = "return [...document.querySelectorAll('select, input')].filter((one) => one.labels.length === 0).length"
    assert page.execute_script(unnamed) == 0


def test_the_first_stop_of_the_tab_key_skips_to_the_content(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(everything(tmp_path))
    page.switch_to.active_element.send_keys("\ue004")
    focused = page.switch_to.active_element
    assert focused.get_attribute("class") == "skip"
    assert focused.size["width"] > 50, "it is seen once it has the focus"


def test_5000_examples_open_in_two_seconds(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(many(tmp_path))
    times = []
    for _ in range(3):
        page.refresh()
        times.append(
            page.execute_script("const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd") / 1e3
        )
    print(f"opened in {', '.join(f'{t:.2f} s' for t in times)}")
    assert min(times) < 2.0
    assert "5,000 of 5,000" in page.find_element("id", "count").text
