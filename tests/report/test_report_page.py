"""The page: what is in it, that it runs nothing of what results hold, and its size."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from small_results import WILD, evaluate, everything, many, result, wild_results, write

from holdfast.errors import UserError
from holdfast.report import write_report
from holdfast.report.contents import make_contents
from holdfast.report.result_sources import read_sources
from holdfast.terminal import visible

_VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """Every element with its attributes, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def made(folder: Path, words: list[str], **more: Any) -> str:
    write_report(words, folder / "report.html", **more)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_nothing_of_a_result_is_markup(tmp_path: Path) -> None:
    text = made(tmp_path, wild_results(tmp_path), title=WILD)
    page = Page(text)
    counts = Counter(name for name, _ in page.elements)
    assert counts["script"] == 2
    assert counts["img"] == counts["iframe"] == counts["object"] == counts["b"] == 0
    assert not page.unbalanced
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        for name in ("href", "src", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    body = text.partition("<body>")[2]
    assert "hit()" in body
    assert "<script>hit" not in body
    assert "<img" not in body
    shown = "".join(page.texts)
    assert shown.count(visible(WILD)) > 100, "what was written stands there, its controls as escapes"
    assert "49" not in re.findall(r"'(.{0,8})\u202e", shown), "texts are no templates"
    assert visible(WILD) in json.loads(next(t for t in page.texts if t.startswith('{"options"')))["options"]["outcome"]


def test_the_policy_lets_only_the_pages_own_style_and_script_run(tmp_path: Path) -> None:
    text = made(tmp_path, everything(tmp_path))
    policy = next(one["content"] for one in Page(text).all("meta") if one.get("http-equiv"))
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert (rules["base-uri"], rules["form-action"], rules["img-src"]) == ("'none'", "'none'", "data:")
    for name, pattern in (("style-src", r"<style>(.*?)</style>"), ("script-src", r"<script>(.*?)</script>")):
        (inside,) = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", text)
    assert "url(" not in text
    assert "@import" not in text


def test_landmarks_headings_and_tables(tmp_path: Path) -> None:
    text = made(tmp_path, everything(tmp_path))
    page = Page(text)
    assert not page.unbalanced
    assert not page.open
    for tag in ("header", "main", "nav", "footer", "h1"):
        assert len(page.all(tag)) == 1, tag
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), [name for name, n in Counter(ids).items() if n > 1]
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "href"):
            if attributes.get(name, "").startswith("#") or (name == "aria-labelledby" and name in attributes):
                assert attributes[name].removeprefix("#") in ids
    assert len(page.all("caption")) == len(page.all("table")) >= 20
    assert all("scope" in attributes for attributes in page.all("th"))
    charts = [attributes for attributes in page.all("svg") if attributes.get("role") == "img"]
    assert len(charts) == len(page.all("figure")) >= 9
    assert all("aria-labelledby" in attributes for attributes in charts)
    contents = make_contents(read_sources(everything(tmp_path / "again")), examples=5)
    assert {table.id for table in contents.tables} | {figure.id for figure in contents.figures} <= set(ids)
    assert {"similarity", "transfer", "attack-results", "space", "distances"} <= set(ids)
    assert page.all("noscript")


def test_provenance_of_every_result(tmp_path: Path) -> None:
    words = everything(tmp_path)
    text = made(tmp_path, words)
    shown = "".join(Page(text).texts)
    for path in ",".join(words).split(","):
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() in shown, path
        assert json.loads(Path(path).read_text(encoding="utf-8"))["command"] in shown
    assert "sha of runs/a" in shown
    assert "cpu a processor" in shown


def test_downloads_hold_the_tables(tmp_path: Path) -> None:
    page = Page(made(tmp_path, [write(tmp_path / "e.json", evaluate("a", 60))]))
    links = {one["download"]: one["href"] for one in page.all("a") if "download" in one}
    assert {"similarity.csv", "similarity.md", "similarity.tex"} <= set(links)
    kind, _, held = links["similarity.csv"].partition(";base64,")
    assert kind == "data:text/csv;charset=utf-8"
    assert base64.b64decode(held).decode().splitlines()[0].startswith('"model","sts12","sts13"')


def test_a_result_without_measurements_still_has_its_provenance(tmp_path: Path) -> None:
    page = Page(made(tmp_path, [write(tmp_path / "b.json", result("baseline", "whitened"))]))
    shown = "".join(page.texts)
    assert "No measurements" in shown
    assert "sha of whitened" in shown


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [("page.pdf", {}, ".html"), (".", {}, "folder"), ("r.html", {"examples": -1}, "--examples")],
)
def test_what_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, name: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_report(["nowhere.json"], tmp_path / name, **more)


def test_ten_results_with_5000_examples_stay_small(tmp_path: Path) -> None:
    words = many(tmp_path)
    began = time.monotonic()
    written = write_report(words, tmp_path / "many.html")
    print(f"{written.size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s")
    assert (written.results, written.examples) == (10, 5000)
    assert written.size < 15e6
