"""Encoding many sentences fast: each distinct one once, sorted by length, in batches of a fixed number of tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from holdfast.data.batching import CPU_TOKENS_PER_BATCH, GPU_TOKENS_PER_BATCH, plan_batches
from holdfast.errors import UserError, did_you_mean
from holdfast.functions import VectorFunction
from holdfast.limits import Cuts, cut_rows, input_limit
from holdfast.models import evaluating, own_forward
from holdfast.shortening import shortened

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from holdfast.functions import SentenceEncoder

Precision = Literal["fp32", "bf16"]
Progress = Callable[[int, int], None]
Vectors = npt.NDArray[np.float32]

# Sentences tokenised in one call to learn their lengths: enough to keep a fast tokeniser's threads busy.
_LENGTHS_AT_ONCE = 512


@dataclass(frozen=True)
class Batch:
    """Tokenised sentences: ``features`` as the model takes them, and the row of each in the result."""

    rows: list[int]
    features: dict[str, Any]


def encode_sentences(
    model: SentenceEncoder,
    sentences: Sequence[str],
    *,
    precision: Precision = "fp32",
    tokens_per_batch: int | None = None,
    progress: Progress | None = None,
    shared: bool = False,
    cuts: Cuts | None = None,
) -> Vectors:
    """The vectors of ``sentences``, equal to ``model.encode(sentences)`` up to rounding.

    Each distinct sentence is encoded once. The model's own prompt, length limit, modules and ``truncate_dim`` apply.
    The model comes back in the mode (training or evaluation) in which each of its modules was.

    Args:
        model: any SentenceTransformer, or a function, which computes as it does whatever ``precision`` says.
        sentences: n texts.
        precision: ``"fp32"``, or ``"bf16"`` for automatic mixed precision (cosine to fp32 about 0.9999).
        tokens_per_batch: tokens of one batch, padding included; ``None`` takes the measured best for the device. Of a
            function: the most texts in a call, if that is less than its own limit.
        progress: called with (sentences done, distinct sentences) after each batch.
        shared: the processes that have joined encode every W-th batch each, and all of them get all vectors: bit by
            bit those of one process. All must call it together, with the same sentences.
        cuts: what counts the distinct sentences that are longer than the model reads. Of a function nothing is known.

    Returns:
        (n, d) float32, row i for ``sentences[i]``.

    Raises:
        UserError: an unknown precision, or a batch size below one.
    """
    distinct = list(dict.fromkeys(sentences))
    row = {sentence: index for index, sentence in enumerate(distinct)}
    if isinstance(model, VectorFunction):
        vectors = model.vectors(distinct, most=tokens_per_batch, progress=progress)
        return vectors[[row[sentence] for sentence in sentences]]
    rank, world = _place() if shared else (0, 1)

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress(min(done * world, total), total)  # the others are as far as this one

    batches = tokenise(model, distinct, tokens_per_batch=tokens_per_batch, share=(rank, world), cuts=cuts)
    vectors = encode_batches(model, batches, len(distinct), precision=precision, progress=tell)
    if world > 1:
        vectors = _summed(vectors)
    return vectors[[row[sentence] for sentence in sentences]]


def tokenise(
    model: SentenceTransformer,
    sentences: Sequence[str],
    *,
    tokens_per_batch: int | None = None,
    share: tuple[int, int] = (0, 1),
    cuts: Cuts | None = None,
) -> Iterator[Batch]:
    """Cut ``sentences`` into batches of similar length, longest first, each tokenised when it is asked for.

    Longest first means that a batch too large for the memory fails at once, and that an estimate of the time left,
    made from the sentences done, is too long rather than too short.

    Args:
        model: any SentenceTransformer.
        sentences: n texts.
        tokens_per_batch: as for `encode_sentences`.
        share: of which of how many processes: every W-th batch from the r-th on. What is in a batch does not depend
            on it.
        cuts: as for `encode_sentences`.

    Raises:
        UserError: ``tokens_per_batch`` is below one.
    """
    if tokens_per_batch is None:
        tokens_per_batch = CPU_TOKENS_PER_BATCH if model.device.type == "cpu" else GPU_TOKENS_PER_BATCH
    if tokens_per_batch < 1:
        raise UserError(f"tokens_per_batch must be at least 1, not {tokens_per_batch}")
    read = _without_unread(model, sentences)
    lengths = _token_lengths(model, read, sentences, cuts if cuts is not None else Cuts())
    rank, world = share
    for rows in plan_batches(lengths, tokens_per_batch)[rank::world]:
        yield Batch(rows, _preprocess(model, [read[row] for row in rows]))


def encode_batches(
    model: SentenceTransformer,
    batches: Iterable[Batch],
    total: int,
    *,
    precision: Precision = "fp32",
    progress: Progress | None = None,
) -> Vectors:
    """The vectors of tokenised sentences, (total, d) float32; zeros for a row that is in no batch."""
    from sentence_transformers.util import batch_to_device, truncate_embeddings

    if precision not in get_args(Precision):
        raise UserError(f"unknown precision {precision!r}{did_you_mean(precision, get_args(Precision))}: fp32 or bf16")
    device = model.device
    vectors: Vectors | None = None
    done = 0
    with measuring(model, device, precision):
        for batch in batches:
            # A copy: the modules write their results into the dictionary, and a cached batch is used again.
            features = batch_to_device(dict(batch.features), device)
            output = model(features)["sentence_embedding"]
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


def _place() -> tuple[int, int]:
    """This process's number among those that have joined, and how many they are."""
    import torch.distributed as dist

    from holdfast.distributed import joined

    return (dist.get_rank(), dist.get_world_size()) if joined() else (0, 1)


