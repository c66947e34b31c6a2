"""Inputs of an audit: settings, the model, the encoded texts, the available linguistic resources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.attacks.recipes.pwws import PWWS
from holdfast.attacks.resources import Resources, availability
from holdfast.audit import changed_copies
from holdfast.audit.audit_journal import AuditJournal
from holdfast.audit.audit_progress import AuditProgress
from holdfast.audit.audit_settings import EXAMPLES, TEXTS_PER_ITEM, AuditSettings
from holdfast.audit.edited_copies import ReadTexts
from holdfast.audit.item_rows import NotMeasured
from holdfast.audit.item_selection import ItemSelection
from holdfast.audit.shared_vectors import FormVectors, SharedVectors
from holdfast.audit.time_budget import TimeBudget
from holdfast.audit.vector_movement import Copy, NumberedTexts, Space
from holdfast.edits.edit_table import EditTable
from holdfast.edits.inflection import can_inflect
from holdfast.edits.misspellings import read_misspellings
from holdfast.edits.synonym_edit import Exchange, wordnet_synonym
from holdfast.edits.text_language import Language
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.forms import FLOAT32, FittedForm, Form
from holdfast.model_lookup import has_masked_lm_head
from holdfast.text_prompts import Role, side_of

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.attacks.valid_synonyms import ValidSynonyms
    from holdfast.edits.tagging import Tagger
    from holdfast.edits.wordnet import WordNet
    from holdfast.user_functions import SentenceEncoder


_COUNTED = 100
"""Texts whose mean number of words stands for that of all."""


class Linguistics:
    """The resources of an audit. Those named by the user are required; the others are used if available.

    Args:
        settings: the settings of the audit.
        folder: folder of the model, which may contain a masked-LM head; None for a function.

    Raises:
        UserError: a resource named by the user is missing, or the file of misspellings is damaged.
    """

    def __init__(self, settings: AuditSettings, folder: Path | None) -> None:
        named = {name: getattr(settings, name) for name in ("synonyms", "wordnet", "tagger", "masked_lm")}
        names = settings.resource_names
        self._named = [name for name, value in named.items() if value is not None]
        self._own_head = settings.masked_lm is None and folder is not None and has_masked_lm_head(folder)
        if self._own_head:
            names = replace(names, masked_lm=str(folder))
        self.names = names
        self.misspellings = read_misspellings(settings.misspellings) if settings.misspellings is not None else None
        # The filter of synonyms is the same for every model: never the head of the one that is judged.
        filtering = settings.resource_names.masked_lm
        self.resources = Resources(names, data=settings.data, device=settings.device, filtering=filtering)
        self.resources.require(self._named)
        rows = availability(names, data=settings.data)
        filter_rows = availability(settings.resource_names, data=settings.data)
        self._filter_lacks = next(
            (row.detail for row in filter_rows if row.resource == "masked_lm" and not row.here), None
        )
        self._missing = {row.resource: row.detail for row in rows if not row.here and row.resource not in self._named}

    def tagger(self) -> Tagger:
        """Return the part-of-speech tagger.

        Raises:
            UserError: there is none; the message says how to get one.
        """
        if "tagger" in self._missing:
            raise UserError(f"needs a part-of-speech tagger: {self._missing['tagger']}")
        return self.resources.tagger

    def wordnet(self) -> WordNet | None:
        """Return WordNet, or None if it is not at hand."""
        return None if "wordnet" in self._missing else self.resources.wordnet

    def synonym_attack(self) -> PWWS:
        """Return the recipe of adversarial synonyms.

        It keeps the part of speech, as in the paper, if there is a tagger, and the inflection if lemminflect is
        installed, so that the report shows proper synonyms.

        Raises:
            NotMeasured: there is no WordNet.
        """
        if "wordnet" in self._missing:
            raise NotMeasured(self._missing["wordnet"])
        tags = "tagger" not in self._missing
        return PWWS(same_tag=tags, inflected=can_inflect(), valid_synonyms=self.unfiltered() is None)

    def unfiltered(self) -> str | None:
        """Return why synonyms are not filtered by validity (`holdfast.attacks.valid_synonyms`); None if they are."""
        reasons = [self._missing[name] for name in ("wordnet", "tagger") if name in self._missing]
        if self._filter_lacks is not None:
            reasons.append(self._filter_lacks)
        return "; ".join(reasons) or None

    def synonym(self) -> tuple[Exchange, str]:
        """Return a function that replaces a word by a synonym, and its source.

        Raises:
            NotMeasured: there are no synonyms.
        """
        if "synonyms" in self._named or ("wordnet" in self._missing and "synonyms" not in self._missing):
            synonyms = self.resources.synonyms
            return changed_copies.listed_synonym(synonyms), f"{synonyms.source}; not filtered by validity"
        if "wordnet" in self._missing:
            raise NotMeasured(f"{self._missing['wordnet']}; {self._missing['synonyms']}")
        tagger = None if "tagger" in self._missing else self.resources.tagger
        tags = "any part of speech" if tagger is None else f"parts of speech by {tagger.source}"
        inflected = "inflected" if can_inflect() else "not inflected"
        wordnet = self.resources.wordnet
        exchange = wordnet_synonym(wordnet, tagger, self._filter())
        return exchange, f"{wordnet.source}; {tags}; {inflected}; {self._filtering()}"

    def _filter(self) -> ValidSynonyms | None:
        return self.resources.valid_synonyms if self.unfiltered() is None else None

    def _filtering(self) -> str:
        """Return whether synonyms are filtered, for the record."""
        reason = self.unfiltered()
        return f"valid ones by {self.resources.valid_synonyms.source}" if reason is None else f"not filtered: {reason}"

    def masked_lm(self) -> MaskedLM:
        """Return the masked LM.

        Raises:
            NotMeasured: there is none.
        """
        advice = "no masked LM: name one with --masked-lm DIR"
        if "masked_lm" in self._missing:
            raise NotMeasured(f"{advice} ({self.names.masked_lm} is not on this machine)")
        try:
            return self.resources.masked_lm
        except UserError as error:
            if self._own_head:  # the configuration names a head that the weights lack
                raise NotMeasured(f"{advice} ({error})") from error
            raise


@dataclass(frozen=True)
class AuditContext:
    """Everything that the audit items need.

    Attributes:
        settings: the settings, with the resolved precision.
        model: the encoder.
        space: the vectors of the texts that have a valid vector.
        linguistics: the resources.
        progress: the progress display.
        vectors: the vectors of all texts, changed ones included.
        texts: the texts, each split where the model stops reading.
        edits: the edits.
        selection: the items that are measured.
        language: the language of the texts.
        budget: the time budget.
        journal: what is kept for an audit that goes on after a stop.
        seconds_per_text: the time that a text takes, measured on the first pass.
        texts_per_item: the largest number of texts of a changed item.
        deadline: the time, by `time.monotonic`, at which the current step stops.
        record: entries that the items add to the protocol.
        form: the form of the vectors in ``space`` and ``vectors``; None: the plain one.
        sides: plain vectors of texts encoded as queries and as documents, for a model that tells them apart.
    """

    settings: AuditSettings
    model: SentenceEncoder
    space: Space
    linguistics: Linguistics
    progress: AuditProgress
    vectors: SharedVectors
    texts: ReadTexts
    edits: EditTable
    language: Language
    budget: TimeBudget
    selection: ItemSelection = field(default_factory=ItemSelection)
    journal: AuditJournal = field(default_factory=lambda: AuditJournal(None, {}))
    seconds_per_text: float = 0.0
    texts_per_item: int = TEXTS_PER_ITEM
    deadline: float = float("inf")
    record: dict[str, object] = field(default_factory=dict)
    form: FittedForm | None = None
    sides: dict[Role | None, SharedVectors] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        """The number of texts to attack, if the time suffices."""
        return self.settings.examples if self.settings.examples is not None else EXAMPLES

    @property
    def few_texts(self) -> NumberedTexts:
        """The texts of a changed item: the first ones of the space."""
        return self.space.first(self.texts_per_item)

    @property
    def form_name(self) -> str:
        """The name of the form of the vectors."""
        return FLOAT32 if self.form is None else str(self.form.form)

    def side_vectors(self, role: Role) -> SharedVectors:
        """Return the plain vectors of one side: those that the audit has, unless the model tells sides apart."""
        own = side_of(self.model, role)
        if own not in self.sides:
            self.sides[own] = self.vectors if own is None else SharedVectors(self.model, role=own)
        return self.sides[own]

    def in_form(self, form: Form) -> AuditContext:
        """Return the context with all vectors in a form, calibrated on the audited texts."""
        self.side_vectors("query")  # the plain ones are kept
        self.side_vectors("document")
        space = self.space
        fitted = form.fitted(self.vectors.vectors(space.texts), of="audited texts", spec=self.settings.model)
        vectors = FormVectors(self.vectors, fitted)
        formed = Space(self.model, space.texts, space.numbers, vectors.units(space.texts), vectors.units)
        return replace(self, space=formed, vectors=vectors, form=fitted)

    def seconds_of(self, texts: Sequence[str]) -> float:
        """Return about how long one of these texts takes: by words, and no longer than an audited text."""
        ratio = _mean_words(texts) / max(1.0, _mean_words(self.space.texts))
        return self.seconds_per_text * min(1.0, ratio)

    def require_english(self) -> None:
        """Refuse an item whose changes need English texts.

        Raises:
            NotMeasured: the texts are in another language.
        """
        if not self.language.is_english:
            raise NotMeasured(f"needs English texts, these are in {self.language.code}")

    def encoded(self, copies: Sequence[Copy]) -> list[Copy]:
        """Return the copies that were encoded before the time was up."""
        return [copy for copy in copies if copy.text in self.vectors]


def _mean_words(texts: Sequence[str]) -> float:
    some = texts[:_COUNTED]
    return sum(len(Words.of(text).words) for text in some) / max(1, len(some))
