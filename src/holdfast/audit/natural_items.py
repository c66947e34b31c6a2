"""Audit items without an adversary: validity of the vectors, quality, effect of small random changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.audit import changed_copies
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audited_texts import how_to_have_sts, sts_here
from holdfast.audit.item_rows import Item, absent, item
from holdfast.audit.vector_movement import Copy, Moved, Units, mean_cosine, unit_vectors
from holdfast.audit.verdicts import (
    ANISOTROPIC,
    BATCH_HOLDS,
    IDLE_BREAKS,
    IDLE_HOLDS,
    PULL_BREAKS,
    PULL_HOLDS,
    Verdict,
    of_harm,
    of_quality,
    of_rate,
    worst,
)
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.evaluation.intervals import rate_interval, spearman_interval
from holdfast.evaluation.space import SAME_MEANING, alignment, uniformity
from holdfast.evaluation.sts import score_pairs
from holdfast.input_limits import Cuts

if TYPE_CHECKING:
    from holdfast.encoding import Progress
    from holdfast.user_functions import SentenceEncoder

_TEXTS_PER_END = 16
_CONSTANT = 1.0 - 1e-6


# --- the vectors themselves --------------------------------------------------------------------------------------


def vectors_item(
    model: SentenceEncoder, texts: Sequence[str], progress: Progress | None, cuts: Cuts | None = None
) -> tuple[Item, Units]:
    """Check that the vectors are finite, non-zero, distinct, and independent of the other texts in the batch.

    Returns:
        The item, whose verdict is "breaks" if nothing else can be measured or a text has no valid vector, and the
        normalised vectors of the texts, (n, d), with zeros for invalid ones. Truncated texts are added to ``cuts``.
    """
    units = unit_vectors(model, texts, progress, cuts)
    usable = units.any(axis=1)
    lost = len(texts) - int(usable.sum())
    metrics = {"without_vector": float(lost)}
    if usable.sum() < 2:
        message = "the vectors are zero or not finite: nothing can be compared"
        return item("audit-vectors", "all", len(texts), metrics, "breaks", message, headline="without_vector"), units
    between = mean_cosine(units[usable])
    batch_difference = _batch_sensitivity(model, texts)
    metrics |= {"different_texts": between, "batch_difference": batch_difference}
    faults: list[tuple[Verdict, str]] = []
    if between > _CONSTANT:
        faults.append(("breaks", "all texts have the same vector"))
    if lost:
        faults.append(("breaks", f"{lost} of {len(texts)} texts have no vector (zero or not finite)"))
    if batch_difference > BATCH_HOLDS:
        faults.append(("breaks", f"a text's vector moves by {batch_difference:.3f} when longer texts are in its batch"))
    if ANISOTROPIC < between <= _CONSTANT:
        faults.append(("bends", f"different texts have a cosine of {between:.2f} on average: cosines say little"))
    message = "; ".join(words for _, words in faults) or f"different texts have a cosine of {between:.2f} on average"
    verdict = worst("holds", *(verdict for verdict, _ in faults))
    found = item("audit-vectors", "all", len(texts), metrics, verdict, message, headline="different_texts")
    return found, units


def compares(units: Units) -> bool:
    """Return True if at least two vectors differ, so that the other items can be measured."""
    usable = units[units.any(axis=1)]
    return len(usable) > 1 and mean_cosine(usable) <= _CONSTANT


def _batch_sensitivity(model: SentenceEncoder, texts: Sequence[str]) -> float:
    """Return the maximum of 1 - cosine between a text's vector encoded alone and in a batch with longer texts."""
    by_length = sorted(texts, key=len)
    some = list(dict.fromkeys([*by_length[:_TEXTS_PER_END], *by_length[-_TEXTS_PER_END:]]))
    alone = encode_sentences(model, some, tokens_per_batch=1).astype(np.float64)
    together = encode_sentences(model, some, tokens_per_batch=10**9).astype(np.float64)
    norms = np.linalg.norm(alone, axis=1) * np.linalg.norm(together, axis=1)
    sound = np.isfinite(norms) & (norms > 0.0)
    cosines = (alone * together).sum(axis=1)[sound] / norms[sound]
    return max(0.0, float(1.0 - cosines.min())) if len(cosines) else 0.0


# --- quality -----------------------------------------------------------------------------------------------------


def quality_item(context: AuditContext) -> Item:
    """Compute Spearman, alignment and uniformity on STS-B dev, if present; dev keeps the test set unseen."""
    data: Path | None = context.settings.data
    pairs = sts_here("dev", data)
    if pairs is None:
        return absent("audit-quality", how_to_have_sts(data), "dev")
    sentences = list(dict.fromkeys((*pairs.sentences1, *pairs.sentences2)))
    with context.progress.encoding() as progress:
        vectors = encode_sentences(context.model, sentences, progress=progress)
    row = {sentence: index for index, sentence in enumerate(sentences)}
    first = vectors[[row[sentence] for sentence in pairs.sentences1]]
    second = vectors[[row[sentence] for sentence in pairs.sentences2]]
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
        of_quality(spearman),
        message,
        headline="spearman",
        data_sha256=pairs.sha256,
        source=pairs.source,
        items=items,
    )