def _summed(vectors: Vectors) -> Vectors:
    """The sum over the processes, which is exact where all but one have zeros."""
    import torch
    import torch.distributed as dist

    total = torch.from_numpy(vectors)
    dist.all_reduce(total)
    dist.barrier()
    return vectors


@contextlib.contextmanager
def measuring(model: torch.nn.Module, device: torch.device, precision: Precision) -> Iterator[None]:
    """Evaluation mode without gradients, in the precision that is said; the model comes back as it was.

    Args:
        model: what is measured; it may be in training.
        device: where it is.
        precision: ``"fp32"`` or ``"bf16"``.
    """
    import torch

    # Switched off, not merely left out: an evaluation inside a mixed-precision training step must still be fp32.
    autocast = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
    with evaluating(model), own_forward(model), torch.inference_mode(), autocast:
        yield


def default_prompt(model: SentenceTransformer) -> str | None:
    """The text that ``model.encode`` puts before every sentence unless it is told another; as a rule there is none."""
    return model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None


def _preprocess(model: SentenceTransformer, sentences: list[str]) -> dict[str, Any]:
    """Tokenise as ``model.encode`` does, the default prompt included."""
    return dict(model.preprocess(sentences, prompt=default_prompt(model)))


def _without_unread(model: SentenceTransformer, sentences: Sequence[str]) -> list[str]:
    """Return the sentences, the very long ones without the ends that the model never reads."""

    def count(some: list[str]) -> list[int]:
        mask = _preprocess(model, some).get("attention_mask")
        return [0] * len(some) if mask is None or mask.ndim != 2 else [int(length) for length in mask.sum(dim=1)]

    return shortened(sentences, input_limit(model), count)


def _token_lengths(model: SentenceTransformer, sentences: Sequence[str], whole: Sequence[str], cuts: Cuts) -> list[int]:
    """Return the tokens of each sentence after truncation; characters where the model shows no attention mask.

    What is cut is counted on the way, under the names of the ``whole`` sentences.
    """
    limit, prompt = input_limit(model), default_prompt(model) or ""
    lengths = [len(sentence) for sentence in sentences]
    by_characters = sorted(range(len(sentences)), key=lengths.__getitem__)
    for start in range(0, len(by_characters), _LENGTHS_AT_ONCE):
        rows = by_characters[start : start + _LENGTHS_AT_ONCE]
        part = [sentences[row] for row in rows]
        features = model.preprocess(part, prompt=default_prompt(model))
        cut = cut_rows(model.tokenizer, [prompt + sentence for sentence in part], features, limit)
        cuts.add([whole[row] for row in rows], cut, limit)
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.shape[0] != len(rows):
            cuts.add([whole[row] for row in by_characters[start + _LENGTHS_AT_ONCE :]], [], limit)
            return [len(sentence) for sentence in sentences]
        for row, length in zip(rows, mask.sum(dim=1).tolist(), strict=True):
            lengths[row] = int(length)
    return lengths
