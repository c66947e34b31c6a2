"""The table of all edits: each by its name, with the reason where one needs something that is missing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.edits.edit import Edit, Side
from holdfast.edits.evasion import evasion_edits
from holdfast.edits.grammatical_edits import grammatical_edits
from holdfast.edits.lexical_edits import lexical_edits
from holdfast.edits.misspellings import Misspellings
from holdfast.edits.noise import NOISE, noise_edits
from holdfast.edits.tagging import Tagger
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


def edit_table(builders: Mapping[str, Builder]) -> EditTable:
    """Collect the edits of builders.

    Args:
        builders: by the name of a family, a function that returns its edits, or raises a `UserError` that says what to
            install; see `family_builders`.
    """
    edits: list[Edit] = []
    missing: dict[str, str] = {}
    for family, build in builders.items():
        try:
            edits += build()
        except UserError as error:
            missing[family] = str(error)
    names = [edit.NAME for edit in edits]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two edits are called {', '.join(repeated)}")
    return EditTable(tuple(edits), missing)


def noise_builders(misspellings: Misspellings | None = None) -> dict[str, Builder]:
    """Return the builders of noise and evasion, which need no resources but libraries, by name."""
    noise = {kind: functools.partial(noise_edits, (kind,), misspellings=misspellings) for kind in NOISE}
    return {**noise, "evasion": evasion_edits}


def family_builders(
    *,
    tagger: Callable[[], Tagger],
    wordnet: Callable[[], WordNet | None],
    texts: Sequence[str],
    misspellings: Misspellings | None = None,
) -> dict[str, Builder]:
    """Return the builders of all families, by name.

    Args:
        tagger: returns the part-of-speech tagger, or raises a `UserError` that says what to install.
        wordnet: returns WordNet, or None if it is not at hand.
        texts: the texts of the user, from which names and nouns are taken.
        misspellings: known misspellings of words, from which the noise "typing" draws.
    """
    return {
        **noise_builders(misspellings),
        "grammar": lambda: grammatical_edits(tagger()),
        "words": lambda: lexical_edits(texts, tagger(), wordnet()),
    }
