"""The masks that L2P-CSR learns for given sentences, as in the paper's Figure 3."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file

from holdfast.devices import random_numbers_kept
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.input_limits import Cuts, count_cut, input_limit, limited_to, lowered
from holdfast.models import evaluating
from holdfast.number_ranges import in_range
from holdfast.objectives.l2p_csr import L2PCSR
from holdfast.prompt import template_length
from holdfast.prompt_tokens import added_tokens
from holdfast.text_prompts import PromptOptions, prompt_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.adversary.weakening import Weakening

Array = npt.NDArray[np.float64]

METHOD = "l2p-csr"
VIEWS = 2

# Records that a training run writes to its folder, and the file of the objective in a checkpoint's folder.
_RECORDS = ("results.json", "run.json")
_OBJECTIVE_FILE = "objective.safetensors"
_SHORTEST = 3

OTHERS = (
    "The harbour was frozen from December until the middle of March.",
    "She has played the cello since she was six.",
    "Prices rose faster than wages for the third year in a row.",
    "A small lizard was lying on the warm wall.",
    "The company will close two of its five factories.",
    "He repaired the roof before the rain came.",
    "Water boils at a lower temperature in the mountains.",
    "They were married in a village church in 1921.",
    "Nobody had told the driver about the detour.",
    "The second act is much shorter than the first.",
    "Her brother works as a nurse in the capital.",
    "The team lost the final after extra time.",
    "Wheat and barley are grown in the valley.",
    "I could not find my keys this morning.",
    "The bridge was designed by a Swiss engineer.",
    "Most of the students had read the book twice.",
    "The new law forbids smoking in restaurants.",
    "Two children were building a castle of sand.",
    "The telescope can see galaxies that formed early.",
    "Our train stopped for an hour outside the station.",
    "The soup needs more salt and a little pepper.",
    "He denied that he had ever met the minister.",
    "The island has no cars and only one shop.",
    "A storm destroyed the lighthouse in the last century.",
    "You can borrow up to ten books at a time.",
    "The patient recovered within a week of the operation.",
    "The river forms the border between the two states.",
    "Her first novel sold more than a million copies.",
    "The dog barked at the postman every day.",
    "Copper conducts electricity better than iron does.",
    "The museum is closed on Mondays and on holidays.",
    "They painted the kitchen yellow and the door blue.",
)
"""Sentences that fill the rest of a batch, each about a different subject."""


@dataclass(frozen=True)
class Settings:
    """Settings of the learning of the masks.

    Attributes:
        options: options of :class:`~holdfast.objectives.l2p_csr.L2PCSR` except its head; the others are its defaults.
        source: the file that the options come from, or None for the defaults.
        head: a file with the trained head, or None for no head (an exported model has none).
        max_length: tokens per sentence, without a prompt's template; longer sentences are cut as in training.
        prompts: the prompt of the training.
    """

    options: Mapping[str, Any]
    source: Path | None
    head: Path | None
    max_length: int = 32
    prompts: PromptOptions = field(default_factory=PromptOptions)


@dataclass(frozen=True)
class SentenceMasks:
    """The tokens and features weakened in one sentence of L tokens, at k layers, in N draws.

    Attributes:
        text: the sentence.
        tokens: its L tokens as the model sees them, the special ones included.
        first: (k, 2, L), the token masks of the first draw in both views: 0 where a token is weakened, 1 where it is
            kept; None where tokens are never weakened.
        weakened: (k, L), the share of draws and views in which each token was weakened; None as for ``first``.
        overlap: (k,), the share of the tokens weakened in one view that the other view weakened too, over all draws;
            NaN where no token was weakened; None as for ``first``.
        features: (k, d), the share of draws and views in which each feature was weakened; None where features are never
            weakened.
    """

    text: str
    tokens: tuple[str, ...]
    first: Array | None
    weakened: Array | None
    overlap: Array | None
    features: Array | None


def trained_settings(folder: Path) -> Settings:
    """Return the settings of a model's training if its folder holds the record of a run of L2P-CSR, else the defaults.

    For a checkpoint, the record is in the parent folder, and the trained head is used too.

    Args:
        folder: the model's folder.

    Raises:
        UserError: the record cannot be read.
    """
    is_checkpoint = (folder / _OBJECTIVE_FILE).is_file()
    for path in ((folder.parent if is_checkpoint else folder) / name for name in _RECORDS):
        if not path.is_file():
            continue
        record = _read_record(path)
        protocol = record.get("protocol", record)  # run.json holds the protocol at its top level
        if isinstance(protocol, dict) and protocol.get("method") == METHOD:
            options = dict(protocol.get("options") or {})
            head = folder / _OBJECTIVE_FILE if is_checkpoint and options.get("head") != "none" else None
            options.pop("head", None)
            length = (protocol.get("training") or {}).get("max_length", Settings.max_length)
            return Settings(options, path, head, int(length), _prompt_in(protocol))
    return Settings({}, None, None)


def _prompt_in(protocol: Mapping[str, Any]) -> PromptOptions:
    """Return the prompt of a training as options; the default, if the model had no prompts."""
    if "prompt" not in protocol:
        return PromptOptions()
    return PromptOptions(prompt=protocol["prompt"]) if protocol["prompt"] else PromptOptions(no_prompt=True)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path}, the record of the model's training: {error}") from error
    if not isinstance(record, dict):
        raise UserError(f"{path}: not the record of a training run: no JSON object")
    return record


def learn_masks(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    settings: Settings,
    others: Sequence[str] = OTHERS,
    draws: int = 20,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
    cuts: Cuts | None = None,
) -> list[SentenceMasks]:
    """Learn L2P-CSR's masks for sentences, as in a step of its training, from several starting points.

    Each draw starts from other keep-probabilities and other dropout; the model does not change. Without the trained
    head, the loss that the masks maximise is that of the sentence vectors themselves.

    Args:
        model: the model; its dropout is on during the learning.
        texts: sentences, all different.
        settings: settings of the objective.
        others: sentences that complete the batch, as negatives; ``texts`` among them are left out.
        draws: number of draws, N.
        seed: the seed of the draws; the first draws are the same for any N.
        progress: called with (draws done, draws).
        cuts: counter of the ``texts`` that are cut.

    Returns:
        One for each of ``texts``.

    Raises:
        UserError: a seed out of range, fewer than two sentences in total, or options that do not fit together, do not
            fit the model or learn no masks.
    """
    in_range("seed", seed)
    batch = [*texts, *(other for other in others if other not in texts)]
    if len(batch) < 2:
        raise UserError("masks are learned against other sentences: give at least two, or --others")
    in_range("draws", draws)
    objective = _objective(model, settings)
    encoder = Encoder(model)
    if settings.max_length < _SHORTEST:
        raise UserError(f"--max-length {settings.max_length}: at least {_SHORTEST} tokens are needed to hold one word")
    with limited_to(model, lowered(settings.max_length, model, template_length(model) + added_tokens(model))):
        features = encoder.tokenise(batch)
        prompt = prompt_of(model) or ""
        count_cut(model.tokenizer, [prompt + text for text in texts], input_limit(model), cuts)
    real = encoder.text_mask(features).bool().cpu().numpy()[: len(texts)]
    tokens = [
        tuple(model.tokenizer.convert_ids_to_tokens(features["input_ids"][row][torch.from_numpy(real[row])].tolist()))
        for row in range(len(texts))
    ]
    tallies = [_Tally(text, tokens[row], real[row]) for row, text in enumerate(texts)]
    with random_numbers_kept(model.device), evaluating(model):
        model.train()  # dropout is part of the loss that is maximised; evaluating() restores each module's own mode
        for draw in range(draws):
            torch.manual_seed(int(np.random.SeedSequence([seed, draw]).generate_state(1)[0]))
            masks = objective.masks(encoder, features)
            for row, tally in enumerate(tallies):
                tally.add(masks, row, len(batch))
            if progress is not None:
                progress(draw + 1, draws)
    return [tally.masks() for tally in tallies]


def _objective(model: SentenceTransformer, settings: Settings) -> L2PCSR:
    options = {**settings.options, "head": "none" if settings.head is None else "tanh"}
    if options.get("noise", "mask") != "mask":
        raise UserError(
            f"noise={options['noise']} learns no masks: give a model trained with masks, or --set noise=mask"
        )
    if not options.get("token_mask", True) and not options.get("feature_mask", True):
        raise UserError("token_mask=false and feature_mask=false leave no masks to learn")
    try:
        objective = L2PCSR(model, **options)
        if settings.head is not None:
            objective.load_own_state(load_file(settings.head))
    except (ValueError, RuntimeError) as error:
        raise UserError(f"{METHOD}: {error}") from error
    return objective.to(model.device)


class _Tally:
    """The masks of one sentence, summed over the draws."""

    def __init__(self, text: str, tokens: tuple[str, ...], real: npt.NDArray[np.bool_]) -> None:
        self.text, self.tokens, self._real = text, tokens, real
        self._token_masks: list[Array] = []
        self._features: Array | None = None
        self._draws = 0

    def add(self, masks: Weakening, row: int, batch: int) -> None:
        """Add one draw's masks of this sentence: rows ``row`` and ``batch + row``, its two views."""
        rows = [row, batch + row]
        if masks.tokens is not None:
            self._token_masks.append(masks.tokens[:, rows].double().cpu().numpy()[..., self._real])
        if masks.features is not None:
            shared = masks.features.shape[1] == 1
            weak = 1.0 - masks.features[:, [0] if shared else rows].double().mean(dim=1).cpu().numpy()
            self._features = weak if self._features is None else self._features + weak
        self._draws += 1

    def masks(self) -> SentenceMasks:
        """Return the masks and their shares over all draws."""
        features = None if self._features is None else self._features / self._draws
        if not self._token_masks:
            return SentenceMasks(self.text, self.tokens, None, None, None, features)
        kept = np.stack(self._token_masks)  # (N, k, 2, L)
        weak = 1.0 - kept
        both = weak.prod(axis=2).sum(axis=(0, 2))
        either = weak.sum(axis=(0, 2, 3)) / VIEWS
        overlap = np.divide(both, either, out=np.full_like(both, np.nan), where=either > 0)
        return SentenceMasks(self.text, self.tokens, kept[0], weak.mean(axis=(0, 2)), overlap, features)


