"""The systems that stand beside an encoder in retrieval, by name."""

from __future__ import annotations

from holdfast.baselines.lexical_search import BM25_RECORD, rank_by_bm25, require_bm25
from holdfast.baselines.spelling import SPELLING_RECORD, require_symspell, spelling_correction
from holdfast.errors import one_of
from holdfast.evaluation.retrieval_systems import ENCODER, RetrievalSystem

SYSTEMS = ("bm25", "spelling", "bm25+spelling")
"""The names: BM25; the encoder on corrected queries; BM25 on corrected queries."""


def retrieval_systems(names: str, where: str = "--systems") -> list[RetrievalSystem]:
    """Return the encoder and the systems named, joined by commas; the libraries that they need are checked.

    Raises:
        UserError: a name is unknown, or a library is missing.
    """
    chosen = dict.fromkeys(one_of(where, name.strip(), SYSTEMS) for name in names.split(",") if name.strip())
    if any("bm25" in name for name in chosen):
        require_bm25()
    if any("spelling" in name for name in chosen):
        require_symspell()
    made = {
        "bm25": RetrievalSystem("bm25", rank=rank_by_bm25, record=BM25_RECORD),
        "spelling": RetrievalSystem("spelling", correction=spelling_correction, record=SPELLING_RECORD),
        "bm25+spelling": RetrievalSystem(
            "bm25+spelling", rank_by_bm25, spelling_correction, f"{BM25_RECORD}; {SPELLING_RECORD}"
        ),
    }
    return [ENCODER, *(made[name] for name in chosen)]
