"""Transformers models with a head, such as masked language models, from their own folders or those of adapters.

An adapter is saved for the body of such a model. Its base is loaded with the head; the adapter is merged into the body.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.adapter_folder import adapter_in, base_folder
from holdfast.adapters import merge_into_body
from holdfast.errors import UserError
from holdfast.model_folder import TRANSFORMERS, model_modules
from holdfast.model_lookup import resolve_model


def folder_of_config(folder: Path, spec: str) -> Path:
    """Return the folder with the configuration and the head of a model: ``folder``, or that of an adapter's base.

    Raises:
        UserError: the base model is not at hand, or is refused.
    """
    base = base_folder(folder, spec, resolve_model)
    if base is None:
        return folder
    return next((module.folder for module in model_modules(base, spec) if module.kind in TRANSFORMERS), base)


def load_with_head(kind: Any, folder: Path, spec: str, **given: Any) -> tuple[Any, dict[str, Any]]:
    """Load a transformers model with a head, in fp32, and return it with the report of its loading.

    Args:
        kind: one of transformers' classes, such as ``AutoModelForMaskedLM``.
        folder: a folder that `resolve_model` returned, or that of its transformer.
        spec: the name that the user gave.
        given: more arguments of ``kind.from_pretrained``.

    Raises:
        UserError: an adapter does not fit its base model, or has a head of its own.
    """
    import torch

    model, report = kind.from_pretrained(
        folder_of_config(folder, spec),
        dtype=torch.float32,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
        **given,
    )
    if (adapter := adapter_in(folder)) is not None:
        merge_into_body(model, adapter, spec)
    return model, report


def refuse_adapter(folder: Path, spec: str, role: str) -> None:
    """Refuse the folder of an adapter where a whole model is needed.

    Raises:
        UserError: it is one; ``role`` says what is needed, as in "a classifier".
    """
    if adapter_in(folder) is not None:
        raise UserError(
            f"{spec} is an adapter, and {role} is read whole: merge it into its base model first, with peft's "
            "merge_and_unload, and save that"
        )
