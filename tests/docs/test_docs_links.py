"""Links between the Markdown files: each leads to a file, and its anchor to a heading, on GitHub as on the site."""

from __future__ import annotations

import functools
import posixpath
import re

import pytest
from docs_pages import ROOT, pages, text, without_blocks

_LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


@functools.cache
def anchors(markdown: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page, and those that it names itself."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", without_blocks(markdown), flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return {*found, *re.findall(r'<a id="([^"]+)"></a>', markdown)}


def broken(page: str, markdown: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    wrong = []
    for match in _LINK.finditer(without_blocks(markdown)):
        path, anchor = match["path"], match["anchor"]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if target != page and not (ROOT / target).exists():
            wrong.append(match[0])
        elif anchor and target.endswith(".md"):
            # The site's generator leaves other letters out of an anchor, GitHub does not.
            known = anchors(markdown if target == page else text(target))
            wrong += [match[0]] if anchor not in known or not anchor.isascii() else []
    return wrong


@pytest.mark.parametrize("page", pages())
def test_each_link_leads_somewhere(page: str) -> None:
    assert broken(page, text(page)) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = "# A page\n\n## The first `part`, again\n\n### β\n\n```\n# no heading\n[x](#none)\n```\n"
    right = "[a](#the-first-part-again) [b](space.md) [c](recipes.md#budgets) [d](https://x.org/#no) "
    wrong = "[e](#no-heading) [f](#β) [g](train.md#no) [h](nowhere.md)"
    expected = ["](#no-heading)", "](#β)", "](train.md#no)", "](nowhere.md)"]
    assert broken("docs/x.md", page + right + wrong) == expected


def test_a_heading_that_is_there_twice_has_two_anchors() -> None:
    assert anchors("# Times\n\n## Speed\n\n## Speed\n\n## [Speed](x.md) of `all`\n") == {
        "times",
        "speed",
        "speed-1",
        "speed-of-all",
    }
