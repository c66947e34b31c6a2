"""The classifier under attack: texts in, logits out, for every supported type of model."""

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
from torch import Tensor, nn

from holdfast.adversary.token_batches import in_batches
from holdfast.backbone import is_bert_shaped, one_token_alone
from holdfast.backends.backend_options import Backend
from holdfast.data.class_names import ClassNames
from holdfast.encoding import Progress, encode_sentences, measuring
from holdfast.errors import UserError, one_of
from holdfast.input_limits import UNLIMITED, Cuts, checked_limit, count_tokens, input_limit
from holdfast.loading import loading
from holdfast.model_folder import CLASSES_FILE, read_json
from holdfast.model_lookup import resolve_model
from holdfast.model_with_head import refuse_adapter
from holdfast.models import backend_of, load_sentence_transformer, store_notices
from holdfast.precision import ResolvedPrecision
from holdfast.shortening import shortened_for
from holdfast.text_prompts import PromptOptions

Text = tuple[str, ...]
Logits = npt.NDArray[np.float32]


class Classifier(ABC):
    """Classifier of texts, or of pairs of texts. Created by `load_classifier`.

    Attributes:
        model: the network, in evaluation mode, in fp32, its parameters frozen.
        tokenizer: its Hugging Face tokeniser.
        classes: the classes' names, in the order of the logits.
        takes_pairs: whether it was trained on pairs; None if unknown.
        source: the name that the user gave.
        max_tokens: longer inputs are truncated to this length.
        has_gradients: whether the loss can be differentiated with respect to the embeddings.
        class_names: the classes with their meanings, if the model names the known task it was trained on.
    """

    has_gradients = True

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        classes: Sequence[str],
        takes_pairs: bool | None,
        source: str,
        max_tokens: int,
        trained_on: str | None = None,
    ) -> None:
        self.model, self.tokenizer = model.eval().requires_grad_(False), tokenizer
        self.classes, self.takes_pairs, self.source, self.max_tokens = list(classes), takes_pairs, source, max_tokens
        self.class_names = ClassNames.of(source, classes, trained_on)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return torch.device(self.model.device)

    def logits(
        self,
        texts: Sequence[Text],
        *,
        precision: ResolvedPrecision = "fp32",
        progress: Progress | None = None,
        cuts: Cuts | None = None,
    ) -> Logits:
        """Return the logits of texts; each distinct text is computed once, in batches of similar length.

        Args:
            texts: n texts, each a tuple of one text or, for a classifier of pairs, of two.
            precision: ``"fp32"``, or ``"bf16"`` for automatic mixed precision.
            progress: called with (texts done, distinct texts) after each batch.
            cuts: counter of the distinct texts that are longer than the input limit of the model.

        Returns:
            (n, classes) float32.

        Raises:
            UserError: single texts for a classifier of pairs, or vice versa; an unknown precision.
        """
        one_of("precision", precision, ("fp32", "bf16"))
        if not texts:
            return np.empty((0, len(self.classes)), dtype=np.float32)
        self._check(texts)
        distinct = list(dict.fromkeys(texts))
        row = {text: index for index, text in enumerate(distinct)}
        return self._distinct_logits(distinct, precision, progress, cuts)[[row[text] for text in texts]]

    @abstractmethod
    def _distinct_logits(
        self, texts: Sequence[Text], precision: ResolvedPrecision, progress: Progress | None, cuts: Cuts | None
    ) -> Logits: ...

    def _check(self, texts: Sequence[Text]) -> None:
        sizes = {len(text) for text in texts}
        wanted = {1, 2} if self.takes_pairs is None else {1 + self.takes_pairs}
        if len(sizes) > 1 or not sizes <= wanted:
            kind = {True: "pairs of texts", False: "single texts", None: "either single texts or pairs"}
            raise UserError(f"{self.source} takes {kind[self.takes_pairs]}, got tuples of {sorted(sizes)} texts")


