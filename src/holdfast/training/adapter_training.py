"""Training of adapters: what is refused before it, and what the adapters say about their base model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.adapter_folder import adapter_in
from holdfast.adapters import Lora, require_peft
from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.model_folder import TRANSFORMERS, model_modules
from holdfast.model_lookup import resolve_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.training.train_config import TrainConfig


def check_lora(config: TrainConfig, lora: Lora, *, shard: bool) -> None:
    """Refuse adapters that cannot be trained or saved as asked for.

    Raises:
        NotInstalled: peft is not installed.
        UserError: weights are to be sharded, or the adapter of an adapter, or of the mean of two layers, is to be saved
            alone.
    """
    require_peft("--lora")
    if shard:
        raise UserError("--lora does not go with sharded weights: launch without FSDP (adapters need little memory)")
    if lora.save == "adapter" and config.pooling == "last-two":
        raise UserError(
            "--lora save=adapter: --pooling last-two needs a setting of the transformer, which an adapter does not "
            "have: use save=merged"
        )
    if lora.save == "adapter" and adapter_in(resolve_model(config.model)) is not None:
        raise UserError(
            f"--lora save=adapter: {config.model} is an adapter, and an adapter of one could not be loaded: "
            "use save=merged"
        )


def adapter_base(spec: str) -> str:
    """Return what a saved adapter names as its base: a hub name, or the absolute path of the transformer's folder."""
    folder = resolve_model(spec)
    modules = model_modules(folder, spec)
    place = next((module.folder for module in modules if module.kind in TRANSFORMERS), folder)
    from_hub = place == folder and not expanded(spec).exists() and spec.count("/") == 1 and ":" not in spec
    return spec if from_hub else str(place.resolve())


def trainable_numbers(model: SentenceTransformer) -> tuple[int, int]:
    """Return how many numbers of a model are trained, and how many it has."""
    parameters = list(model.parameters())
    return sum(each.numel() for each in parameters if each.requires_grad), sum(each.numel() for each in parameters)