# --- meaning-preserving changes ----------------------------------------------------------------------------------

_IDLE_NAMES = {
    ("audit-case", "lower"): "small letters",
    ("audit-case", "upper"): "capitals",
    ("audit-full-stop", "all"): "a full stop more or less",
    ("audit-blank", "all"): "a blank at the end",
}


def idle_item(context: AuditContext, task: str, split: str) -> Item:
    """Measure the effect of a meaning-preserving change."""
    copies = changed_copies.changed_idly(context.space.texts, changed_copies.IDLE[task, split])
    name = _IDLE_NAMES[task, split]
    if not copies:
        return absent(task, f"{name}: there is no text that this changes", split)
    moved = _moved(context, copies)
    metrics = context.space.metrics(moved, context.settings.seed)
    verdict = worst(of_harm(metrics["pull"], IDLE_HOLDS, IDLE_BREAKS), of_rate(metrics["neighbour_changed"]))
    message = f"{name}: as far as {metrics['pull']:.2f} of a word would go; {_describe_neighbours(metrics)}"
    recipe = "-".join([task.removeprefix("audit-"), *([split] if split != "all" else [])])
    rows, items = context.space.examples(moved, recipe), context.space.items(moved)
    return item(task, split, len(copies), metrics, verdict, message, headline="stability", examples=rows, items=items)


# --- random changes of words -------------------------------------------------------------------------------------


def typos_items(context: AuditContext) -> list[Item]:
    """Measure the effect of random typing errors, and how often a mistyped text is nearest to its original."""
    copies = _exchanged(context, changed_copies.typing_error, "typos")
    if not copies:
        return [absent(task, _UNCHANGEABLE) for task in ("audit-typos", "audit-noise")]
    moved = _moved(context, copies)
    return [
        _exchange_item(context, "audit-typos", "random-typos", moved, "a mistyped word"),
        _noise_item(context, moved),
    ]


def synonyms_item(context: AuditContext) -> Item:
    """Measure the effect of random synonyms."""
    synonym = context.linguistics.synonym()
    if isinstance(synonym, str):
        return absent("audit-synonyms", synonym)
    exchange, source = synonym
    context.record["random_synonyms"] = source
    copies = _exchanged(context, exchange, "synonyms")
    if not copies:
        return absent("audit-synonyms", "no text holds a word that has a synonym")
    return _exchange_item(context, "audit-synonyms", "random-synonyms", _moved(context, copies), "a synonym")


def fillers_item(context: AuditContext) -> Item:
    """Measure the effect of words replaced by probable fillers of a masked language model."""
    masked_lm = context.linguistics.masked_lm()
    if isinstance(masked_lm, str):
        return absent("audit-fillers", masked_lm)
    space = context.space
    copies = changed_copies.likely_others(
        space.texts, space.numbers, masked_lm, tokenizer=context.model.tokenizer, seed=context.settings.seed
    )
    if not copies:
        return absent("audit-fillers", _UNCHANGEABLE)
    return _exchange_item(context, "audit-fillers", "random-fillers", _moved(context, copies), "another likely word")


_UNCHANGEABLE = "no text holds a word that may be changed"


def _exchanged(context: AuditContext, exchange: changed_copies.Exchange, kind: str) -> list[Copy]:
    return changed_copies.exchanged_words(
        context.space.texts,
        context.space.numbers,
        exchange,
        tokenizer=context.model.tokenizer,
        kind=kind,
        seed=context.settings.seed,
    )


def _moved(context: AuditContext, copies: Sequence[Copy]) -> Moved:
    with context.progress.encoding() as progress:
        return context.space.moved(copies, progress)


def _exchange_item(context: AuditContext, task: str, recipe: str, moved: Moved, name: str) -> Item:
    metrics = context.space.metrics(moved, context.settings.seed)
    verdict = worst(of_harm(metrics["pull"], PULL_HOLDS, PULL_BREAKS), of_rate(metrics["neighbour_changed"]))
    message = f"{name} pulls {metrics['pull']:.1f} times its share of the text; {_describe_neighbours(metrics)}"
    rows, items, count = context.space.examples(moved, recipe), context.space.items(moved), len(moved.copies)
    return item(task, "all", count, metrics, verdict, message, headline="stability", examples=rows, items=items)


def _noise_item(context: AuditContext, moved: Moved) -> Item:
    """Measure how often a mistyped text is nearest to its original; random or constant models fail."""
    found, chance = 100.0 * float(moved.found.mean()), 100.0 / len(context.space.texts)
    low, high = (100.0 * end for end in rate_interval(moved.found, seed=context.settings.seed))
    message = f"{found:.1f} % of mistyped texts lie nearest to their own original ({chance:.2g} % by chance)"
    if low <= chance:
        message += ": the model is no better than random"
    metrics = {"found": found, "found_low": low, "found_high": high, "chance": chance}
    verdict, count = of_rate(100.0 - found), len(moved.copies)
    items = {"text": context.space.numbers_of(moved), "correct": moved.found.astype(int).tolist()}
    return item("audit-noise", "all", count, metrics, verdict, message, headline="found", items=items)


def _describe_neighbours(metrics: dict[str, float]) -> str:
    return f"{metrics['neighbour_changed']:.0f} % of texts get another nearest neighbour"
