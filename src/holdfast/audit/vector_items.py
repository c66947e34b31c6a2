"""Audit items about the vectors of unchanged texts: their validity and their quality."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast.attacks.encoder_targets import mean_cosine
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audited_texts import local_sts, sts_missing
from holdfast.audit.item_rows import Item, NotMeasured, item
from holdfast.audit.planned_items import NOT_ENCODED, Planned
from holdfast.audit.shared_vectors import SharedVectors
from holdfast.audit.vector_movement import Units
from holdfast.audit.verdicts import ANISOTROPIC, BATCH_HOLDS, Verdict, judged, quality, worst
from holdfast.data.registry import ScoredPairs
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.evaluation.intervals import spearman_interval
from holdfast.evaluation.space import SAME_MEANING, alignment, uniformity
from holdfast.evaluation.sts import score_pairs
from holdfast.input_limits import Cuts
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.encoding import Progress
    from holdfast.user_functions import SentenceEncoder

_TEXTS_PER_END = 16
_CONSTANT = 1.0 - 1e-6  # vectors with a higher mean cosine count as equal


def vectors_item(
    model: SentenceEncoder,
    texts: Sequence[str],
    progress: Progress | None,
    cuts: Cuts | None = None,
    vectors: SharedVectors | None = None,
) -> tuple[Item, Units]:
    """Check that the vectors are finite, non-zero, distinct, and independent of the other texts in the batch.

    Returns:
        The item, whose verdict is "breaks" if nothing else can be measured or a text has no valid vector, and the
        normalised vectors of the texts, (n, d), with zeros for invalid ones. Truncated texts are added to ``cuts``, and
        the vectors to ``vectors``.
    """
    vectors = SharedVectors(model) if vectors is None else vectors
    vectors.add(texts, progress, cuts=cuts, portion=len(texts))
    units = vectors.units(texts)
    valid = units[units.any(axis=1)]
    missing = len(texts) - len(valid)
    metrics = {"without_vector": float(missing)}
    if len(valid) < 2:
        message = "the vectors are zero or not finite: nothing can be compared"
        return item("audit-vectors", "all", len(texts), metrics, "breaks", message, headline="without_vector"), units
    cosine = mean_cosine(valid)
    metrics["different_texts"] = cosine
    # A function that keeps its answers would give the first ones again.
    keeps_answers = isinstance(model, VectorFunction) and model.keeps_answers
    batch_difference = 0.0 if keeps_answers else _batch_sensitivity(model, texts)
    metrics |= {} if keeps_answers else {"batch_difference": batch_difference}
    faults: list[tuple[Verdict, str]] = []
    if cosine > _CONSTANT:
        faults.append(("breaks", "all texts have the same vector"))
    if missing:
        faults.append(("breaks", f"{missing} of {len(texts)} texts have no vector (zero or not finite)"))
    if batch_difference > BATCH_HOLDS:
        faults.append(("breaks", f"a text's vector moves by {batch_difference:.3f} if longer texts are in its batch"))
    if ANISOTROPIC < cosine <= _CONSTANT:
        faults.append(("bends", f"different texts have a mean cosine of {cosine:.2f}: high cosines mean little"))
    message = "; ".join(fault for _, fault in faults) or f"different texts have a mean cosine of {cosine:.2f}"
    verdict = worst("holds", *(verdict for verdict, _ in faults))
    row = item("audit-vectors", "all", len(texts), metrics, verdict, message, headline="different_texts")
    return row, units


def can_compare(units: Units) -> bool:
    """Return True if at least two vectors differ, so that the other items can be measured."""
    valid = units[units.any(axis=1)]
    return len(valid) > 1 and mean_cosine(valid) <= _CONSTANT


def _batch_sensitivity(model: SentenceEncoder, texts: Sequence[str]) -> float:
    """Return the maximum of 1 - cosine between a text's vector encoded alone and in a batch with longer texts."""
    by_length = sorted(texts, key=len)
    extremes = list(dict.fromkeys([*by_length[:_TEXTS_PER_END], *by_length[-_TEXTS_PER_END:]]))
    alone = encode_sentences(model, extremes, tokens_per_batch=1).astype(np.float64)
    together = encode_sentences(model, extremes, tokens_per_batch=10**9).astype(np.float64)
    norms = np.linalg.norm(alone, axis=1) * np.linalg.norm(together, axis=1)
    valid = np.isfinite(norms) & (norms > 0.0)
    cosines = (alone * together).sum(axis=1)[valid] / norms[valid]
    return max(0.0, float(1.0 - cosines.min())) if len(cosines) else 0.0


def quality_items(context: AuditContext) -> Planned:
    """Plan Spearman, alignment and uniformity on STS-B dev, if present; dev keeps the test set unseen."""
    pairs = local_sts("dev", context.settings.data)
    if pairs is None:
        raise NotMeasured(sts_missing(context.settings.data))
    order = list(range(len(pairs.scores)))
    random.Random(f"{context.settings.seed}/quality").shuffle(order)
    texts = [
        (place, text) for place, row in enumerate(order) for text in (pairs.sentences1[row], pairs.sentences2[row])
    ]
    return Planned(texts, lambda context: [_quality_item(context, pairs)])


def _quality_item(context: AuditContext, pairs: ScoredPairs) -> Item:
    known = context.vectors
    if not all(text in known for text in (*pairs.sentences1, *pairs.sentences2)):
        raise NotMeasured(NOT_ENCODED)
    first, second = (known.vectors(sentences) for sentences in (pairs.sentences1, pairs.sentences2))
    vectors = known.vectors(list(dict.fromkeys((*pairs.sentences1, *pairs.sentences2))))
    try:
        scored = score_pairs(pairs, first, second, items=True)
        metrics = {**scored["metrics"], "uniformity": uniformity(vectors)}
    except UserError as error:
        return item("audit-quality", "dev", len(first), {}, "breaks", str(error), headline="spearman")
    same = np.array(pairs.scores) >= SAME_MEANING
    if same.any():
        metrics["alignment"] = alignment(first[same], second[same])
    items = scored["items"]
    if interval := spearman_interval(items["gold"], items["similarity"], seed=context.settings.seed):
        metrics["spearman_low"], metrics["spearman_high"] = interval
    spearman = metrics["spearman"]
    message = f"Spearman {spearman:.1f} on {len(first):,} STS-B dev pairs; uniformity {metrics['uniformity']:.2f}"
    return item(
        "audit-quality",
        "dev",
        len(first),
        metrics,
        judged(len(first), quality(spearman, *(interval or (spearman, spearman)))),
        message,
        headline="spearman",
        data_sha256=pairs.sha256,
        source=pairs.source,
        items=items,
    )
