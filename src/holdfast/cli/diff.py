"""Display of an adversarial text: the original with its changes marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.console import plain
from holdfast.results import shown, shown_pieces

if TYPE_CHECKING:
    from rich.text import Text


_LONG = 300
"""Maximum number of characters shown of a neighbour."""
_AROUND = 40
"""Characters shown of a long part of a text, in one line."""


def marked(row: Mapping[str, Any]) -> Text:
    """Format one example of a result over several lines: the text with its changes, and the verdicts.

    Args:
        row: as returned by :meth:`holdfast.attacks.examples.Attempt.row`; rows of an audit also have ``item`` and may
            have ``neighbours``, the nearest text before and after.
    """
    raw, row = row, shown(row)
    item = f"{row['item']}: " if "item" in row else ""
    by = " + ".join(dict.fromkeys(row.get("changed_by", ())))  # the recipes of an ensemble
    recipe = f"{row['recipe']} ({by})" if by else row["recipe"]
    lines = plain(f"{item}{recipe} #{row['number']}  {row['outcome']}", "bold")
    if row.get("reason"):
        lines.append(f": {row['reason']}")
    if row.get("other"):
        lines.append(f"\n  with: {row['other']}", style="not bold dim")
    lines.append("\n  ", style="not bold")
    lines.append_text(_diff(raw))
    before, after = row["before"], row["after"]
    if before and row["adversarial"] != row["original"]:
        verdicts = f"\n  {_verdict(before)} -> {_verdict(after)}"
        queries = f", {row['queries']} queries" if row["queries"] > 1 else ""
        lines.append(verdicts + queries, style="not bold dim")
    if held := row.get("hold"):
        lines.append(f"\n  beside ({held['edit']}): ", style="not bold dim")
        lines.append_text(_diff({**raw["hold"], "original": raw["original"], "adversarial": raw["hold"]["text"]}))
        lines.append(f" {held['value']:.3f}", style="not bold dim")
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


def one_line(row: Mapping[str, Any]) -> Text:
    """Format one example of an audit in one line: the item, the text around its changes, and the cosines."""
    pieces, row = shown_pieces(row), shown(row)
    line = plain(f"{str(row['item']).removeprefix('audit-')}  ", "bold")
    for place, piece in enumerate(pieces):
        if isinstance(piece, str):
            line.append(_clipped(piece, first=place == 0, last=place == len(pieces) - 1), style="not bold")
        else:
            _append_change(line, *(_clipped(part, first=False, last=False) for part in piece))
    value = f"  {row['before']['value']:.3f} -> {row['after']['value']:.3f}"
    if held := row.get("hold"):
        value += f", beside ({held['edit']}) {held['value']:.3f}"
    line.append(value, style="not bold dim")
    return line


def _clipped(text: str, *, first: bool, last: bool) -> str:
    """Return a part of a text in one line: of a long one what is next to the changed parts."""
    text = " ".join(text.split("\n"))
    if len(text) <= _AROUND:
        return text
    if first:
        return f"… {text[-_AROUND:]}"
    return f"{text[:_AROUND]} …" if last else f"{text[: _AROUND // 2]} … {text[-_AROUND // 2 :]}"


def _diff(row: Mapping[str, Any]) -> Text:
    """Format the original with its changed parts marked; without a list, all from the first difference."""
    text = plain("", "not bold")
    for piece in shown_pieces(row):
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
