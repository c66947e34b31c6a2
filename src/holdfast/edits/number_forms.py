"""Numbers in another form, with the same value: digits and words, per cent and %, the order of a date, commas."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from holdfast.edits.edit import ENGLISH, Change, Edit, Edited
from holdfast.edits.number_words import CARDINALS, MONTHS, ORDINALS, SMALL, ordinal_ending
from holdfast.edits.words import Words

_LEAST, _MOST = 2, 12  # numbers that are written as words as often as in digits
_MONTH = "|".join(MONTHS)
_NO_PART = r"(?<![\w.,:/#&@$£€+*=~^'\u2019\u2010-\u2015\u2212-])"
_SCALES = "hundreds?|thousands?|million|billion|trillion|dozen|score|hundredth|thousandth"
_WORD_BEHIND = (
    rf"(?= (?!(?:{_SCALES}|per|percent|and|or|to|by|two|three|four|five|six|seven|eight|nine|ten|for)\b)[a-z]{{3}})"
)
# A word before a number that makes a name with it (season 2, chapter two), or a range.
_NAMING = frozenset(
    """
    season seasons episode chapter part volume number no phase level class type grade week day game round act book route
    channel page line section table figure step stage group size version group category tier division platform unit
    to or and from between one at than
    """.split()
)
_VERB_BEHIND = re.compile(
    r" (?:\w+ed|is|are|was|were|be|been|have|has|had|do|does|did|will|would|can|could|may|might|must|should|shall|never"
    r"|then|also|soon|later|often|met|meet|began|begin|became|become|went|go|came|come|made|make|took|take|left|leave|fell"
    r"|fall|fought|fight|got|get|won|win|lost|lose|held|hold|kept|keep|sang|sing|ran|run|saw|see|spoke|speak|wrote|write"
    r"|knew|know|found|find|gave|give|grew|grow|built|build|split|broke|break|led|lead|spent|spend|shared?|live|work|play)\b"
)
_CENTURIES = dict(
    zip(range(11, 22), "eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
        "twentieth twenty-first".split(), strict=True)
)  # fmt: skip
_ORDINAL_AFTER = (
    r"(?= (?:century|season|game|place|round|album|episode|edition|anniversary|floor|grade|stage|week|year)\b)"
)


class NumberForm(Edit):
    """A number written in another form."""

    NAME = "number-form"
    SIDE = "hold"
    LANGUAGE = ENGLISH
    ABOUT = "numbers as digits or words, per cent or %, the order of a date"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        places = list(_places(text))
        if not places:
            return None
        wanted = max(1, round(strength * len(Words.of(text).words)))
        rng.shuffle(places)
        chosen: list[Change] = []
        for place in places:
            if len(chosen) < wanted and all(place.end <= other.begin or other.end <= place.begin for other in chosen):
                chosen.append(place)
        return Edited(text, tuple(sorted(chosen)))


def _places(text: str) -> Iterator[Change]:
    """Yield the numbers that have another form, with that form."""
    for pattern, form in _FORMS:
        for match in pattern.finditer(text):
            new = form(match)
            if new is not None and new != match[0]:
                yield Change(*match.span(), new)


def _before(match: re.Match[str]) -> str:
    """Return the word before a match, empty at the begin of a text or after a punctuation mark."""
    found = re.search(r"(\w+)\s$", match.string[max(0, match.start() - 30) : match.start()])
    return found[1] if found else ""


def _as_word(match: re.Match[str]) -> str | None:
    value, before = int(match[0]), _before(match)
    if not _LEAST <= value <= _MOST or before.lower() in _NAMING or not before or not before.islower():
        return None
    return SMALL[value]


def _as_digits(match: re.Match[str]) -> str | None:
    before = _before(match)
    if before.lower() in _NAMING or not before or before[0].isupper() or before in CARDINALS:
        return None
    # "The two performed": a number that stands for a noun is not written in digits.
    if before == "the" and _VERB_BEHIND.match(match.string, match.end()):
        return None
    return str(CARDINALS[match[0]])


def _ordinal_as_word(match: re.Match[str]) -> str | None:
    value = int(match[1])
    if match[2] != ordinal_ending(value):
        return None
    return ORDINALS[value - 1] if 1 <= value <= len(ORDINALS) else _CENTURIES.get(value)


def _ordinal_as_digits(match: re.Match[str]) -> str:
    value = ORDINALS.index(match[0]) + 1
    return f"{value}{ordinal_ending(value)}"


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]], ...] = (
    (re.compile(rf"{_NO_PART}\d\d?{_WORD_BEHIND}"), _as_word),
    (re.compile(rf"{_NO_PART}(?:{'|'.join(SMALL[_LEAST:])}){_WORD_BEHIND}"), _as_digits),
    (re.compile(rf"{_NO_PART}(\d\d?)(st|nd|rd|th){_ORDINAL_AFTER}"), _ordinal_as_word),
    (re.compile(rf"(?<=the )(?:{'|'.join(ORDINALS)}){_ORDINAL_AFTER}"), _ordinal_as_digits),
    (re.compile(r"(?<=\d)%(?![\w-])"), lambda _: " percent"),
    (re.compile(r"(?<=\d) per ?cent\b"), lambda _: "%"),
    (
        re.compile(rf"{_NO_PART}(?<!and )(?<!or )(?<!to )(\d\d?) ({_MONTH}) (\d{{4}})\b(?!-)"),
        lambda m: f"{m[2]} {m[1]}, {m[3]}",
    ),
    (re.compile(rf"\b({_MONTH}) (\d\d?), (\d{{4}})\b(?!-)"), lambda m: f"{m[2]} {m[1]} {m[3]}"),
    (re.compile(r"(?<![\w.,-])(\d),(\d{3})(?![\w,-]|\.\d)"), lambda m: m[1] + m[2]),
)