class _TransformerClassifier(Classifier):
    """A Hugging Face sequence classifier."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.has_gradients = backend_of(self.model) is None
        self._last_layer = _layer_read_at_first_token(self.model) if self.has_gradients else None

    def _distinct_logits(
        self, texts: Sequence[Text], precision: ResolvedPrecision, progress: Progress | None, cuts: Cuts | None
    ) -> Logits:
        encoded = tokenise(self.tokenizer, texts, self.max_tokens, cuts)
        shortened = nullcontext() if self._last_layer is None else one_token_alone(self._last_layer)
        with shortened:
            return compute_logits(self.model, self.tokenizer, encoded, precision=precision, progress=progress)


class _FrozenClassifier(Classifier):
    """A SentenceTransformer whose last layer gives logits."""

    has_gradients = False

    def _distinct_logits(
        self, texts: Sequence[Text], precision: ResolvedPrecision, progress: Progress | None, cuts: Cuts | None
    ) -> Logits:
        single = [text[0] for text in texts]
        return encode_sentences(self.model, single, precision=precision, progress=progress, cuts=cuts)


def tokenise(
    tokenizer: Any, texts: Sequence[Text], max_tokens: int, cuts: Cuts | None = None
) -> dict[str, list[list[int]]]:
    """Tokenise texts, or pairs of texts, without padding; in a pair, the longer text is truncated first.

    Truncated texts are added to ``cuts``.
    """
    columns = [list(column) for column in zip(*texts, strict=True)]
    whole = columns[0]
    if len(columns) == 1:  # the truncation of each text of a pair depends on the other one
        columns = [shortened_for(tokenizer, whole, max_tokens)]
    # Long texts are truncated on purpose, so the tokeniser's warning is switched off.
    encoded = tokenizer(*columns, truncation=True, max_length=max_tokens, verbose=False)
    if cuts is not None:
        counts = count_tokens(tokenizer, texts, encoded, max_tokens)
        if len(columns) == 1:
            counts = counts.of_whole(columns[0], whole)
        cuts.add(texts, counts, max_tokens)
    return dict(encoded)


def compute_logits(
    model: Any,
    tokenizer: Any,
    encoded: dict[str, list[list[int]]],
    *,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
) -> Logits:
    """Return the logits of tokenised texts, (n, classes) float32, computed in batches of similar length.

    The mode of the model (training or evaluation) is restored afterwards.

    Args:
        model: a Hugging Face sequence classifier.
        tokenizer: its tokeniser.
        encoded: n texts, as returned by `tokenise`; at least one.
        precision: ``"fp32"`` or ``"bf16"``.
        progress: called with (texts done, n) after each batch.
    """
    device = torch.device(model.device)
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
    """Return the last layer of a sequence classifier if its head reads the first token only; otherwise None.

    This is tested with an input, not read from the configuration: heads read the first token, the last one or all. The
    outputs at all other tokens are made undefined, which a head that reads them would pass on even with weights of 0.
    """
    stack = getattr(model.base_model, "encoder", None) or getattr(model.base_model, "transformer", None)
    layers = getattr(stack, "layer", None)
    if not layers or not is_bert_shaped(layers[-1]):
        return None
    last: nn.Module = layers[-1]
    ids = torch.arange(8, device=next(model.parameters()).device).remainder(model.config.vocab_size).view(1, 8)
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def undefine_others(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        return torch.cat([output[:, :1], torch.full_like(output[:, 1:], torch.nan)], dim=1)

    with torch.inference_mode():
        whole = model(**features).logits
        with last.register_forward_hook(undefine_others):
            first = model(**features).logits
        try:
            with one_token_alone(last):
                short = model(**features).logits
        except (IndexError, RuntimeError):  # the head reads another token, which was not computed
            return None
    same = all(logits.shape == whole.shape and torch.allclose(logits, whole, 1e-3, 1e-4) for logits in (first, short))
    return last if same else None


def load_classifier(
    path_or_name: str,
    device: str | None = None,
    *,
    regression: bool = False,
    prompts: PromptOptions | None = None,
    backend: Backend | None = None,
) -> Classifier:
    """Load a classifier, in fp32.

    Args:
        path_or_name: the folder or hub name of a Hugging Face sequence classifier, or the folder of a classifier on a
            frozen encoder (``holdfast finetune --frozen``).
        device: the device; None: the best one of the machine.
        regression: also accept a model with one output, whose ``logits`` are scores, (n, 1). Attacks need classes.
        prompts: the choice of a prompt, for a classifier on a frozen encoder; None: its default.
        backend: the form in which the transformer is run (`holdfast.backends`); None: torch.

    Raises:
        UserError: there is no such model, it is not safe to load, or it is not a classifier; a prompt for a sequence
            classifier, which takes none.
    """
    folder = resolve_model(path_or_name)
    if (folder / "modules.json").is_file() and not is_sequence_classifier(folder):
        return _load_frozen(folder, path_or_name, device, prompts or PromptOptions(), backend)
    for option in () if prompts is None else prompts.prompt_settings:
        raise UserError(f"--{option.replace('_', '-')} is for an encoder, and {path_or_name} is a sequence classifier")
    refuse_adapter(folder, path_or_name, "a classifier")
    return _load_transformer(folder, path_or_name, device, regression, backend)


def is_sequence_classifier(folder: Path) -> bool:
    """Return True for a Hugging Face sequence classifier, including one wrapped as a CrossEncoder.

    Raises:
        UserError: a file of the folder is damaged.
    """
    if (folder / "modules.json").is_file():
        path = folder / "config_sentence_transformers.json"
        if not path.is_file() or _mapping(read_json(path)).get("model_type") != "CrossEncoder":
            return False
    config = folder / "config.json"  # a CrossEncoder has its transformer's files at the top
    kinds = _mapping(read_json(config)).get("architectures") if config.is_file() else None
    named = [str(kind) for kind in kinds] if isinstance(kinds, list) else []
    return any(name.endswith("ForSequenceClassification") for name in named)


def _mapping(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a dict, otherwise an empty dict: the file of a model may hold anything."""
    return value if isinstance(value, dict) else {}


