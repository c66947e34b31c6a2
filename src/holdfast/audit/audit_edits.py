"""The edits of an audit: all families, with the resources that the audit has."""

from __future__ import annotations

from typing import ClassVar

from holdfast.audit.audit_context import Linguistics
from holdfast.audit.item_rows import NotMeasured
from holdfast.audit.item_selection import ItemSelection
from holdfast.edits.edit import Edit
from holdfast.edits.edit_table import EditTable, edit_table, family_builders
from holdfast.edits.synonym_edit import SynonymEdit

WITH_OWN_ITEM = ("case.lower", "case.upper", "full-stop", "blank", "typos", "synonyms")
"""Hold edits whose items are measured in a way of their own, as in earlier versions."""


class RandomSynonyms(SynonymEdit):
    """Content words replaced by a synonym from the resources of the audit, under the name of the audit's item."""

    NAME: ClassVar[str] = "synonyms"
    ABOUT: ClassVar[str] = "words replaced by a synonym"


def edits_of(linguistics: Linguistics, texts: list[str], selection: ItemSelection) -> EditTable:
    """Return the edits that can be made with the resources of the audit, from words of its texts.

    Of families that no selected item needs nothing is made, and no resource is opened.
    """

    def synonyms() -> tuple[Edit, ...]:
        try:
            exchange, _ = linguistics.synonym()
        except NotMeasured:  # the item of synonyms says so
            return ()
        return (RandomSynonyms(exchange),)

    families = family_builders(
        tagger=linguistics.tagger,
        wordnet=linguistics.wordnet,
        texts=texts,
        misspellings=linguistics.misspellings,
    )
    builders = {**families, "synonyms": synonyms}
    return edit_table({family: build for family, build in builders.items() if selection.needs_family(family)})
