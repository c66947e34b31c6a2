"""Fast encoding of many sentences: each distinct one once, sorted by length, in batches by number of tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from holdfast.data.batching import CPU_TOKENS_PER_BATCH, GPU_TOKENS_PER_BATCH, plan_batches
from holdfast.errors import UserError, did_you_mean
from holdfast.input_limits import Cuts, TokenCounts, count_tokens, input_limit
from holdfast.models import evaluating, own_forward
from holdfast.precision import ResolvedPrecision
from holdfast.shortening import keeps_the_beginning, shortened
from holdfast.text_prompts import Role, preprocess_texts, prompt_of, task_of
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from holdfast.user_functions import SentenceEncoder

Progress = Callable[[int, int], None]
Vectors = npt.NDArray[np.float32]

Exact = npt.NDArray[np.float64]

# Sentences tokenised in one call to get their lengths: enough for all threads of a fast tokeniser.
_LENGTHS_AT_ONCE = 512


@dataclass(frozen=True)
class Batch:
    """Tokenised sentences: ``features`` for the model, and the row of each sentence in the result."""

    rows: list[int]
    features: dict[str, Any]


def normalised(vectors: npt.ArrayLike) -> Exact:
    """Return vectors (n, d) divided by their lengths, in fp64; a row of zeros if one is zero or not finite."""
    exact = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(exact, axis=1, keepdims=True)
    units: Exact = np.divide(exact, norms, out=np.zeros_like(exact), where=np.isfinite(norms) & (norms > 0.0))
    return units


def encode_sentences(
    model: SentenceEncoder,
    sentences: Sequence[str],
    *,
    role: Role | None = None,
    precision: ResolvedPrecision = "fp32",
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
    shared: bool = False,
    cuts: Cuts | None = None,
) -> Vectors:
    """Return the vectors of ``sentences``, equal to ``model.encode(sentences)`` up to rounding.

    Each distinct sentence is encoded once. The chosen prompt (`holdfast.text_prompts`), or else the model's own, and
    its length limit, modules and ``truncate_dim`` apply. The mode (training or evaluation) of each module is restored
    afterwards.

    Args:
        model: any SentenceTransformer, or a function, for which ``precision`` has no effect.
        sentences: n texts.
        role: ``"query"`` or ``"document"``: encode as ``model.encode_query`` or ``model.encode_document`` do, with the
            prompt and the route of this side. No effect on a function.
        precision: ``"fp32"``, or ``"bf16"`` for automatic mixed precision (cosine to fp32 about 0.9999).
        tokens_per_batch: tokens of one batch, padding included; ``None``: the best measured value for the device. For a
            function: the maximum number of texts per call, if less than its own limit.
        progress: called with (sentences done, distinct sentences) after each batch.
        shared: split the batches over the processes of the group; each of the W processes encodes every W-th batch and
            gets all vectors, bit-identical to those of one process. All must call it together, with the same sentences.
        cuts: counter of the distinct sentences that are truncated; not used for a function.

    Returns:
        (n, d) float32, row i for ``sentences[i]``.

    Raises:
        UserError: an unknown precision, a batch size below one, or a model with prompts of which none was chosen.
    """
    distinct = list(dict.fromkeys(sentences))
    row = {sentence: index for index, sentence in enumerate(distinct)}
    if isinstance(model, VectorFunction):
        vectors = model.vectors(distinct, limit=tokens_per_batch, progress=progress)
        return vectors[[row[sentence] for sentence in sentences]]
    rank, world = _rank_and_size() if shared else (0, 1)

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(min(done * world, total), total)  # assumes that the other processes are equally far

    batches = tokenise(model, distinct, role=role, tokens_per_batch=tokens_per_batch, share=(rank, world), cuts=cuts)
    vectors = encode_batches(model, batches, len(distinct), role=role, precision=precision, progress=report)
    if world > 1:
        vectors = _summed(vectors)
    return vectors[[row[sentence] for sentence in sentences]]


def tokenise(
    model: SentenceTransformer,
    sentences: Sequence[str],
    *,
    role: Role | None = None,
    tokens_per_batch: int | None = None,
    share: tuple[int, int] = (0, 1),
    cuts: Cuts | None = None,
) -> Iterator[Batch]:
    """Yield batches of ``sentences`` of similar length, longest first, each tokenised when requested.

    With this order a batch too large for the memory fails at once, and an estimate of the time left, made from the
    sentences done, is too long rather than too short.

    Args:
        model: any SentenceTransformer.
        sentences: n texts.
        role: as for `encode_sentences`.
        tokens_per_batch: as for `encode_sentences`.
        share: (r, W): only every W-th batch from the r-th on, for process r of W. The content of a batch does not
            depend on it.
        cuts: as for `encode_sentences`.

    Raises:
        UserError: ``tokens_per_batch`` is below one, or the model has prompts of which none was chosen.
    """
    if tokens_per_batch is None:
        tokens_per_batch = CPU_TOKENS_PER_BATCH if model.device.type == "cpu" else GPU_TOKENS_PER_BATCH
    if tokens_per_batch < 1:
        raise UserError(f"tokens_per_batch must be at least 1, not {tokens_per_batch}")
    read = _without_unread_ends(model, sentences, role)
    lengths, whole = _token_lengths(model, read, sentences, cuts if cuts is not None else Cuts(), role)
    rank, world = share
    for rows in plan_batches(lengths, tokens_per_batch)[rank::world]:
        features = None if whole is None else _part(whole, rows)
        yield Batch(rows, features or dict(preprocess_texts(model, [read[row] for row in rows], role)))


def encode_batches(
    model: SentenceTransformer,
    batches: Iterable[Batch],
    total: int,
    *,
    role: Role | None = None,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
) -> Vectors:
    """Return the vectors of tokenised sentences, (total, d) float32; zeros for rows in no batch.

    The ``role`` is that with which they were tokenised.
    """
    from sentence_transformers.util import batch_to_device, truncate_embeddings

    if precision not in get_args(ResolvedPrecision):
        raise UserError(
            f"unknown precision {precision!r}{did_you_mean(precision, get_args(ResolvedPrecision))}: fp32 or bf16"
        )
    device = model.device
    vectors: Vectors | None = None
    done = 0
    with measuring(model, device, precision):
        for batch in batches:
            # A copy: the modules write their results into the dictionary, and a cached batch is used again.
            features = batch_to_device(dict(batch.features), device)
            output = model(features, **task_of(model, role))["sentence_embedding"]
            output = truncate_embeddings(output, model.truncate_dim).float().cpu().numpy()
            if vectors is None:
                vectors = np.zeros((total, output.shape[1]), dtype=np.float32)
            vectors[batch.rows] = output
            done += len(batch.rows)
            if progress is not None:
                progress(done, total)
    if vectors is None:
        return np.zeros((total, model.get_embedding_dimension() or 0), dtype=np.float32)
    return vectors


def _rank_and_size() -> tuple[int, int]:
    """Return the rank of this process in its group, and the size of the group; (0, 1) without a group."""
    import torch.distributed as dist

    from holdfast.distributed import joined

    return (dist.get_rank(), dist.get_world_size()) if joined() else (0, 1)


def _summed(vectors: Vectors) -> Vectors:
    """Return the sum over the processes, which is exact, since for each row all but one have zeros."""
    import torch
    import torch.distributed as dist

    total = torch.from_numpy(vectors)
    dist.all_reduce(total)
    dist.barrier()
    return vectors


@contextlib.contextmanager
def measuring(model: torch.nn.Module, device: torch.device, precision: ResolvedPrecision) -> Iterator[None]:
    """Set evaluation mode without gradients, in the given precision, inside the block; restore the model afterwards."""
    import torch

    # With fp32 autocast is disabled explicitly: an evaluation inside a mixed-precision training must be fp32.
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
    with evaluating(model), own_forward(model), torch.inference_mode(), autocast:
        yield


def _without_unread_ends(model: SentenceTransformer, sentences: Sequence[str], role: Role | None) -> list[str]:
    """Return the sentences, very long ones without the ends that the model never reads."""
    if not keeps_the_beginning(model.tokenizer):
        return list(sentences)

    def count(batch: list[str]) -> list[int]:
        mask = preprocess_texts(model, batch, role).get("attention_mask")
        return [0] * len(batch) if mask is None or mask.ndim != 2 else [int(length) for length in mask.sum(dim=1)]

    return shortened(sentences, input_limit(model), count)


def _part(whole: Batch, rows: Sequence[int]) -> dict[str, Any] | None:
    """Return the features of some rows of a batch, padded to the longest.

    None if one is neither (rows, tokens) nor a word or a number for all rows.
    """
    mask = whole.features["attention_mask"]
    each = {name for name, value in whole.features.items() if not isinstance(value, (str, int))}
    if any(getattr(whole.features[name], "shape", None) != mask.shape for name in each):
        return None
    place = {row: index for index, row in enumerate(whole.rows)}
    order = [place[row] for row in rows]
    read = mask[order].any(dim=0)
    if int(read.sum()) != int(mask[order].sum(dim=1).max()):  # the texts do not all begin, or end, in one column
        return None
    return {name: value[order][:, read] if name in each else value for name, value in whole.features.items()}


def _token_lengths(
    model: SentenceTransformer, sentences: Sequence[str], whole: Sequence[str], cuts: Cuts, role: Role | None
) -> tuple[list[int], Batch | None]:
    """Return the tokens of each sentence, or its characters without an attention mask; count ``whole`` ones cut.

    With them comes the batch of all sentences, if there are so few that they were tokenised at once.
    """
    limit, prompt = input_limit(model), prompt_of(model, role) or ""
    lengths = [len(sentence) for sentence in sentences]
    by_characters = sorted(range(len(sentences)), key=lengths.__getitem__)
    for start in range(0, len(by_characters), _LENGTHS_AT_ONCE):
        rows = by_characters[start : start + _LENGTHS_AT_ONCE]
        part = [sentences[row] for row in rows]
        features = preprocess_texts(model, part, role)
        counts = count_tokens(model.tokenizer, [prompt + sentence for sentence in part], features, limit)
        texts = [whole[row] for row in rows]
        cuts.add(texts, counts.of_whole(part, texts), limit)
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.shape[0] != len(rows):
            rest = [whole[row] for row in by_characters[start + _LENGTHS_AT_ONCE :]]
            cuts.add(rest, TokenCounts([0] * len(rest), {}), limit)
            return [len(sentence) for sentence in sentences], None
        for row, length in zip(rows, mask.sum(dim=1).tolist(), strict=True):
            lengths[row] = int(length)
    at_once = 0 < len(sentences) <= _LENGTHS_AT_ONCE
    return lengths, Batch(by_characters, dict(features)) if at_once else None
