"""What an audit works with: the model, the texts in its space, the linguistic resources that are here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.attacks.recipes import PWWS
from holdfast.attacks.resources import Resources, availability, choose
from holdfast.audit import changes
from holdfast.audit.progress import AuditProgress
from holdfast.audit.space import Space
from holdfast.audit.texts import Texts
from holdfast.errors import UserError
from holdfast.finding import has_masked_lm_head
from holdfast.functions import CALL_BATCH

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.functions import SentenceEncoder


@dataclass(frozen=True)
class AuditSettings:
    """What decides an audit.

    Attributes:
        model: any SentenceTransformer, a raw masked language model, or ``call:package.module:function``, which takes n
            texts and returns n vectors.
        texts: a corpus; None: STS-B dev where the data folder has it, else this Python's documentation.
        examples: texts that are attacked; random changes are made in ten times as many and more.
        max_words: longer texts are cut after so many words, as the cost of an attack grows with the square of them.
        resources: "paper" or "light", as for ``holdfast attack``.
        synonyms: named in place of the set's.
        wordnet: named in place of the set's.
        tagger: named in place of the set's.
        masked_lm: named in place of the set's; None: the model's own head where its folder has one.
        pooling: of a raw masked language model.
        precision: of the attacks' search; every number that is told is computed in fp32.
        seed: of all drawings and intervals.
        data: the data folder.
        device: where the model goes; None: the machine's best.
        call_batch: of a function, the most texts in a call.
    """

    model: str
    texts: str | None = None
    examples: int = 100
    max_words: int = 64
    resources: str = "light"
    synonyms: str | None = None
    wordnet: str | None = None
    tagger: str | None = None
    masked_lm: str | None = None
    pooling: str | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    seed: int = 42
    data: Path | None = None
    device: str | None = None
    call_batch: int = CALL_BATCH


class Linguistics:
    """The resources of an audit. One that the user named has to be here; of the others, what is here is used.

    Args:
        settings: which, and where.
        folder: the model's, which may hold a masked LM's head; None: a function has none.

    Raises:
        UserError: a resource that the user named is not here.
    """

    def __init__(self, settings: AuditSettings, folder: Path | None) -> None:
        named = {name: getattr(settings, name) for name in ("synonyms", "wordnet", "tagger", "masked_lm")}
        names = choose(settings.resources, **named)
        self._named = [name for name, value in named.items() if value is not None]
        self._own_head = settings.masked_lm is None and folder is not None and has_masked_lm_head(folder)
        if self._own_head:
            names = replace(names, masked_lm=str(folder))
        self.names = names
        self.resources = Resources(names, data=settings.data, device=settings.device)
        self.resources.require(self._named)
        rows = availability(names, data=settings.data)
        self._missing = {row.resource: row.detail for row in rows if not row.here and row.resource not in self._named}

    def synonym_attack(self) -> PWWS | str:
        """The recipe of adversarial synonyms, or why there is none.

        It keeps to the word's part of speech, as its paper asks for, where there is a tagger, and to the word's
        inflection where that is known: who reads the report should see synonyms.
        """
        if "wordnet" in self._missing:
            return self._missing["wordnet"]
        return PWWS(same_tag="tagger" not in self._missing, inflected=changes.can_inflect())

    def synonym(self) -> tuple[changes.Exchange, str] | str:
        """What exchanges a word by a synonym, and what it rests on; or why there is nothing."""
        if "synonyms" in self._named or ("wordnet" in self._missing and "synonyms" not in self._missing):
            synonyms = self.resources.synonyms
            return changes.listed_synonym(synonyms), synonyms.source
        if "wordnet" in self._missing:
            return f"{self._missing['wordnet']}; {self._missing['synonyms']}"
        tagger = None if "tagger" in self._missing else self.resources.tagger
        tags = "any part of speech" if tagger is None else f"parts of speech by {tagger.source}"
        inflected = "inflected" if changes.can_inflect() else "not inflected"
        wordnet = self.resources.wordnet
        return changes.wordnet_synonym(wordnet, tagger), f"{wordnet.source}; {tags}; {inflected}"

    def masked_lm(self) -> MaskedLM | str:
        """A masked LM, or why there is none."""
        if "masked_lm" in self._missing:
            return f"no masked LM: name one with --masked-lm DIR ({self.names.masked_lm} is not on this machine)"
        try:
            return self.resources.masked_lm
        except UserError as error:
            if self._own_head:  # its configuration promised a head that its weights do not hold
                return f"no masked LM: name one with --masked-lm DIR ({error})"
            raise


@dataclass(frozen=True)
class Kit:
    """Everything an item of the audit may need.

    Attributes:
        settings: the settings, with the precision decided.
        model: the encoder.
        texts: the audited texts.
        space: those of them that have a vector, in the model's space.
        linguistics: the resources.
        progress: what a person sees.
        record: what the items add to the protocol.
    """

    settings: AuditSettings
    model: SentenceEncoder
    texts: Texts
    space: Space
    linguistics: Linguistics
    progress: AuditProgress
    record: dict[str, object] = field(default_factory=dict)
