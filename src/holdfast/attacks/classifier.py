"""The classifier under attack: texts in, logits out, whatever it is made of."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from holdfast.adversary.batches import in_batches
from holdfast.backbone import is_bert_shaped, one_token_alone
from holdfast.encoding import Precision, Progress, encode_sentences, measuring
from holdfast.errors import UserError, one_of
from holdfast.finding import quiet, resolve_model
from holdfast.models import load_sentence_transformer, one_line_errors
from holdfast.shortening import shortened_for

CLASSES_FILE = "classifier.json"
"""What says of a SentenceTransformer that its vectors are logits: ``{"classes": […], "task": …}``."""

Text = tuple[str, ...]
Logits = npt.NDArray[np.float32]

_UNLIMITED = 10**6  # a tokeniser without a limit of its own reports a number with thirty digits


class Classifier(ABC):
    """Tells the class of a text, or of a pair of texts. Made by `load_classifier`.

    Attributes:
        model: the network, in evaluation mode, in fp32, its parameters frozen.
        tokenizer: its Hugging Face tokeniser.
        classes: the classes' names, in the order of the logits.
        takes_pairs: whether it was trained on pairs; None where that is not known.
        source: how the user named it.
        max_tokens: what is longer is cut.
        has_gradients: whether the loss can be followed back to the embeddings.
    """

    has_gradients = True

    def __init__(
        self, model: Any, tokenizer: Any, classes: Sequence[str], takes_pairs: bool | None, source: str, max_tokens: int
    ) -> None:
        self.model, self.tokenizer = model.eval().requires_grad_(False), tokenizer
        self.classes, self.takes_pairs, self.source, self.max_tokens = list(classes), takes_pairs, source, max_tokens

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def logits(
        self, texts: Sequence[Text], *, precision: Precision = "fp32", progress: Progress | None = None
    ) -> Logits:
        """The logits of texts; each distinct one is computed once, in batches of like length.

        Args:
            texts: n texts, each a tuple of one text or, for a classifier of pairs, of two.
            precision: ``"fp32"``, or ``"bf16"`` for automatic mixed precision.
            progress: called with (texts done, distinct texts) after each batch.

        Returns:
            (n, classes) float32.

        Raises:
            UserError: single texts for a classifier of pairs, or the reverse; an unknown precision.
        """
        one_of("precision", precision, ("fp32", "bf16"))
        if not texts:
            return np.empty((0, len(self.classes)), dtype=np.float32)
        self._check(texts)
        distinct = list(dict.fromkeys(texts))
        row = {text: index for index, text in enumerate(distinct)}
        return self._distinct_logits(distinct, precision, progress)[[row[text] for text in texts]]

    @abstractmethod
    def _distinct_logits(self, texts: Sequence[Text], precision: Precision, progress: Progress | None) -> Logits: ...

    def _check(self, texts: Sequence[Text]) -> None:
        sizes = {len(text) for text in texts}
        wanted = {1, 2} if self.takes_pairs is None else {1 + self.takes_pairs}
        if len(sizes) > 1 or not sizes <= wanted:
            kind = {True: "pairs of texts", False: "single texts", None: "single texts or pairs, all alike"}
            raise UserError(f"{self.source} takes {kind[self.takes_pairs]}, got tuples of {sorted(sizes)} texts")


class _TransformerClassifier(Classifier):
    """A Hugging Face sequence classifier."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._last_layer = _layer_read_at_first_token(self.model)

    def _distinct_logits(self, texts: Sequence[Text], precision: Precision, progress: Progress | None) -> Logits:
        encoded = tokenise(self.tokenizer, texts, self.max_tokens)
        shortened = nullcontext() if self._last_layer is None else one_token_alone(self._last_layer)
        with shortened:
            return compute_logits(self.model, self.tokenizer, encoded, precision=precision, progress=progress)


class _FrozenClassifier(Classifier):
    """A SentenceTransformer whose last layer gives logits."""

    has_gradients = False

    def _distinct_logits(self, texts: Sequence[Text], precision: Precision, progress: Progress | None) -> Logits:
        return encode_sentences(self.model, [text[0] for text in texts], precision=precision, progress=progress)


