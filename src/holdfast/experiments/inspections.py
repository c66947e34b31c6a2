"""Inspections of what an encoder does with given texts, for the case studies of the papers.

A row of the results can have ``told``: lines of text for readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.evaluation.masks import SentenceMasks

_HIGHEST = 5.0
_DRAWS = 20
_BEST = 0.5


def similarities(encoder: SentenceTransformer, pairs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Compute the similarity of each pair: the cosine on the scale of human ratings, 0 to 5 (AdCSE, Table 3).

    The paper maps cosines "to the range of ground truth score" and does not say how: 5 · cosine, and 0 below 0.

    Returns:
        For each pair ``{task: "similarity", split: "1", n: 1, metrics: {similarity, cosine}}``; split is its number.
    """
    from holdfast.encoding import encode_sentences
    from holdfast.evaluation.space import unit_directions

    first, second = (unit_directions(encode_sentences(encoder, [pair[side] for pair in pairs])) for side in (0, 1))
    rows = []
    for number, cosine in enumerate((first * second).sum(axis=1).tolist(), start=1):
        metrics = {"similarity": _HIGHEST * max(0.0, cosine), "cosine": cosine}
        rows.append({"task": "similarity", "split": str(number), "n": 1, "metrics": metrics})
    return rows


def masks(encoder: SentenceTransformer, folder: Path, texts: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Learn which tokens of the texts L2P-CSR weakens (its Figure 3), with the settings of the encoder's training.

    Returns:
        The rows of :func:`holdfast.evaluation.masks.layer_rows`; ``told`` shows the first draw of that layer: a
        line for each text and view, with weakened tokens in ‹›.
    """
    from holdfast.evaluation.masks import layer_rows, learn_masks, trained_settings

    settings = trained_settings(folder)
    learned = learn_masks(encoder, list(texts), settings=settings, draws=_DRAWS, seed=seed)
    rows = layer_rows(learned)
    for layer, row in enumerate(rows):
        row["told"] = [line for mask in learned for line in _views(mask, layer)]
    return rows


def _views(mask: SentenceMasks, layer: int) -> list[str]:
    if mask.first is None:
        return []
    return [
        f"view {view}: "
        + " ".join(f"‹{token}›" if kept < _BEST else token for token, kept in zip(mask.tokens, of_view, strict=True))
        for view, of_view in enumerate(mask.first[layer].tolist(), start=1)
    ]


def hard_positives(
    encoder: SentenceTransformer, texts: Sequence[str], *, options: Mapping[str, Any], seed: int
) -> list[dict[str, Any]]:
    """Attack the texts with ADCL's Geometry Attack on the contrastive loss (its Table 9).

    The projection and the queue of the training are not saved with an encoder: here the projection is drawn by the
    seed, and the queue holds the keys of other sentences. The encoder is not changed. ``options`` are those of
    :class:`~holdfast.objectives.adcl.ADCL`, except the queue's size.

    Returns:
        For each text ``{task: "hard-positives", split: "1", n, metrics: {changed, words}, told: [new text]}``;
        ``split`` is its number, ``n`` counts its words and ``changed`` the exchanged ones.
    """
    import torch

    from holdfast.devices import random_numbers_kept
    from holdfast.evaluation.masks import OTHERS
    from holdfast.models import evaluating
    from holdfast.objectives.adcl import ADCL

    with random_numbers_kept(encoder.device), evaluating(encoder):
        torch.manual_seed(seed)
        objective = ADCL(encoder, **options, queue_size=len(OTHERS)).to(encoder.device).eval()
        with torch.no_grad():
            objective.queue.push(objective.follower.keys(objective.encoder.tokenise(list(OTHERS))))
            keys = objective.follower.keys(objective.encoder.tokenise(list(texts)))
        made = objective.attack_texts(objective.encoder, list(texts), keys)
    return [
        {
            "task": "hard-positives",
            "split": str(number),
            "n": words,
            "metrics": {"changed": float(changed), "words": float(words)},
            "told": [text],
        }
        for number, (text, changed, words) in enumerate(
            zip(made.texts, made.replaced, made.words, strict=True), start=1
        )
    ]
