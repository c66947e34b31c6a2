"""Folders of adapters: their files, and the base model that they name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import UserError
from holdfast.model_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, TRANSFORMERS, model_modules, read_json_object

__all__ = ["ADAPTER_CONFIG", "ADAPTER_WEIGHTS", "BASE", "adapter_in", "base_folder", "base_name"]

BASE = "base_model_name_or_path"


def adapter_in(folder: Path) -> Path | None:
    """Return the folder of a model's adapter, usually ``folder`` itself; None: the model is not an adapter."""
    if (folder / ADAPTER_CONFIG).is_file():
        return folder
    if not (folder / "modules.json").is_file():
        return None
    places = (module.folder for module in model_modules(folder) if module.kind in TRANSFORMERS)
    return next((place for place in places if (place / ADAPTER_CONFIG).is_file()), None)


def base_name(adapter: Path, spec: str) -> str:
    """Return the name or the folder of the base model of an adapter.

    Raises:
        UserError: it names none, or it is another kind of adapter than LoRA.
    """
    config = read_json_object(adapter / ADAPTER_CONFIG)
    base, kind = config.get(BASE), config.get("peft_type")
    if kind != "LORA":
        raise UserError(f"{spec} is an adapter of the kind {kind!r} ({ADAPTER_CONFIG}): holdfast reads LoRA")
    if not isinstance(base, str) or not base.strip():
        raise UserError(f"{spec} is an adapter that names no base model ({BASE} in {ADAPTER_CONFIG})")
    return base


def base_folder(folder: Path, spec: str, resolve: Callable[[str], Path]) -> Path | None:
    """Return the folder of the base model, found by ``resolve``; None if the model in ``folder`` is not an adapter.

    Raises:
        UserError: the base model is not at hand, or is refused.
    """
    adapter = adapter_in(folder)
    if adapter is None:
        return None
    base = base_name(adapter, spec)
    try:
        found = resolve(base)
    except UserError as error:
        raise UserError(
            f"{spec} is an adapter of {base}, which cannot be read: {error}; put the base model there, or name another "
            f"as {BASE} in {adapter / ADAPTER_CONFIG}"
        ) from error
    if adapter_in(found) is not None:
        raise UserError(f"{spec} is an adapter of {base}, which is an adapter too: merge that one into its base first")
    return found