def tokenise(tokenizer: Any, texts: Sequence[Text], max_tokens: int) -> dict[str, list[list[int]]]:
    """Texts, or pairs of texts, as a tokeniser's lists without padding; of a pair the longer text is cut first."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    if len(columns) == 1:  # how much of each text of a pair is read depends on the other one
        columns = [shortened_for(tokenizer, columns[0], max_tokens)]
    # A long text is cut on purpose; the tokeniser's warning of it would be one line among thousands.
    return dict(tokenizer(*columns, truncation=True, max_length=max_tokens, verbose=False))


def compute_logits(
    model: Any,
    tokenizer: Any,
    encoded: dict[str, list[list[int]]],
    *,
    precision: Precision = "fp32",
    progress: Progress | None = None,
) -> Logits:
    """The logits of tokenised texts, (n, classes) float32, computed in batches of like length.

    The model comes back in the mode (training or evaluation) it was in.

    Args:
        model: a Hugging Face sequence classifier.
        tokenizer: its tokeniser.
        encoded: n texts, as `tokenise` gives them; at least one.
        precision: ``"fp32"`` or ``"bf16"``.
        progress: called with (texts done, n) after each batch.
    """
    device = next(model.parameters()).device
    total = len(encoded["input_ids"])
    logits = np.empty((total, model.config.num_labels), dtype=np.float32)
    done = 0
    with measuring(model, device, precision):
        for rows, features in in_batches(tokenizer, encoded, device):
            logits[rows] = model(**features).logits.float().cpu().numpy()
            done += len(rows)
            if progress is not None:
                progress(done, total)
    return logits


def _layer_read_at_first_token(model: Any) -> nn.Module | None:
    """The last layer, if its other tokens than the first need not be computed: the logits are the same without them.

    Tried, not looked up: heads read the first token, the last one or all.
    """
    stack = getattr(model.base_model, "encoder", None) or getattr(model.base_model, "transformer", None)
    layers = getattr(stack, "layer", None)
    if not layers or not is_bert_shaped(layers[-1]):
        return None
    ids = torch.arange(8, device=next(model.parameters()).device).remainder(model.config.vocab_size).view(1, 8)
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        whole = model(**features).logits
        try:
            with one_token_alone(layers[-1]):
                short = model(**features).logits
        except (IndexError, RuntimeError):  # what reads another token does not find it
            return None
    same = whole.shape == short.shape and torch.allclose(whole, short, rtol=1e-3, atol=1e-4)
    last: nn.Module = layers[-1]
    return last if same else None


def token_limit(tokenizer: Any, config: Any) -> int:
    """How many tokens a model takes: its tokeniser's limit, and never more than it has positions for."""
    limit = int(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    if limit > _UNLIMITED:
        limit = _UNLIMITED
    if not positions or positions < 0 or limit <= positions:
        return limit
    return int(positions) - 2  # RoBERTa's positions begin at 2


def load_classifier(path_or_name: str, device: str | None = None, *, regression: bool = False) -> Classifier:
    """The classifier that a name stands for, in fp32.

    Args:
        path_or_name: the folder or hub name of a Hugging Face sequence classifier, or the folder of a classifier on a
            frozen encoder (``holdfast finetune --frozen``).
        device: where to put it; None takes the machine's best.
        regression: take a model of one output too, whose ``logits`` are then scores, (n, 1). Attacks need classes.

    Raises:
        UserError: there is no such model, it is not safe to load, or it is not a classifier.
    """
    folder = resolve_model(path_or_name)
    if (folder / "modules.json").is_file():
        return _load_frozen(folder, path_or_name, device)
    return _load_transformer(folder, path_or_name, device, regression)


def _load_frozen(folder: Path, spec: str, device: str | None) -> Classifier:
    path = folder / CLASSES_FILE
    if not path.is_file():
        raise UserError(
            f"{spec} is a sentence encoder, not a classifier: make one of it with `holdfast finetune {spec} --task …`"
        )
    try:
        classes = json.loads(path.read_text(encoding="utf-8"))["classes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the list of a classifier's classes: make the classifier again") from error
    model = load_sentence_transformer(spec, device=device)
    if not isinstance(classes, list) or model.get_embedding_dimension() != len(classes):
        raise UserError(f"{path}: its classes do not fit the model's last layer: make the classifier again")
    limit = model.max_seq_length or _UNLIMITED
    return _FrozenClassifier(model, model.tokenizer, classes, False, spec, limit)


def _load_transformer(folder: Path, spec: str, device: str | None, regression: bool) -> Classifier:
    from sentence_transformers.util import get_device_name
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with quiet(), one_line_errors(folder, spec):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    _refuse_unfilled(model, report["missing_keys"], spec)
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UserError(f"{spec} has no tokeniser vocabulary: put the model's tokenizer.json (or vocab.txt) beside it")
    if tokenizer.pad_token_id is None:
        raise UserError(f"{spec}: its tokeniser has no padding token: set one in its tokenizer_config.json")
    if model.config.num_labels < 2 and not regression:
        raise UserError(f"{spec} gives one number for a text, not classes, and attacks need classes: name a classifier")
    classes = [str(model.config.id2label[index]) for index in range(model.config.num_labels)]
    takes_pairs = (getattr(model.config, "holdfast", None) or {}).get("takes_pairs")
    limit = token_limit(tokenizer, model.config)
    model = model.to(device or get_device_name())
    return _TransformerClassifier(model, tokenizer, classes, takes_pairs, spec, limit)


def _refuse_unfilled(model: Any, missing: set[str], spec: str) -> None:
    """Refuse a model that has parameters in no weights file: they are random."""
    head = sorted(name for name in missing if not name.startswith(f"{model.base_model_prefix}."))
    if head:
        raise UserError(
            f"{spec} has no classification head ({head[0]} is missing): fine-tune it with `holdfast finetune {spec}`"
        )
    if missing:
        raise UserError(f"{spec}: the weights do not match config.json: {min(missing)} is missing")
