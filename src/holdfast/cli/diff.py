"""Display of an adversarial text: the original with its changes marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.console import plain
from holdfast.results import shown

if TYPE_CHECKING:
    from rich.text import Text


_LONG = 300
"""Maximum number of characters shown of a neighbour."""


def marked(row: Mapping[str, Any]) -> Text:
    """Format one example of a result over several lines: the text with its changes, and the verdicts.

    Args:
        row: as returned by :meth:`holdfast.attacks.examples.Attempt.row`; rows of an audit also have ``item`` and may
            have ``neighbours``, the nearest text before and after.
    """
    row = shown(row)
    item = f"{row['item']}: " if "item" in row else ""
    lines = plain(f"{item}{row['recipe']} #{row['number']}  {row['outcome']}", "bold")
    if row.get("reason"):
        lines.append(f": {row['reason']}")
    if row.get("other"):
        lines.append(f"\n  with: {row['other']}", style="not bold dim")
    lines.append("\n  ", style="not bold")
    lines.append_text(_diff(row["original"], row["adversarial"], row["changed"]))
    before, after = row["before"], row["after"]
    if before and row["adversarial"] != row["original"]:
        verdicts = f"\n  {_verdict(before)} -> {_verdict(after)}"
        queries = f", {row['queries']} queries" if row["queries"] > 1 else ""
        lines.append(verdicts + queries, style="not bold dim")
    if row.get("neighbours"):
        nearest, now = ([text] for text in row["neighbours"])
    else:
        nearest, now = (verdict.get("neighbours", []) for verdict in (before, after))
    lines.append(_listed("nearest:", nearest), style="not bold dim")
    if row["adversarial"] != row["original"]:
        lines.append(_listed("now:", now), style="not bold dim")
    lines.append("\n")
    return lines


def _listed(name: str, texts: Sequence[str]) -> str:
    """Format texts one per line, the first one after a name; "" without texts."""
    cut = [text if len(text) <= _LONG else f"{text[:_LONG]} …" for text in texts]
    lines = zip([name, *[""] * len(cut)], cut, strict=False)
    return "".join(f"\n  {name:<8} {text}" for name, text in lines)


def _verdict(verdict: Mapping[str, Any]) -> str:
    value = f"{verdict['value']:.3f}"
    return f"class {verdict['label']} (right one {value})" if "label" in verdict else value


def _diff(original: str, adversarial: str, changes: list[list[Any]]) -> Text:
    """Format the original with its replaced words marked; other changes are marked from the first difference on."""
    from holdfast.edits.words import pieces

    text = plain("", "not bold")
    for piece in pieces(original, adversarial, changes):
        if isinstance(piece, str):
            text.append(piece)
        else:
            _append_change(text, *piece)
    return text


def _append_change(text: Text, old: str, new: str) -> Text:
    if old:
        text.append(f"[-{old}-]", style="red")
    if new:
        text.append(f"{{+{new}+}}", style="green")
    return text
