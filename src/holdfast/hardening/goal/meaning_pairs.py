"""Pairs of changed texts: one with the same meaning and one with another, for the probability that the first is nearer.

They are made by the edits of the audit that need no model: typing errors and contractions on one side, negations,
numbers, names, antonyms and quantifiers on the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.edits.contractions import contraction_edits
from holdfast.edits.edit import Edit
from holdfast.edits.lexical_edits import lexical_edits
from holdfast.edits.negation import negation_edits
from holdfast.edits.noise import noise_edits
from holdfast.edits.numbers import number_edits
from holdfast.edits.tagging import Tagger
from holdfast.errors import UserError

_LARGEST_SHARE = 0.25
"""Largest share of words that the hold edit is asked to change, as in the audit."""


@dataclass(frozen=True)
class MeaningPair:
    """A document of the old index changed twice.

    Attributes:
        document: its position.
        hold: the text after an edit that keeps the meaning.
        move: the text after an edit that changes it.
    """

    document: int
    hold: str
    move: str


def meaning_pairs(
    documents: Sequence[str],
    chosen: Sequence[int],
    tagger: Callable[[], Tagger],
    *,
    most: int,
    seed: int = 0,
    read: Callable[[str], int] = len,
) -> list[MeaningPair]:
    """Change English documents in both ways, in the part that is read.

    Documents to which no edit of a side applies are left out.

    Args:
        documents: the documents of the old index.
        chosen: positions of the documents to change, in this order.
        tagger: returns a part-of-speech tagger, or raises a `UserError` if there is none: then only numbers move.
        most: the largest number of pairs.
        seed: the random seed; the changes of a text depend on it, the text and the first names among the documents.
        read: returns the number of characters that the encoder reads of a text.
    """
    holds, moves = _edits([documents[place] for place in chosen], tagger)
    pairs: list[MeaningPair] = []
    for place in chosen:
        if len(pairs) == most:
            break
        document, rng = documents[place], random.Random(f"{seed}/meaning/{documents[place]}")
        seen = read(document)
        text, rest = document[:seen], document[seen:]
        moved = _first(moves, text, rng, 0.0)
        held = moved and _first(holds, text, rng, min(moved[1], _LARGEST_SHARE))
        if moved and held and held[0] != moved[0]:
            pairs.append(MeaningPair(place, held[0] + rest, moved[0] + rest))
    return pairs


def _edits(texts: Sequence[str], tagger: Callable[[], Tagger]) -> tuple[list[Edit], list[Edit]]:
    """Return the hold edits and the move edits that can be made."""
    holds: list[Edit] = [*noise_edits(["typing"])]
    moves: list[Edit] = [*number_edits()]
    try:
        found = tagger()
        made = [*lexical_edits(texts, found), *negation_edits(found), *contraction_edits(found)]
    except UserError:
        return holds, [edit for edit in moves if edit.SIDE == "move"]
    holds += [edit for edit in made if edit.SIDE == "hold" and edit.kind == "contraction"]
    return holds, [edit for edit in made if edit.SIDE == "move"]


def _first(edits: Sequence[Edit], text: str, rng: random.Random, strength: float) -> tuple[str, float] | None:
    """Return the text after the first of the edits, in a drawn order, that applies, and the share of words changed."""
    for edit in rng.sample(edits, len(edits)):
        made = edit(text, rng, strength)
        if made is not None:
            return made.text, made.share
    return None
