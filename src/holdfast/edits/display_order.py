"""Text whose letters stand in another order than a reader sees them, put into the order in which it is displayed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

LRE, RLE, PDF, LRO, RLO = "\u202a", "\u202b", "\u202c", "\u202d", "\u202e"
LRI, RLI, FSI, PDI = "\u2066", "\u2067", "\u2068", "\u2069"

BIDI_CONTROLS = f"{LRE}{RLE}{PDF}{LRO}{RLO}{LRI}{RLI}{FSI}{PDI}\u200e\u200f\u061c"
"""The controls of Unicode's bidirectional algorithm (UAX 9), the marks LRM, RLM and ALM included."""

_OPENING = {LRE: PDF, RLE: PDF, LRO: PDF, RLO: PDF, LRI: PDI, RLI: PDI, FSI: PDI}


@dataclass
class _Span:
    """The text between a control and its end: characters with their combining marks, and other spans."""

    control: str = ""
    parts: list[str | _Span] = field(default_factory=list)

    def displayed(self) -> str:
        """Return the text in the order in which it is read."""
        whole = [part if isinstance(part, str) else part.displayed() for part in self.parts]
        return "".join(reversed(whole) if self._is_backwards(whole) else whole)

    def _is_backwards(self, whole: list[str]) -> bool:
        """Return True if the override runs against the direction of all letters inside."""
        if self.control not in (LRO, RLO):
            return False
        directions = {unicodedata.bidirectional(c) for part in whole for c in part}
        right_to_left = bool(directions & {"R", "AL"})
        return not right_to_left if self.control == RLO else right_to_left and "L" not in directions


def in_display_order(text: str) -> str:
    """Return a text without bidirectional controls, in the order in which it is displayed.

    A span between RLO (right-to-left override) and its end is displayed backwards, so that "RLO llac PDF" is read
    "call"; one between LRO and its end is displayed backwards if its letters are Arabic or Hebrew. All other controls
    are removed and change no order. A span without an end goes on to the end of its line, as in UAX 9.
    """
    if text.isascii() or not any(control in text for control in BIDI_CONTROLS):
        return text
    return "".join(map(_line_in_display_order, text.splitlines(keepends=True)))


def _line_in_display_order(line: str) -> str:
    end = len(line.rstrip("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
    open_spans = [_Span()]
    for part in _clusters(line[:end]):
        if part in _OPENING:
            open_spans.append(_Span(part))
        elif part in (PDF, PDI):
            _close(open_spans, part)
        elif part not in BIDI_CONTROLS:
            open_spans[-1].parts.append(part)
    while len(open_spans) > 1:
        _close_last(open_spans)
    return open_spans[0].displayed() + line[end:]


def _clusters(line: str) -> Iterator[str]:
    """Yield each character with the combining marks after it; a control alone."""
    held = ""
    for character in line:
        if held and character not in BIDI_CONTROLS and unicodedata.combining(character):
            held += character
            continue
        if held:
            yield held
        held = character
        if character in BIDI_CONTROLS:
            yield character
            held = ""
    if held:
        yield held


def _close(open_spans: list[_Span], end: str) -> None:
    """Close the span that a control ends. PDI also closes all spans inside; PDF none outside an isolate."""
    if end == PDF:
        if _OPENING.get(open_spans[-1].control) == PDF:
            _close_last(open_spans)
        return
    if any(_OPENING.get(span.control) == PDI for span in open_spans):
        while _OPENING.get(open_spans[-1].control) != PDI:
            _close_last(open_spans)
        _close_last(open_spans)


def _close_last(open_spans: list[_Span]) -> None:
    span = open_spans.pop()
    if len(open_spans) > 60:  # deeper than UAX 9 allows twice over: flattened, so that no text exhausts the stack
        open_spans[-1].parts.append(span.displayed())
    else:
        open_spans[-1].parts.append(span)
