"""The cost of an encoder: its parameters, its size on disk, and its speed beside a reference encoder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.encoding import encode_sentences
from holdfast.leaderboard.suite import own_texts
from holdfast.model_folder import weights_files
from holdfast.models import backend_of, load_sentence_transformer
from holdfast.static_encoder import static_module
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder


def cost_row(encoder: SentenceEncoder, folder: Path | None, part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of the part ``cost``: ``{task, split, n, metrics, …}``.

    Its metrics: ``dimensions``; of a model ``parameters`` and ``bytes`` (of the files of its weights; of a graph that
    was exported, of the model that it was exported from); ``speed`` with ``speed_low`` and ``speed_high``: texts per
    second of processor time as a multiple of the reference's, the median over rounds and the smallest and largest of
    them. Both encode the same texts in turns, so that what else the machine does slows both. Processor time does not
    count what a function does elsewhere.

    Args:
        encoder: the encoder.
        folder: the model's folder; None: a function.
        part: the settings of the part: ``reference``, ``texts``, ``rounds``.
    """
    reference = load_sentence_transformer(part["reference"], device="cpu")
    texts = own_texts()[: part["texts"]]
    ratios = speed_ratios(encoder, reference, texts, part["rounds"])
    metrics = {
        "dimensions": float(encode_sentences(encoder, texts[:1]).shape[1]),
        "speed": statistics.median(ratios),
        "speed_low": min(ratios),
        "speed_high": max(ratios),
    }
    if folder is not None and not isinstance(encoder, VectorFunction):
        metrics["bytes"] = float(sum(file.stat().st_size for file in weights_files(folder)))
        # A graph has the transformer's weights in a file of its own.
        if backend_of(encoder) is None and (count := sum(weights.numel() for weights in encoder.parameters())) > 0:
            metrics["parameters"] = float(count)
    about = {"reference": part["reference"], "kind": kind_of(encoder)}
    return {"task": "cost", "split": "all", "n": len(texts), "metrics": metrics, **about}


def kind_of(encoder: SentenceEncoder) -> str:
    """Return the kind of an encoder: transformer, static or function."""
    if isinstance(encoder, VectorFunction):
        return "function"
    return "static" if static_module(encoder) is not None else "transformer"


def speed_ratios(
    encoder: SentenceEncoder, reference: SentenceEncoder, texts: Sequence[str], rounds: int
) -> list[float]:
    """Return, for each round, the reference's processor time for the texts divided by the encoder's.

    One round more comes first, in which both warm up; it does not count.
    """
    ratios = []
    for _ in range(rounds + 1):
        seconds = []
        for each in (reference, encoder):
            began = time.process_time()
            encode_sentences(each, texts)
            seconds.append(max(time.process_time() - began, 1e-6))
        ratios.append(seconds[0] / seconds[1])
    return ratios[1:]
