"""Changes of a text, and the words and resources that they need."""

from __future__ import annotations

from holdfast.edits.contractions import contraction_edits
from holdfast.edits.edit import Edit
from holdfast.edits.negation import negation_edits
from holdfast.edits.roles import role_edits
from holdfast.edits.tagging import Tagger
from holdfast.edits.tense_and_modality import tense_and_modality_edits
from holdfast.edits.voice import voice_edits


def grammatical_edits(tagger: Tagger) -> tuple[Edit, ...]:
    """Return the edits that follow the grammar of English, of both sides."""
    return (*negation_edits(tagger), *role_edits(tagger), *tense_and_modality_edits(tagger), *contraction_edits(tagger), *voice_edits(tagger))
