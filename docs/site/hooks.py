"""What the site needs beside MkDocs: equations as MathML, the pages that lie outside of docs/, and links to both.

The Markdown files are written to be read on GitHub as they are, where links are paths in the repository and equations
stand between dollars. Here they become links and equations of the site. Nothing is loaded from elsewhere: the pages
work without a network, and their equations without JavaScript.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

REPOSITORY = Path(__file__).parents[2]
SOURCE = "https://github.com/holdfast-nlp/holdfast/blob/main/"
OUTSIDE = ("benchmarks/RESULTS.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Pages of the site that are not in docs/."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[\[(](?P<tex>.*?)\\[\])]\s*</(?P=tag)>', flags=re.DOTALL
)


def on_config(config: Any) -> Any:
    """Replace ``FOLDER/*.md`` in the navigation by the pages of the folder."""
    for entry in config.nav:
        for name, value in entry.items():
            if isinstance(value, str) and value.endswith("/*.md"):
                entry[name] = pages_in(value)
    return config


def pages_in(pattern: str) -> list[dict[str, str]]:
    """Return the pages of a folder of docs/, each as ``{title: path}``, by title."""
    docs = REPOSITORY / "docs"
    titles = {
        page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "): page for page in docs.glob(pattern)
    }
    return [{title: str(titles[title].relative_to(docs))} for title in sorted(titles, key=str.casefold)]


def on_files(files: Any, config: Any) -> Any:
    """Take the pages that are not in docs/ into the site."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(REPOSITORY / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make of a link to a path in the repository one to a page of the site, or to the source where there is none.

    A link to what is not there stays as it is, and MkDocs complains of it.
    """
    own = page.file.src_uri
    folder = posixpath.dirname(own if own in OUTSIDE else f"docs/{own}")

    def linked(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match["path"]))
        within = target if target in OUTSIDE else target.removeprefix("docs/")
        anchor = match["anchor"] or ""
        if target in OUTSIDE or target.startswith("docs/"):
            return posixpath.relpath(within, posixpath.dirname(own) or ".") + anchor
        return f"{SOURCE}{target}{anchor}" if (REPOSITORY / target).is_file() else match[0]

    return _LINK.sub(linked, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Make MathML of the equations."""
    return _EQUATION.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    tex = html.unescape(match["tex"]).strip()
    written = convert(tex, display="block" if match["tag"] == "div" else "inline")
    if "$" in tex or "\\" in html.unescape(written):
        raise PluginError(f"this equation cannot be read (two of them need a blank line between them): {tex}")
    return written