def layer_rows(masks: Sequence[SentenceMasks]) -> list[dict[str, Any]]:
    """Return a result row for each layer, over all sentences together.

    Returns:
        ``{task: "masks", split: "layer 0", n, metrics}``: layer 0 is the embedding output, n the number of tokens;
        ``metrics`` are, ×100, ``weakened_tokens`` (the share weakened, over tokens, draws and views), ``both_views``
        (the share of the tokens weakened in one view that the other view weakened too; left out if no token was
        weakened) and ``weakened_features``.
    """
    count = sum(len(mask.tokens) for mask in masks)
    first = next(part for part in (masks[0].weakened, masks[0].features) if part is not None)
    rows = []
    for layer in range(len(first)):
        metrics: dict[str, float] = {}
        if masks[0].weakened is not None:
            weak = np.array([mask.weakened[layer].sum() for mask in masks if mask.weakened is not None])
            overlap = np.array([mask.overlap[layer] for mask in masks if mask.overlap is not None])
            metrics["weakened_tokens"] = 100.0 * float(weak.sum()) / count
            if weak.sum() > 0:
                metrics["both_views"] = 100.0 * float(np.nansum(weak * overlap) / weak.sum())
        if masks[0].features is not None:
            shares = [mask.features[layer].mean() for mask in masks if mask.features is not None]
            metrics["weakened_features"] = 100.0 * float(np.mean(shares))
        rows.append({"task": "masks", "split": f"layer {layer}", "n": count, "metrics": metrics})
    return rows