def trained_on(config: Any) -> str | None:
    """Return the task in a transformers configuration that holdfast fine-tuned the model on; None for other models."""
    task = _mapping(getattr(config, "holdfast", None)).get("task")
    return task if isinstance(task, str) else None


def class_names_of(config: Any, spec: str) -> list[str]:
    """Return the names of a transformers configuration's classes, in the order of their numbers.

    Raises:
        UserError: ``id2label`` does not number them from 0.
    """
    names = config.id2label
    if sorted(names) != list(range(len(names))):
        numbers = ", ".join(map(str, list(names)[:10]))
        raise UserError(f"{spec}: id2label in config.json must number the classes from 0 on, and it has {numbers}")
    return [str(names[number]) for number in range(len(names))]


def _load_frozen(
    folder: Path, spec: str, device: str | None, prompts: PromptOptions, backend: Backend | None
) -> Classifier:
    path = folder / CLASSES_FILE
    if not path.is_file():
        raise UserError(
            f"{spec} is a sentence encoder, not a classifier: make one of it with `holdfast finetune {spec} --task …`"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        classes, task = content["classes"], content.get("task")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the list of a classifier's classes: make the classifier again") from error
    model = load_sentence_transformer(spec, device=device, prompts=prompts, backend=backend, scores=True)
    if not isinstance(classes, list) or model.get_embedding_dimension() != len(classes):
        raise UserError(f"{path}: its classes do not fit the model's last layer: make the classifier again")
    limit = input_limit(model) or UNLIMITED
    return _FrozenClassifier(model, model.tokenizer, list(map(str, classes)), False, spec, limit, task)


def _load_transformer(
    folder: Path, spec: str, device: str | None, regression: bool, backend: Backend | None
) -> Classifier:
    from sentence_transformers.util import get_device_name
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with loading(folder, spec) as reading:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    store_notices(model, reading.notices)
    _refuse_unfilled(model, report["missing_keys"], spec)
    refuse_missing_vocabulary(tokenizer, spec)
    limit = checked_limit(tokenizer, model, spec)
    settle_padding(model, tokenizer)
    if model.config.num_labels < 2 and not regression:
        raise UserError(f"{spec} gives one number for a text, not classes, and attacks need classes: name a classifier")
    classes = class_names_of(model.config, spec)
    takes_pairs = _mapping(getattr(model.config, "holdfast", None)).get("takes_pairs")
    takes_pairs = takes_pairs if isinstance(takes_pairs, bool) else None  # the file may hold anything
    if backend is None or backend.is_torch:
        shown = model.to(device or get_device_name())
    else:
        from holdfast.backends.graph_classifier import graph_classifier

        shown = graph_classifier(model, tokenizer, limit, backend, folder, spec)
        store_notices(shown, reading.notices)
    return _TransformerClassifier(shown, tokenizer, classes, takes_pairs, spec, limit, trained_on(model.config))


def settle_padding(model: Any, tokenizer: Any) -> None:
    """Give a classifier without a padding token one: a decoder classifies the last token of a row that is another.

    It is that of its tokeniser. If texts end with that token, a decoder reads their end there, and another special
    token becomes the padding of both.
    """
    config = model.config.get_text_config()
    if config.pad_token_id is not None:
        return
    last: list[int] = tokenizer("a")["input_ids"][-1:]
    if last == [tokenizer.pad_token_id]:
        others = [token for token in tokenizer.all_special_tokens if token != tokenizer.pad_token]
        if others:
            tokenizer.pad_token = others[0]
    config.pad_token_id = tokenizer.pad_token_id


def refuse_missing_vocabulary(tokenizer: Any, spec: str) -> None:
    """Raise an error if a tokeniser has no vocabulary: transformers creates an empty one if its files are missing.

    Raises:
        UserError: the tokeniser has only special tokens.
    """
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UserError(f"{spec} has no tokeniser vocabulary: put the model's tokenizer.json (or vocab.txt) beside it")


def _refuse_unfilled(model: Any, missing: set[str], spec: str) -> None:
    """Raise an error if parameters are missing from the weights file: they would be random."""
    head = sorted(name for name in missing if not name.startswith(f"{model.base_model_prefix}."))
    if head:
        raise UserError(
            f"{spec} has no classification head ({head[0]} is missing): fine-tune it with `holdfast finetune {spec}`"
        )
    if missing:
        raise UserError(f"{spec}: the weights do not match config.json: {min(missing)} is missing")
