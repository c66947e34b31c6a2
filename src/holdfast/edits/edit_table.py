"""The table of all edits: each by its name, with the reason where one needs something that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.edits.accents_edit import Accents
from holdfast.edits.antonyms import antonym_edits
from holdfast.edits.case_edits import FullStop, LowerCase, SentenceCase, TitleCase, UpperCase
from holdfast.edits.edit import Edit, Side
from holdfast.edits.evasion import evasion_edits
from holdfast.edits.grammatical_edits import grammatical_edits
from holdfast.edits.names import name_edits
from holdfast.edits.numbers import number_edits
from holdfast.edits.ocr_edit import OCR
from holdfast.edits.quantifiers import quantifier_edits
from holdfast.edits.speech_edit import Speech
from holdfast.edits.spelling_variants import spelling_edits
from holdfast.edits.synthetic_typos_edit import SyntheticTypos
from holdfast.edits.tagging import Tagger
from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.edits.whitespace_edit import Whitespace
from holdfast.edits.wordnet import WordNet
from holdfast.errors import UserError, one_of

Builder = Callable[[], Iterable[Edit]]

HUMAN = "human noise"
"""Noise as people and their machines make it."""
SYNTHETIC = "synthetic noise"
"""Typing errors drawn at random, all kinds and places alike."""
EVASION = "evasion"
"""Attempts to escape a filter."""
FORM = "form"
"""Changes of case, of the final full stop, of spaces."""
PARAPHRASE = "paraphrase"
"""Other words for the same meaning."""
OTHER_WORDS = "other words"
"""Likely words in the place of others: the meaning may change."""
MEANING = "meaning"
"""Changes of the meaning."""

_GROUP_OF_KIND = {
    **dict.fromkeys(("typing", "speech", "ocr", "accents", "whitespace"), HUMAN),
    **dict.fromkeys(("zero-width", "confusables", "spaced-letters", "bidi", "leetspeak", "emoji"), EVASION),
    "typos": SYNTHETIC,
    **dict.fromkeys(("case", "full-stop", "blank", "punctuation"), FORM),
}


def group_of(edit: Edit) -> str:
    """Return the group of an edit; a kind that no group names is a paraphrase if it holds the meaning."""
    return MEANING if edit.SIDE == "move" else _GROUP_OF_KIND.get(edit.kind, PARAPHRASE)


@dataclass(frozen=True)
class EditTable:
    """Edits by name.

    Attributes:
        edits: the edits, in the order of the report card.
        missing: the reason, by the name of a family, why its edits cannot be made.
    """

    edits: tuple[Edit, ...]
    missing: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Edit:
        """Return the edit with this name.

        Raises:
            UserError: there is no such edit; the message names the nearest one.
        """
        by_name = {edit.NAME: edit for edit in self.edits}
        return by_name[one_of("edit", name, tuple(by_name))]

    def side(self, side: Side) -> tuple[Edit, ...]:
        """Return the edits of a side."""
        return tuple(edit for edit in self.edits if side == edit.SIDE)


def plain_edits() -> tuple[Edit, ...]:
    """Return the edits that need no resources: case, the final full stop, noise of people and machines."""
    form = (LowerCase(), UpperCase(), TitleCase(), SentenceCase(), FullStop())
    return (*form, SyntheticTypos(), PeoplesTyping(), OCR(), Accents(), Whitespace())


def edit_table(builders: Mapping[str, Builder] | None = None) -> EditTable:
    """Collect edits: those that need no resources, and those of the builders.

    Args:
        builders: by the name of a family, a function that returns its edits, or raises a `UserError` that says what to
            install; see `builders`.
    """
    edits: list[Edit] = [*plain_edits()]
    missing: dict[str, str] = {}
    for family, build in (builders or {}).items():
        try:
            edits += build()
        except UserError as error:
            missing[family] = str(error)
    names = [edit.NAME for edit in edits]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two edits are called {', '.join(repeated)}")
    return EditTable(tuple(edits), missing)


def builders(
    *, tagger: Callable[[], Tagger], wordnet: Callable[[], WordNet | None], texts: Sequence[str]
) -> dict[str, Builder]:
    """Return the builders of all families, by name.

    Args:
        tagger: returns the part-of-speech tagger, or raises a `UserError` that says what to install.
        wordnet: returns WordNet, or None if it is not at hand.
        texts: the texts of the user, from which names are taken.
    """
    return {
        "speech": lambda: (Speech(),),
        "evasion": evasion_edits,
        "grammar": lambda: grammatical_edits(tagger()),
        "antonym": lambda: antonym_edits(wordnet(), tagger()),
        "number": number_edits,
        "name": lambda: name_edits(texts, tagger()),
        "quantifier": lambda: quantifier_edits(tagger()),
        "spelling-variant": spelling_edits,
    }
