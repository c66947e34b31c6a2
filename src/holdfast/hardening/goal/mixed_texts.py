"""The training texts of a hardening: a corpus, mixed with texts like queries, without what is held out of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.data.corpus import SpooledCorpus, open_spooled, spool_corpus, spool_texts
from holdfast.errors import UserError
from holdfast.hardening.goal.hold_out import LARGEST_SHARE, HoldOut, Keys, Rows, hold_out, keys_of, training_rows
from holdfast.hardening.plain_vocabulary import PlainVocabulary
from holdfast.launch import is_first_process
from holdfast.text_prompts import RolePromptOptions, choose_prompts
from holdfast.training.training_texts import WeightChoice

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

AUTO = "auto"
MISSPELLINGS = 30_000
"""Misspellings that are added to a vocabulary where nobody has said how many, at most: see benchmarks/RESULTS.md."""
BANK = 20_000
"""Documents of the old index, held-out ones included."""
LEAST = 200
"""Held-out texts of the corpus by which weights can be chosen, at least: with fewer nothing is held out."""
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Held:
    """The texts that are held out of the training.

    Attributes:
        documents: the documents of the old index, all different.
        choosing: positions of the held-out documents that choose the weights.
        reporting: positions of those on which the kept weights are measured.
        choosing_queries: held-out queries that choose.
        reporting_queries: those that report.
    """

    documents: list[str]
    choosing: list[int]
    reporting: list[int]
    choosing_queries: list[str]
    reporting_queries: list[str]


@dataclass
class MixedTexts:
    """The texts to train on.

    A text that is held out of one source is trained on in neither, nor are texts that differ from it only in case or
    punctuation. With queries, the training set holds ``share`` of them: the larger source once, the smaller one as
    often as that takes. With ``limit`` it is a sample of that many texts, if there are more.

    Args:
        corpus: source of texts like those that are encoded, as for ``--corpus``.
        queries: source of texts like those that are searched with; None: there are none.
        share: share of queries in the training set.
        held_texts: largest number of the corpus's texts that choose, and of those that report; 0: nothing is held out.
        held_queries: the same of the queries.
        limit: number of texts that are enough for the training; None: all.
        at_least: fewest texts of the training, usually a batch.
        bank: number of documents of the old index.
        column: column of the corpus that holds the texts.
        data: the data folder.
        max_chars: longest text, in characters.
        seed: seed of the sample.
        choose: returns the choice of the weights by what is held out, which is None in all processes but the first;
            None: the last step is kept.
        kept_out: returns texts that are in neither the training nor the vocabulary, such as labelled queries that
            measure the result; None: there are none.
        prompts: the choice of prompts, also of the sides: queries and documents that are measured have theirs; None:
            the model has its choice already.
        typo_vocabulary: number of misspellings that become entries of the model's vocabulary, at most; None: as many as
            it has entries, up to `MISSPELLINGS`, where they can be added.
        language: the language of the texts; None: detect it.

    Attributes:
        held: what is held out, after `open` in the first process; None: nothing.
        plain: the model's own vocabulary, after `prepare_model`; None: it has not changed.
    """

    corpus: str
    queries: str | None = None
    share: float = 0.5
    held_texts: int = 0
    held_queries: int = 0
    limit: int | None = None
    at_least: int = 1
    bank: int = BANK
    column: str | None = None
    data: Path | None = None
    max_chars: int = 10_000
    seed: int = 42
    choose: Callable[[Held | None], WeightChoice] | None = None
    kept_out: Callable[[], Iterable[str]] | None = None
    prompts: RolePromptOptions | None = None
    typo_vocabulary: int | None = 0
    language: str | None = None
    held: Held | None = field(default=None, init=False)
    plain: PlainVocabulary | None = field(default=None, init=False)
    _holds_out: bool = field(default=False, init=False)
    _vocabulary_line: str = field(default="", init=False)
    _sources: list[SpooledCorpus] = field(default_factory=list, init=False)
    _apart: Keys | None = field(default=None, init=False)
    _known_keys: dict[str, Keys] = field(default_factory=dict, init=False)  # by the hash of a source

    def record(self) -> dict[str, Any]:
        """Return the settings that decide on the texts."""
        record: dict[str, Any] = {"held_out": [self.held_texts, self.held_queries]}
        record |= {"typo_vocabulary": AUTO if self.typo_vocabulary is None else self.typo_vocabulary}
        record |= {} if self.language is None else {"language": self.language}
        given = {} if self.prompts is None else self.prompts.prompt_settings
        if of_documents := {name: given[name] for name in given if name.startswith("document_")}:
            record["prompts_of_documents"] = of_documents  # the others are in the record of the training
        return record | ({} if self.queries is None else {"queries": self.queries, "query_share": self.share})

    def goal(self) -> Mapping[str, Any]:
        """Return the record of the choice of the weights, if something is held out."""
        return {} if self.choose is None else self.choose(None).record()

    def read(self, progress: Callable[[int], None]) -> dict[str, Any]:
        """Read the sources, hold texts out, and store the training set; return facts for `open`.

        Raises:
            UserError: a source is missing, damaged or empty, or the training set is smaller than a batch.
        """
        texts = self._spooled(self.corpus, self.column, self.at_least, progress)
        queries = None if self.queries is None else self._spooled(self.queries, None, 1, progress)
        sources = [source for source in (texts, queries) if source is not None]
        apart = self._kept_out()
        keys = [self._keys(source) for source in sources] if self.held_texts or self.held_queries or len(apart) else []
        facts = {"sources": [source.facts() for source in sources], "held_out": self._hold_out(sources, keys)}
        enough = self.limit is None or self.limit >= texts.sentences
        if not (facts["held_out"] or len(apart)) and queries is None and enough:
            return {**facts, "training": texts.facts()}
        held = [each.keys for each in self._held_out(keys)] if facts["held_out"] else []
        excluded = np.concatenate([apart, *held])
        rows = [training_rows(own, excluded) for own in keys] or [np.arange(each.sentences) for each in sources]
        name = " + ".join(source.source for source in sources)
        mixed = self._sampled(rows[0]) if queries is None else self._mixed(rows)
        chosen = (text for source, own in zip(sources, mixed, strict=True) for text in _texts(source, own))
        training = spool_texts(name, chosen, at_least=self.at_least, progress=progress)
        return {**facts, "training": training.facts()}

    def open(self, facts: Mapping[str, Any]) -> SpooledCorpus:
        """Open the training set; in the first process also what is held out."""
        self._holds_out = bool(facts["held_out"])
        self._sources = [open_spooled(each) for each in facts["sources"]]
        if self._holds_out and is_first_process():
            self.held = self._read_held(self._sources)
        return open_spooled(facts["training"])

    def prepare_model(self, model: SentenceTransformer, corpus: SpooledCorpus) -> dict[str, Any]:
        """Add misspellings of the words of all texts to the model's vocabulary, if any are wanted; choose its prompts.

        Raises:
            UserError: the model's tokeniser cannot have them.
        """
        from holdfast.hardening.added_vocabulary import add_misspellings_of, check_vocabulary

        if self.prompts is not None:
            choose_prompts(model, self.prompts, required=False)
        wanted = self._misspellings_that_suit(model) if self.typo_vocabulary is None else self.typo_vocabulary
        if not wanted:
            return {}
        check_vocabulary(model)
        self.plain = PlainVocabulary.of(model)
        entries = add_misspellings_of(model, self.all_texts(), wanted)
        self._vocabulary_line = f"{entries:,} misspellings are new entries of the vocabulary"
        return {"typo_entries": entries}

    def _misspellings_that_suit(self, model: SentenceTransformer) -> int:
        """Return how many misspellings are added if nobody has said; 0 if none can be, for which there is a line."""
        from holdfast.edits.text_language import language_of_corpus
        from holdfast.hardening.added_vocabulary import takes_misspellings

        reason = ""
        if model.transformers_model is None:
            reason = "its vectors are static"
        elif not takes_misspellings(model):
            reason = "its tokeniser is not one of WordPieces"
        elif not language_of_corpus(self.all_texts(), self.language).is_english:
            reason = "the corpus is not in English"
        self._vocabulary_line = f"no misspellings are added to the vocabulary: {reason}"
        return 0 if reason else min(MISSPELLINGS, len(model.tokenizer.get_vocab()))

    def all_texts(self) -> Iterator[str]:
        """Yield the texts of the corpus, held out or not, since they are in the index, then the queries to train on.

        Their words are known to the vocabulary and to the spelling correction, as those of queries to come are not.
        Reads the sources if no training has.
        """
        if not self._sources:
            self.open(self.read(lambda _: None))
        texts, *queries = self._sources
        yield from _all_texts(texts)
        keys = [self._keys(source) for source in self._sources]
        held = self._held_out(keys) if self._holds_out else [hold_out(own, 0) for own in keys]
        for source, own, out in zip(queries, keys[1:], held[1:], strict=True):
            yield from _texts(source, training_rows(own, np.concatenate([self._kept_out(), out.keys])))

    def _kept_out(self) -> Keys:
        if self._apart is None:
            self._apart = keys_of(self.kept_out() if self.kept_out is not None else ())
        return self._apart

    def _keys(self, source: SpooledCorpus) -> Keys:
        if source.sha256 not in self._known_keys:
            self._known_keys[source.sha256] = keys_of(_all_texts(source))
        return self._known_keys[source.sha256]

    def choice(self) -> tuple[WeightChoice | None, str]:
        """Return the choice of the weights and lines on it and on the vocabulary; after `open` and `prepare_model`."""
        choice, line = self._choice()
        return choice, "\n".join(filter(None, (self._vocabulary_line, line)))

    def _choice(self) -> tuple[WeightChoice | None, str]:
        if self._holds_out and self.choose is not None:
            return self.choose(self.held), self._held_line()
        if self.choose is None or not (self.held_texts or self.held_queries):
            return None, "nothing is held out: the last step is kept, and nothing is checked"
        return None, (
            f"the corpus is too small to choose the weights by: {LEAST} texts, and as many to measure the result, are "
            f"more than {LARGEST_SHARE:.0%} of it or than --hold-out; the last step is kept, and nothing is checked"
        )

    def _held_line(self) -> str:
        if self.held is None:
            return ""
        texts = len(self.held.choosing) + len(self.held.reporting)
        queries = len(self.held.choosing_queries) + len(self.held.reporting_queries)
        of_queries = f" and {queries:,} queries" if queries else ""
        return f"held out: {texts:,} texts{of_queries}; half choose the weights, half measure the result"

    def _spooled(
        self, source: str, column: str | None, at_least: int, progress: Callable[[int], None]
    ) -> SpooledCorpus:
        return spool_corpus(
            source, column=column, data=self.data, max_chars=self.max_chars, at_least=at_least, progress=progress
        )

    def _held_out(self, keys: list[Keys]) -> list[HoldOut]:
        """Return the hold-out of each source; of the queries none that is a text of the corpus too."""
        most = (self.held_texts, self.held_queries)
        return [
            hold_out(own, number, keys[0] if place else None)
            for place, (own, number) in enumerate(zip(keys, most, strict=False))
        ]

    def _hold_out(self, sources: list[SpooledCorpus], keys: list[Keys]) -> bool:
        """Return True if enough of the corpus can be held out to choose by."""
        return bool(keys) and len(self._held_out(keys)[0].choosing) >= LEAST

    def _sampled(self, rows: Rows) -> list[Rows]:
        """Return the rows of the only source, or a sample of so many as are enough."""
        enough = self.limit is None or self.limit >= len(rows)
        return [rows if enough else _passes(rows, self.limit or 0, self.seed)]

    def _mixed(self, rows: list[Rows]) -> list[Rows]:
        """Return the rows of the corpus and of the queries to train on, in the share that was asked for."""
        if not all(len(own) for own in rows):
            apart = " and the queries of --retrieval" if len(self._kept_out()) else ""
            raise UserError(f"--queries {self.queries}: nothing is left to train on beside the hold-out{apart}")
        shares = (1.0 - self.share, self.share)
        total = max(math.ceil(len(own) / share) for own, share in zip(rows, shares, strict=True) if share > 0.0)
        sampled = self.limit is not None and self.limit < total
        total = min(total, self.limit or total)
        queries = round(self.share * total)
        seed = self.seed if sampled else 0  # a whole set is shuffled by the trainer, and stored once for all seeds
        return [_passes(own, count, seed) for own, count in zip(rows, (total - queries, queries), strict=True)]

    def _read_held(self, sources: list[SpooledCorpus]) -> Held:
        held = self._held_out([self._keys(source) for source in sources])
        texts, bank = held[0], held[0].rows[: max(self.bank, held[0].held)]
        queries: list[list[str]] = [[], []]
        if len(sources) > 1:
            queries = [_texts_list(sources[1], rows) for rows in (held[1].choosing, held[1].reporting)]
        return Held(
            _texts_list(sources[0], bank),
            list(range(0, texts.held, 2)),
            list(range(1, texts.held, 2)),
            *queries,
        )


def _passes(rows: Rows, count: int, seed: int) -> Rows:
    """Return ``count`` of the rows: whole passes, then a drawn part of one, sorted."""
    passes, rest = divmod(count, len(rows))
    drawn = np.random.default_rng(seed).permutation(rows)[:rest]
    return np.sort(np.concatenate([*[rows] * passes, drawn]).astype(np.int64))


def _texts(source: SpooledCorpus, rows: Rows) -> Iterator[str]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield from source.dataset[rows[start : start + _ROWS_AT_ONCE]]["sentence"]


def _all_texts(source: SpooledCorpus) -> Iterator[str]:
    return _texts(source, np.arange(source.sentences))


def _texts_list(source: SpooledCorpus, rows: Rows) -> list[str]:
    return list(_texts(source, rows))
