"""The masked language model to train, new or continued; its head is computed only at the masked positions."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.backbone_dropout import dropout_of
from holdfast.errors import UserError
from holdfast.input_limits import token_limit
from holdfast.loading import loading, quiet
from holdfast.model_folder import type_without_masks
from holdfast.model_lookup import BUNDLED_MLM, resolve_model
from holdfast.model_with_head import folder_of_config, load_with_head
from holdfast.models import evaluating
from holdfast.pretraining.batches import Group
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.pretraining.vocabulary import embedding_rows
from holdfast.training.cpu import fast_on_cpu

_NEW_DROPOUT = 0.1  # as in BERT; contrastive methods need dropout for their views
# Model types whose layers consist of attention.self, attention.output(context, input) and a feed-forward part.
_BERT_SHAPED = ("bert", "roberta", "xlm-roberta", "electra")


def new_model(settings: PretrainSettings, tokenizer: Any) -> Any:
    """Return a BERT with random weights and tied embeddings, of the shape in the settings; the caller sets the seed."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=embedding_rows(tokenizer),
            hidden_size=settings.hidden,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            intermediate_size=settings.intermediate,
            max_position_embeddings=settings.max_length,
            hidden_dropout_prob=_NEW_DROPOUT,
            attention_probs_dropout_prob=_NEW_DROPOUT,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def continued_model(spec: str, tokenizer: Any, max_length: int) -> Any:
    """Load an existing masked language model, in fp32; an adapter is merged into its base model.

    Raises:
        UserError: the model does not exist, has no masked-LM head, or has a maximum length below ``max_length``.
    """
    from transformers import AutoModelForMaskedLM

    folder = resolve_model(spec)
    if kind := type_without_masks(folder_of_config(folder, spec)):
        raise UserError(
            f"--model {spec} is a {kind} model, which has no masked-LM head: name a masked language model, such as "
            f"{BUNDLED_MLM}"
        )
    with loading(folder, spec):
        model, report = load_with_head(AutoModelForMaskedLM, folder, spec)
    if report["missing_keys"]:
        raise UserError(
            f"--model {spec} has no masked-LM head ({sorted(report['missing_keys'])[0]} is missing): name a model that "
            f"has one, such as {BUNDLED_MLM}"
        )
    if (rows := embedding_rows(tokenizer)) > model.config.vocab_size:
        raise UserError(f"--model {spec}: its tokeniser has {rows:,} tokens, the model {model.config.vocab_size:,}")
    limit = token_limit(tokenizer, model)
    if max_length > limit:
        raise UserError(f"--max-length {max_length}: {spec} takes {limit} tokens at most")
    return model


def predict(model: Any, group: Group) -> Tensor:
    """Return the logits at the places to predict, (M, V), equal to the model's logits there."""
    features = {name: group[name] for name in ("input_ids", "attention_mask") if name in group}
    with _computed_at(model, group["places"]):
        logits: Tensor = model(**features).logits[0]
    return logits


def loss_of(model: Any, group: Group) -> Tensor:
    """Return the summed cross-entropy of the places to predict, in nats."""
    return F.cross_entropy(predict(model, group).float(), group["labels"], reduction="sum")


@contextlib.contextmanager
def _computed_at(model: Any, places: Tensor) -> Iterator[None]:
    """Compute the head only at some places; in BERT-shaped models also the last layer after its attention."""

    def chosen(hidden: Tensor) -> Tensor:
        return hidden.flatten(0, 1)[places][None]  # (1, M, d)

    def of_the_output(_module: nn.Module, _args: Any, output: Any) -> Any:
        output.last_hidden_state = chosen(output.last_hidden_state)
        return output

    def of_the_context(_module: nn.Module, _args: Any, output: Any) -> Any:
        return chosen(output[0]), *output[1:]

    def of_the_input(_module: nn.Module, args: Any) -> Any:
        context, hidden = args
        return context, chosen(hidden)

    if model.config.model_type in _BERT_SHAPED:
        attention = model.base_model.encoder.layer[-1].attention
        handles = [
            attention.self.register_forward_hook(of_the_context),
            attention.output.register_forward_pre_hook(of_the_input),
        ]
    else:
        handles = [model.base_model.register_forward_hook(of_the_output)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def measure(model: Any, groups: list[Group], *, bf16: bool) -> dict[str, float]:
    """Measure how well the model predicts the tokens of `held_out_groups`, with ``bf16`` in mixed precision.

    Returns:
        ``loss``, the mean cross-entropy in nats; ``perplexity``, its exponential; ``masked_accuracy`` ×100.
    """
    total, right, count = 0.0, 0, 0
    with evaluating(model), torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=bf16):
        for group in groups:
            if not len(group["labels"]):
                continue
            moved = {name: value.to(model.device) for name, value in group.items()}
            logits = predict(model, moved).float()
            total += F.cross_entropy(logits, moved["labels"], reduction="sum").item()
            right += int((logits.argmax(dim=-1) == moved["labels"]).sum())
            count += len(logits)
    loss = total / count
    return {"loss": loss, "perplexity": math.exp(loss), "masked_accuracy": 100 * right / count}


@torch.no_grad()
def fill(model: Any, tokenizer: Any, prompts: tuple[str, ...], count: int = 5) -> list[dict[str, Any]]:
    """Return the most probable tokens for the mask of each prompt, with their probabilities.

    Raises:
        UserError: a prompt without exactly one mask token.
    """
    check_prompts(tokenizer, prompts)
    predictions = []
    with evaluating(model):
        for prompt in prompts:
            encoded = tokenizer(prompt, return_tensors="pt", truncation=True)
            place = encoded["input_ids"][0].tolist().index(tokenizer.mask_token_id)
            features = {name: value.to(model.device) for name, value in encoded.items()}
            best = model(**features).logits[0, place].float().softmax(dim=-1).topk(count)
            words = [tokenizer.decode([token]).strip() for token in best.indices.tolist()]
            top = [[word, round(chance, 4)] for word, chance in zip(words, best.values.tolist(), strict=True)]
            predictions.append({"prompt": prompt, "top": top})
    return predictions


def check_prompts(tokenizer: Any, prompts: tuple[str, ...]) -> None:
    """Refuse prompts that cannot be filled.

    Raises:
        UserError: a prompt without exactly one mask token.
    """
    for prompt in prompts:
        found = tokenizer(prompt, truncation=True)["input_ids"].count(tokenizer.mask_token_id)
        if found != 1:
            raise UserError(f"the prompt {prompt!r} has {found} masks: give exactly one {tokenizer.mask_token}")


def load_finished(folder: Path) -> tuple[Any, Any]:
    """Load the exported model and its tokeniser with transformers, in fp32."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    with quiet():
        model = AutoModelForMaskedLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
        return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextlib.contextmanager
def ready_to_train(model: Any, dropout: float | None) -> Iterator[None]:
    """Set the dropout of the training and, on a CPU, faster kernels, inside the block."""
    with dropout_of(model, dropout), fast_on_cpu(model):
        yield
