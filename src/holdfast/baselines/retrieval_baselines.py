"""The systems that stand beside an encoder in retrieval, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.baselines.lexical_search import BM25_RECORD, rank_by_bm25, require_bm25
from holdfast.baselines.spelling import SPELLING_RECORD, SpellingCorrection, spelling_correction
from holdfast.baselines.spelling_step import spelling_step, step_sha256
from holdfast.baselines.word_model import require_symspell
from holdfast.errors import UserError, one_of
from holdfast.evaluation.retrieval_systems import ENCODER, RetrievalSystem

BM25, SPELLING = "bm25", "spelling"
SYSTEMS = (BM25, SPELLING, f"{BM25}+{SPELLING}")
"""The names: BM25; the encoder on corrected queries; BM25 on corrected queries."""


def retrieval_systems(names: str, where: str = "--systems") -> list[RetrievalSystem]:
    """Return the encoder and the systems named, joined by commas; the libraries that they need are checked.

    ``spelling=DIR`` and ``bm25+spelling=DIR`` correct with the step in a folder (`holdfast.baselines.spelling_step`)
    in place of the words of the documents.

    Raises:
        UserError: a name is unknown, a folder has no correction, or a library is missing.
    """
    given = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    return [ENCODER, *(_system(name, where) for name in given)]


def _system(given: str, where: str) -> RetrievalSystem:
    kind, sign, folder = given.partition("=")
    name = one_of(where, kind.strip(), SYSTEMS)
    rank = None
    if BM25 in name:
        require_bm25()
        rank = rank_by_bm25
    records = [BM25_RECORD] if rank is not None else []
    correction: Callable[[Iterable[str]], Callable[[str], str]] | None = None
    if SPELLING in name:
        require_symspell()
        correction = _saved(folder) if sign else spelling_correction
        source = f"the step in {folder}, sha256 {step_sha256(folder)}" if sign else "the words of the documents"
        records.append(f"{SPELLING_RECORD}; dictionary: {source}")
    elif sign:
        raise UserError(f"{where} {given}: only spelling takes a folder, as in spelling=DIR")
    return RetrievalSystem(given, rank=rank, correction=correction, record="; ".join(records))


def _saved(folder: str) -> Callable[[Iterable[str]], SpellingCorrection]:
    """Return a function that ignores the documents and returns the correction in a folder."""
    step = spelling_step(folder)
    return lambda _: step
