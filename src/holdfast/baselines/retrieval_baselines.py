"""The systems that stand beside an encoder in retrieval, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from holdfast.baselines.hybrid_search import HybridSettings, hybrid_rank
from holdfast.baselines.lexical_search import BM25_RECORD, rank_by_bm25, require_bm25
from holdfast.baselines.spelling import SPELLING_RECORD, SpellingCorrection
from holdfast.baselines.spelling_step import spelling_step, step_sha256
from holdfast.errors import UserError, one_of
from holdfast.evaluation.retrieval_systems import ENCODER, RetrievalSystem
from holdfast.option_parsing import fitted

BM25, HYBRID, SPELLING = "bm25", "hybrid", "spelling"
SYSTEMS = (BM25, HYBRID, SPELLING, f"{BM25}+{SPELLING}", f"{HYBRID}+{SPELLING}")
"""The names: BM25; the encoder and BM25 over letter groups; the encoder on corrected queries; the first two on them."""


def retrieval_systems(names: str, where: str = "--systems") -> list[RetrievalSystem]:
    """Return the encoder and the systems named, joined by commas; the libraries that they need are checked.

    ``spelling=DIR``, ``bm25+spelling=DIR`` and ``hybrid+spelling=DIR`` correct with the step in a folder
    (`holdfast.baselines.spelling_step`) in place of the words of the documents; ``hybrid=W`` sets the weight of BM25.

    Raises:
        UserError: a name is unknown, a folder has no correction, a weight is no number from 0 to 1000, or a library is
            missing.
    """
    given = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    return [ENCODER, *(_system(name, where) for name in given)]


def _system(given: str, where: str) -> RetrievalSystem:
    kind, sign, value = given.partition("=")
    name = one_of(where, kind.strip(), SYSTEMS)
    if sign and name == BM25:
        raise UserError(f"{where} {given}: only spelling takes a folder, as in spelling=DIR, and hybrid a weight")
    system = RetrievalSystem(given)
    if BM25 in name:
        require_bm25()
        system = replace(system, rank=rank_by_bm25, record=BM25_RECORD)
    elif HYBRID in name:
        require_bm25()
        settings = HybridSettings()
        if sign and name == HYBRID:
            settings = HybridSettings(weight=fitted(f"{where} {given}", value, float, "hybrid_weight"))
        system = replace(system, rank_with_encoder=hybrid_rank(settings), record=settings.record())
    return _corrected(system, value if sign else None) if SPELLING in name else system


def _corrected(system: RetrievalSystem, folder: str | None) -> RetrievalSystem:
    """Return a system that corrects the queries first, by the step in a folder or by the words of the documents."""
    correction = SpellingCorrection.of if folder is None else _saved(folder)
    source = "the words of the documents" if folder is None else f"the step in {folder}, sha256 {step_sha256(folder)}"
    records = [*filter(None, [system.record]), f"{SPELLING_RECORD}; dictionary: {source}"]
    return replace(system, correction=correction, record="; ".join(records))


def _saved(folder: str) -> Callable[[Iterable[str]], SpellingCorrection]:
    """Return a function that ignores the documents and returns the correction in a folder."""
    step = spelling_step(folder)
    return lambda _: step
