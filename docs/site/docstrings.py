"""Docstrings as Markdown: their cross-references and equations are written as Sphinx has them."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(?P<short>~?)(?P<name>[\w.]+)`")
_MATH_ROLE = re.compile(r":math:`([^`]+)`")
_MATH = re.compile(
    r"^(?P<indent>[ ]*)\.\. math::[ ]*(?P<first>[^\n]*)\n(?P<rest>(?:(?P=indent)[ ]+\S[^\n]*\n|[ ]*\n)*)", re.M
)


class SphinxToMarkdown(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings of a package, once all of it is known."""
        rewrite(pkg)


def rewrite(of: griffe.Object) -> None:
    """Rewrite the docstrings of an object and of all that is in it."""
    if of.docstring is not None:
        scope = of if of.is_class else of.parent
        of.docstring.value = as_markdown(of.docstring.value, scope or of)
    for member in of.members.values():
        if not member.is_alias:
            rewrite(member)


def as_markdown(docstring: str, scope: griffe.Object) -> str:
    """A docstring with Markdown's links and equations.

    Args:
        docstring: as it stands in the source.
        scope: where a bare name is looked for: a class, then its module.
    """

    def link(match: re.Match[str]) -> str:
        name = match["name"]
        shown = name.rpartition(".")[2] if match["short"] else name
        home = scope if name.partition(".")[0] in scope.members else scope.module
        target = name if name.startswith("holdfast") else f"{home.path}.{name}"
        # Optional: what is referred to need not have a place in the reference.
        return f'<autoref identifier="{target}" optional><code>{shown}</code></autoref>'

    def equation(match: re.Match[str]) -> str:
        lines = textwrap.dedent(match["rest"]).strip().splitlines()
        inner = "\n".join(match["indent"] + line.strip() for line in [match["first"], *lines] if line.strip())
        return f"{match['indent']}$$\n{inner}\n{match['indent']}$$\n\n"

    docstring = _MATH.sub(equation, docstring + "\n")
    return _MATH_ROLE.sub(r"$\1$", _ROLE.sub(link, docstring)).rstrip("\n")
