"""All edits that follow the grammar of English."""

from __future__ import annotations

from holdfast.edits.contractions import contraction_edits
from holdfast.edits.edit import Edit
from holdfast.edits.negation import negation_edits
from holdfast.edits.punctuation import punctuation_edits
from holdfast.edits.roles import role_edits
from holdfast.edits.tagging import Tagger
from holdfast.edits.tense_and_modality import tense_and_modality_edits
from holdfast.edits.voice import voice_edits
from holdfast.edits.word_order import word_order_edits


def grammatical_edits(tagger: Tagger) -> tuple[Edit, ...]:
    """Return the edits that follow the grammar of English, of both sides."""
    families = (
        negation_edits,
        role_edits,
        tense_and_modality_edits,
        contraction_edits,
        voice_edits,
        punctuation_edits,
        word_order_edits,
    )
    return tuple(edit for family in families for edit in family(tagger))
